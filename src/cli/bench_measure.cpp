#include "cli/bench_measure.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>

namespace shoal::cli::bench {
namespace {

constexpr std::int64_t alignment = 256;

std::int64_t padded(std::int64_t nbytes) {
  return std::max<std::int64_t>(1, (nbytes + alignment - 1) / alignment) * alignment;
}

template <class T>
T over_ranks(Communicator& comm, T value, ReduceOp op) {
  const Tensor t = Tensor::from_blob(&value, {1}, dtype_of<T>::value, {});
  comm.all_reduce(t, op);
  return value;
}

double over_ranks(Communicator& comm, double seconds, int average) {
  if (average == 0) {
    const Tensor t = Tensor::from_blob(&seconds, {1}, DType::f64, {});
    comm.broadcast(t, 0);
    return seconds;
  }
  const ReduceOp op = average == 1 ? ReduceOp::sum : average == 2 ? ReduceOp::min : ReduceOp::max;
  return over_ranks(comm, seconds, op) / (average == 1 ? comm.size() : 1);
}

}  // namespace

std::int64_t last_level_cache() {
  // The kernel's account of the first processor's caches; glibc's counts some virtual machines' many times over.
  std::int64_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    std::int64_t kib = 0;
    if (file >> kib) largest = std::max(largest, kib << 10);
  }
  return largest > 0 ? largest : std::int64_t{32} << 20;
}

Rotation::Rotation(Communicator& comm, bool private_buffers, std::int64_t largest) {
  const auto allocator = private_buffers ? make_caching_allocator({}) : comm.allocator();
  // All ranks must ask for the same, and hosts may differ.
  const std::int64_t cache = over_ranks(comm, last_level_cache(), ReduceOp::max);
  const std::int64_t bytes = padded(std::max(cache, largest));
  first_ = Tensor::empty({bytes}, DType::u8, allocator);
  second_ = Tensor::empty({bytes}, DType::u8, allocator);
  for (const Tensor& t : {first_, second_}) std::memset(t.data(), 0, static_cast<std::size_t>(bytes));
}

Buffers Rotation::at(const Problem& p, bool in_place, std::int64_t i) const {
  const std::int64_t stride = padded(p.nbytes());
  const std::int64_t buffers = std::clamp<std::int64_t>(first_.nbytes() / stride, 1, most);
  const std::int64_t begin = (i % buffers) * stride;
  return place(p, first_.slice(begin, begin + stride), second_.slice(begin, begin + stride), in_place);
}

Measurement measure(Communicator& comm, const Problem& p, bool in_place, const Options& o,
                    const Rotation& rotation) {
  Measurement m;
  std::int64_t i = 0;
  for (; i < o.warmup; ++i) run(comm, p, rotation.at(p, in_place, i));
  comm.barrier();
  const auto start = std::chrono::steady_clock::now();
  for (const std::int64_t end = i + o.iters; i < end; ++i) run(comm, p, rotation.at(p, in_place, i));
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  m.seconds = over_ranks(comm, passed.count() / o.iters, o.average);
  if (o.check == 0) return m;
  std::int64_t wrong = 0;
  for (int round = 0; round < o.check; ++round, ++i) {
    const Buffers b = rotation.at(p, in_place, i);
    prepare(p, b, round);
    comm.barrier();
    run(comm, p, b);
    wrong += count_wrong(p, b, round);
    comm.barrier();  // nobody prepares the next round while another still reads this one's result
  }
  m.wrong = over_ranks(comm, wrong, ReduceOp::sum);
  return m;
}

}  // namespace shoal::cli::bench
