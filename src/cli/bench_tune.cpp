#include "cli/bench_tune.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>

#include "cli/bench_measure.hpp"
#include "shoal/core/error.hpp"
#include "shoal/core/file.hpp"

namespace shoal::cli::bench {
namespace {

// A threshold, the values tried, and the operations that feel it.
struct Threshold {
  const char* name;
  std::vector<std::int64_t> candidates;
  std::vector<std::int64_t> sizes;
  bool private_buffers;
  Collective collective = Collective::all_reduce;
};

constexpr std::int64_t kib = 1024, mib = 1024 * kib;

const std::vector<Threshold>& thresholds() {
  static const std::vector<Threshold> all = {
      {"local.inline_bytes",
       {0, 512, 1 * kib, 2 * kib, 4 * kib},
       {256, 1 * kib, 2 * kib, 4 * kib, 8 * kib},
       false},
      {"local.stage_bytes",
       {32 * kib, 64 * kib, 128 * kib, 256 * kib, 512 * kib},
       {64 * kib, 1 * mib, 16 * mib},
       true},
      {"local.whole_ranks", {1, 2, 4}, {64 * kib, 1 * mib, 16 * mib}, true},
      {"local.single_copy_bytes",
       {16 * kib, 64 * kib, 256 * kib, 1 * mib, std::int64_t{1} << 40},
       {64 * kib, 1 * mib, 16 * mib},
       true,
       Collective::all_gather},
      {"local.single_copy_sum_bytes",
       {64 * kib, 256 * kib, 1 * mib, 4 * mib, std::int64_t{1} << 40},
       {256 * kib, 1 * mib, 16 * mib},
       true},
      {"local.stream_bytes", {256 * kib, 1 * mib, 4 * mib, 16 * mib}, {512 * kib, 2 * mib, 32 * mib}, false},
  };
  return all;
}

using Values = std::map<std::string, std::int64_t>;

std::string text_of(const Values& values) {
  std::string text = "# Thresholds of communicators on this machine: SHOAL_COMM_TUNING names this file.\n";
  for (const auto& [name, value] : values) text += fmt::format("{} = {}\n", name, value);
  return text;
}

// Every process reads a file of its own while it tries.
class Trial {
 public:
  Trial() : path_(std::filesystem::temp_directory_path() / fmt::format("shoal_tune_{}", ::getpid())) {}
  ~Trial() {
    ::unsetenv("SHOAL_COMM_TUNING");
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  void set(const Values& values) const {
    std::ofstream(path_) << text_of(values);
    ::setenv("SHOAL_COMM_TUNING", path_.c_str(), 1);
  }

 private:
  const std::filesystem::path path_;
};

// The mean of the logarithms of the times: each size counts alike. The same on all ranks.
double cost(const Options& o, const Threshold& t, const InWorld& in_world) {
  double result = 0;
  std::mutex mutex;
  in_world([&](Communicator& comm) {
    const Rotation rotation(comm, t.private_buffers, t.sizes.back());
    Options quick = o;
    quick.check = 0;
    quick.warmup = 1;
    double sum = 0;
    for (const std::int64_t size : t.sizes) {
      const std::int64_t parts = t.collective == Collective::all_gather ? comm.size() : 1;
      const Problem p{t.collective, DType::f32, ReduceOp::sum, 0, comm.rank(), comm.size(), size / 4 / parts};
      quick.iters = static_cast<int>(std::clamp<std::int64_t>(8 * mib / size, 1, 25 * o.iters));
      sum += std::log(measure(comm, p, false, quick, rotation).seconds);
    }
    const std::lock_guard lock(mutex);  // ranks may be threads; all have the same sum
    result = sum / static_cast<double>(t.sizes.size());
  });
  return result;
}

}  // namespace

void tune(const Options& o, bool writes, const InWorld& in_world) {
  std::unique_ptr<AtomicFile> file;
  if (writes) file = std::make_unique<AtomicFile>(o.tune, raise<ConfigError>);
  Values best;
  const Trial trial;
  for (const Threshold& t : thresholds()) {
    std::map<std::int64_t, double> costs;
    // In turns, and the least of them: what else the machine does strikes all candidates alike.
    for (int round = 0; round < 3; ++round)
      for (const std::int64_t candidate : t.candidates) {
        Values values = best;
        values[t.name] = candidate;
        trial.set(values);
        const double now = cost(o, t, in_world);
        costs[candidate] = round == 0 ? now : std::min(costs[candidate], now);
      }
    for (const auto& [candidate, seconds] : costs)
      if (writes) fmt::print("# {} = {}: {:.2f} us\n", t.name, candidate, std::exp(seconds) * 1e6);
    best[t.name] = std::min_element(costs.begin(), costs.end(), [](const auto& a, const auto& b) {
                     return a.second < b.second;
                   })->first;
  }
  if (!writes) return;
  const std::string text = text_of(best);
  fmt::print("{}", text);
  file->append(text.data(), text.size());
  file->commit();
}

}  // namespace shoal::cli::bench
