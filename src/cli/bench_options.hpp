// What `shoal bench comm` was asked for: nccl-tests' flags, by its names.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/bench_collectives.hpp"

namespace shoal::cli::bench {

struct Options {
  // As given.
  std::string min_bytes = "32M", max_bytes = "32M", step_bytes = "1M", dtype = "float", root = "0";
  std::vector<std::string> ops;  // collectives and reductions
  int step_factor = 1, iters = 20, warmup = 5, check = 1, average = 1, ranks = 0;
  double timeout = 0;
  bool private_buffers = false;
  std::string json, tune;

  // Resolved.
  Collective collective = Collective::all_reduce;
  std::vector<Reduction> reductions;
  std::vector<DType> dtypes;
  std::vector<std::int64_t> sizes;  // bytes, ascending

  // ranks is known only when they have met. "all": -1.
  std::vector<int> roots(int ranks) const;
};

void add_options(CLI::App& command, Options& options);
// Fills what is resolved. Throws ConfigError naming the flag, its value and what would be accepted.
void resolve(Options& options);

std::string_view nccl_name(DType dtype);
std::string_view nccl_name(Reduction op);
bool takes(DType dtype, Reduction op);  // whole numbers have no averages and no scales
std::int64_t parse_bytes(const std::string& flag, const std::string& text);  // 4, 64K, 1.5M, 2G

}  // namespace shoal::cli::bench
