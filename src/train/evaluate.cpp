// The mean loss over the validation part. Windows are computed in groups whose place depends on the job
// alone, and each window's loss is one leaf of the tree, so that the sum's bits do not depend on how ranks
// share the groups.
#include <algorithm>
#include <utility>

#include "shoal/core/error.hpp"
#include "shoal/core/threads.hpp"
#include "shoal/ops/cross_entropy.hpp"
#include "shoal/shard/split.hpp"
#include "shoal/train/loss.hpp"
#include "train/host.hpp"
#include "train/trainer_impl.hpp"

namespace shoal::train {

double Trainer::Impl::evaluate() {
  if (!data->val) throw ConfigError("there is no validation part: data.val is empty and data.split is 1");
  set_num_threads(job.train.threads);
  const data::Dataset& val = *data->val;
  const std::int64_t seq = val.seq(), windows = val.samples();
  const std::int64_t group = std::min(job.train.micro_batch, windows);  // as in training: no more memory
  const std::int64_t groups = (windows + group - 1) / group;
  const shard::Range mine = shard::split(groups, comm->size(), comm->rank());
  const std::int64_t most = shard::split(groups, comm->size(), 0).size();

  const Tensor sums = Tensor::zeros({most * group}, DType::f64, stream);
  for (std::int64_t g = mine.first; g < mine.last; ++g) {
    const std::int64_t n = std::min(group, windows - g * group);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(n * seq)), targets(tokens.size());
    data::fill_samples(val, g * group, n, host_view(tokens), host_view(targets));
    nn::Microbatch mb;
    mb.samples = n;
    mb.seq = seq;
    mb.dtype = types.compute;
    mb.training = false;
    mb.stream = stream;
    const Tensor loss =
        model->evaluate(to_device(stream, std::move(tokens)), to_device(stream, std::move(targets)), mb);
    for (std::int64_t w = 0; w < n; ++w) {
      const std::int64_t at = (g - mine.first) * group + w;
      ops::loss_sum(stream, loss.flat().slice(w * seq, (w + 1) * seq), sums.slice(at, at + 1));
    }
  }
  const std::vector<double> all = gather_losses(*comm, stream, to_host<double>(stream, sums));

  std::vector<double> leaves;  // without what pads the ranks to equal counts
  for (int r = 0; r < comm->size(); ++r) {
    const shard::Range theirs = shard::split(groups, comm->size(), r);
    const std::int64_t n = std::min(theirs.last * group, windows) - std::min(theirs.first * group, windows);
    const auto first = all.begin() + r * most * group;
    leaves.insert(leaves.end(), first, first + n);
  }
  return tree_sum(std::move(leaves)) / static_cast<double>(windows * seq);
}

double Trainer::Impl::evaluate_average() {
  double loss = 0;
  with_average([&] { loss = evaluate(); });
  return loss;
}

void Trainer::Impl::with_average(const std::function<void()>& body) {
  if (!average) throw ConfigError("there is no average of the weights: ema.decay is 0");
  average->to_gradients(engine->flat(), stream);
  const auto parameters = model->parameters();
  std::vector<Tensor> values;
  for (nn::Parameter* p : parameters) values.push_back(std::exchange(p->value, p->grad[0]));
  const auto restore = [&] {
    stream.synchronize();
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i]->value = values[i];
  };
  try {
    body();
  } catch (...) {
    restore();
    throw;
  }
  restore();
}

}  // namespace shoal::train
