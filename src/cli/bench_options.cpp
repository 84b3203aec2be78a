#include "cli/bench_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <utility>

#include "shoal/core/error.hpp"

namespace shoal::cli::bench {
namespace {

// nccl-tests' names first: they are what is printed.
struct TypeName {
  std::string_view nccl, ours;
  DType dtype;
};
constexpr TypeName types[] = {
    {"uint8", "u8", DType::u8},        {"int32", "i32", DType::i32}, {"int64", "i64", DType::i64},
    {"half", "f16", DType::f16},       {"float", "f32", DType::f32}, {"double", "f64", DType::f64},
    {"bfloat16", "bf16", DType::bf16},
};
struct OpName {
  std::string_view nccl, ours;
  Reduction op;
};
constexpr OpName reductions[] = {
    {"sum", "sum", ReduceOp::sum},         {"prod", "product", ReduceOp::product},
    {"max", "max", ReduceOp::max},         {"min", "min", ReduceOp::min},
    {"avg", "average", ReduceOp::average}, {"mulsum", "mulsum", {ReduceOp::sum, 1.0}},
};

template <class Table>
std::string names_of(const Table& table) {
  std::vector<std::string_view> names;
  for (const auto& row : table) names.push_back(row.nccl);
  return fmt::format("{}", fmt::join(names, ", "));
}

void resolve_ops(Options& o) {
  bool all = false, chosen = false;
  for (const std::string& text : o.ops) {
    if (const auto collective = find_collective(text)) {
      if (std::exchange(chosen, true))
        throw ConfigError(
            fmt::format("--op {}: one collective a run, and {} was given too", text, name(o.collective)));
      o.collective = *collective;
      continue;
    }
    bool known = text == "all";
    all = all || known;
    for (const OpName& row : reductions)
      if (text == row.nccl || text == row.ours) {
        o.reductions.push_back(row.op);
        known = true;
      }
    if (!known)
      throw ConfigError(fmt::format("--op {}: expected a collective ({}) or a reduction ({}, all)", text,
                                    fmt::join(collective_names, ", "), names_of(reductions)));
  }
  if (all) {
    o.reductions.clear();
    for (const OpName& row : reductions) o.reductions.push_back(row.op);
  }
  if (o.reductions.empty()) o.reductions.push_back(ReduceOp::sum);
}

void resolve_types(Options& o) {
  for (const TypeName& row : types)
    if (o.dtype == "all" || o.dtype == row.nccl || o.dtype == row.ours) o.dtypes.push_back(row.dtype);
  if (o.dtypes.empty())
    throw ConfigError(fmt::format("--datatype {}: expected {} or all", o.dtype, names_of(types)));
  for (const Reduction op : o.reductions)
    if (o.reductions.size() == 1 && o.dtypes.size() == 1 && !takes(o.dtypes[0], op))
      throw ConfigError(
          fmt::format("--op {} of {}: for half, bfloat16, float and double only", nccl_name(op), o.dtype));
}

void resolve_sizes(Options& o) {
  const std::int64_t least = parse_bytes("--minbytes", o.min_bytes),
                     most = parse_bytes("--maxbytes", o.max_bytes);
  const std::int64_t step = parse_bytes("--stepbytes", o.step_bytes);
  if (least > most)
    throw ConfigError(fmt::format("--minbytes {} is above --maxbytes {}", o.min_bytes, o.max_bytes));
  if (o.step_factor < 1)
    throw ConfigError(fmt::format("--stepfactor {}: expected 1 or above", o.step_factor));
  if (o.step_factor == 1 && step < 1)
    throw ConfigError(fmt::format("--stepbytes {}: expected 1 or above", o.step_bytes));
  if (o.step_factor > 1 && least == 0)
    throw ConfigError(
        fmt::format("--minbytes 0 with --stepfactor {} never grows: begin at 1 or above", o.step_factor));
  for (std::int64_t size = least; size <= most;) {
    o.sizes.push_back(size);
    if (o.step_factor > 1 ? size > most / o.step_factor : size > most - step) break;
    size = o.step_factor > 1 ? size * o.step_factor : size + step;
  }
}

void at_least(const char* flag, int value, int least) {
  if (value < least) throw ConfigError(fmt::format("{} {}: expected {} or above", flag, value, least));
}

}  // namespace

std::string_view nccl_name(DType dtype) {
  for (const TypeName& row : types)
    if (row.dtype == dtype) return row.nccl;
  return shoal::name(dtype);
}

std::string_view nccl_name(Reduction op) {
  for (const OpName& row : reductions)
    if (row.op.op == op.op && row.op.scaled == op.scaled) return row.nccl;
  return shoal::name(op.op);
}

bool takes(DType t, Reduction op) {
  const bool real = t == DType::f16 || t == DType::bf16 || t == DType::f32 || t == DType::f64;
  return real || (op.op != ReduceOp::average && !op.scaled);
}

std::int64_t parse_bytes(const std::string& flag, const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, value);
  double unit = 1;
  if (error == std::errc() && at != end) {
    const char letter = *at++;
    unit = letter == 'K' || letter == 'k'   ? 1024.0
           : letter == 'M' || letter == 'm' ? 1024.0 * 1024
           : letter == 'G' || letter == 'g' ? 1024.0 * 1024 * 1024
                                            : 0;
  }
  if (error != std::errc() || at != end || unit == 0 || !(value >= 0) || value * unit > std::ldexp(1.0, 52))
    throw ConfigError(fmt::format("{} {}: expected bytes, as 4, 64K, 1.5M or 2G", flag, text));
  return static_cast<std::int64_t>(value * unit);
}

