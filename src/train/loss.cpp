#include "shoal/train/loss.hpp"

#include "shoal/ops/cross_entropy.hpp"
#include "shoal/shard/tree.hpp"
#include "train/host.hpp"

namespace shoal::train {

std::int64_t agree_count(Communicator& comm, const Stream& stream, std::int64_t local) {
  const Tensor t = to_device<std::int64_t>(stream, {local});
  comm.all_reduce(t);
  return to_host<std::int64_t>(stream, t)[0];
}

double microbatch_loss(const Stream& stream, const Tensor& loss) {
  const Tensor sum = Tensor::empty({1}, DType::f64, stream);
  ops::loss_sum(stream, loss.flat(), sum);
  return to_host<double>(stream, sum)[0];
}

std::vector<double> gather_losses(Communicator& comm, const Stream& stream, const std::vector<double>& sums) {
  const Tensor all =
      Tensor::empty({comm.size() * static_cast<std::int64_t>(sums.size())}, DType::f64, stream);
  comm.all_gather(to_device(stream, sums), all);
  return to_host<double>(stream, all);
}

double tree_sum(std::vector<double> leaves) {
  if (leaves.empty()) return 0.0;
  shard::tree_reduce(static_cast<std::int64_t>(leaves.size()), [&](std::int64_t i, std::int64_t j) {
    leaves[static_cast<std::size_t>(i)] += leaves[static_cast<std::size_t>(j)];
  });
  return leaves[0];
}

}  // namespace shoal::train
