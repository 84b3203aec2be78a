// Whether an all-reduce goes on while the ranks compute: its time alone, the computation's alone, and both at once.
//
//     mpirun -n 4 bench_overlap [MIB=64] [ROUNDS=5]
//
// On rank 0: the medians over rounds of the slowest rank's time, and "both / longer", 1.00 where all of the shorter one
// is hidden. The computation is arithmetic in registers on one thread, made as long as the all-reduce takes.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/stream.hpp"
#include "shoal/core/threads.hpp"

namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

// So many rounds of a chain that no compiler can shorten.
double compute(long rounds) {
  double x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  for (long i = 0; i < rounds; ++i)
    for (double& v : x) v = v * 0.999999 + 1e-6;
  return x[0] + x[1] + x[2] + x[3] + x[4] + x[5] + x[6] + x[7];
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// The slowest rank's time of `work`, begun by all at once.
template <class Work>
double slowest(shoal::Communicator& world, const shoal::Tensor& cell, const Work& work) {
  world.barrier();
  const auto start = Clock::now();
  work();
  cell.as<double>()[0] = seconds(start);
  world.all_reduce(cell, shoal::ReduceOp::max);
  return cell.as<double>()[0];
}

int run(std::int64_t mib, int rounds) {
  const auto world = shoal::make_world();
  shoal::set_num_threads(1);
  const shoal::Tensor data = shoal::Tensor::empty({mib << 18}, shoal::DType::f32, world->allocator());
  std::fill_n(data.as<float>(), data.numel(), 1.0f / 1024);
  double cell_storage = 0;
  const auto cell = shoal::Tensor::from_blob(&cell_storage, {1}, shoal::DType::f64, {});
  const shoal::Stream stream = shoal::Stream::create({});
  volatile double sink = 0;

  const auto reduce = [&] { world->all_reduce(data); };
  slowest(*world, cell, reduce);
  const double once = slowest(*world, cell, reduce);
  const auto begin = Clock::now();
  sink = compute(10000000);
  cell.as<double>()[0] = once / seconds(begin);
  world->broadcast(cell, 0);
  const long steps = static_cast<long>(1e7 * cell.as<double>()[0]);
  const auto arithmetic = [&] { sink = compute(steps); };
  const auto both = [&] {
    const shoal::Work work = world->all_reduce_async(data, data, shoal::ReduceOp::sum, stream);
    arithmetic();
    work.synchronize();
  };
  std::vector<double> alone, computing, together;
  for (int r = 0; r < rounds; ++r) {
    alone.push_back(slowest(*world, cell, reduce));
    computing.push_back(slowest(*world, cell, arithmetic));
    together.push_back(slowest(*world, cell, both));
  }
  const double a = median(alone), c = median(computing), t = median(together);
  if (world->rank() == 0)
    fmt::print(
        "{} MiB on {} ranks ({}): all-reduce {:.1f} ms, computation {:.1f} ms, both {:.1f} ms; both / longer "
        "{:.2f}\n",
        mib, world->size(), world->backend(), 1e3 * a, 1e3 * c, 1e3 * t, t / std::max(a, c));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t mib = argc > 1 ? std::atoll(argv[1]) : 64;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  if (mib < 1 || rounds < 1) {
    fmt::print(stderr, "usage: bench_overlap [MIB=64] [ROUNDS=5]\n");
    return 2;
  }
  try {
    return run(mib, rounds);
  } catch (const std::exception& e) {
    return shoal::end_failed_job(e.what());
  }
}