std::vector<int> Options::roots(int ranks) const {
  std::vector<int> result;
  if (root == "all") {
    for (int r = 0; r < ranks; ++r) result.push_back(r);
    return result;
  }
  int value = -1;
  const char* end = root.data() + root.size();
  const auto [at, error] = std::from_chars(root.data(), end, value);
  if (error != std::errc() || at != end || value < 0 || value >= ranks)
    throw ConfigError(fmt::format("--root {}: expected 0 to {}, or all", root, ranks - 1));
  return {value};
}

void add_options(CLI::App& command, Options& o) {
  command.add_option("-b,--minbytes", o.min_bytes, "the least size, in bytes (suffixes K, M, G)")
      ->capture_default_str();
  command.add_option("-e,--maxbytes", o.max_bytes, "the largest size")->capture_default_str();
  command.add_option("-i,--stepbytes", o.step_bytes, "from one size to the next")->capture_default_str();
  command.add_option("-f,--stepfactor", o.step_factor, "a factor instead, when above 1")
      ->capture_default_str();
  command.add_option("-n,--iters", o.iters, "operations that are timed")->capture_default_str();
  command.add_option("-w,--warmup_iters", o.warmup, "operations before these")->capture_default_str();
  command.add_option("-c,--check", o.check, "operations whose results are checked; 0: none")
      ->capture_default_str();
  command.add_option("-d,--datatype", o.dtype, fmt::format("{} or all", names_of(types)))
      ->capture_default_str();
  command.add_option(
      "-o,--op", o.ops,
      fmt::format("a reduction ({} or all; by default sum), a collective ({}; by default all_reduce), or "
                  "one of each",
                  names_of(reductions), fmt::join(collective_names, ", ")));
  command.add_option("-r,--root", o.root, "a rank or all, for broadcast, reduce, gather and scatter")
      ->capture_default_str();
  command
      .add_option("-a,--average", o.average,
                  "the time shown is 0: rank 0's, 1: the mean, 2: the least, 3: the most")
      ->capture_default_str();
  command.add_option("-t,--nthreads,--ranks", o.ranks,
                     "ranks as threads of this process; by default those that a launcher started");
  command.add_option("-T,--timeout", o.timeout, "seconds that a rank waits for another");
  command.add_flag("--private", o.private_buffers,
                   "buffers that are not the communicator's: staged where ranks share memory");
  command.add_option("--tune", o.tune,
                     "measure thresholds instead, and write them to this file (SHOAL_COMM_TUNING)");
  command.add_option("--json", o.json, "write the results to this file too");
}

void resolve(Options& o) {
  resolve_ops(o);
  resolve_types(o);
  resolve_sizes(o);
  at_least("--iters", o.iters, 1);
  at_least("--warmup_iters", o.warmup, 0);
  at_least("--check", o.check, 0);
  at_least("--ranks", o.ranks, 0);
  if (o.average < 0 || o.average > 3)
    throw ConfigError(fmt::format("--average {}: expected 0 to 3", o.average));
  if (o.timeout < 0) throw ConfigError(fmt::format("--timeout {}: expected seconds", o.timeout));
}

}  // namespace shoal::cli::bench
