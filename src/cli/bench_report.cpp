#include "cli/bench_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

#include "shoal/core/build_info.hpp"
#include "shoal/core/error.hpp"

namespace shoal::cli::bench {
namespace {

// Seven columns, as nccl-tests prints microseconds.
std::string time_text(double us) {
  return us >= 10000 ? fmt::format("{:7.0f}", us)
         : us >= 100 ? fmt::format("{:7.1f}", us)
                     : fmt::format("{:7.2f}", us);
}

std::string step_text(const Options& o) {
  return o.step_factor > 1 ? fmt::format("{}(factor)", o.step_factor)
                           : fmt::format("{}(bytes)", o.step_bytes);
}

}  // namespace

Report::Report(const Options& o, const Communicator& comm, const std::vector<Problem>& problems,
               std::int64_t block_bytes) {
  if (!o.json.empty()) file_ = std::make_unique<AtomicFile>(o.json, raise<ConfigError>);
  const char* buffers = o.private_buffers ? "private" : "the communicator's";
  fmt::print("# shoal {}: {}, {} ranks, backend {}, buffers: {}\n", version(), name(o.collective),
             comm.size(), comm.backend(), buffers);
  fmt::print("# minBytes {} maxBytes {} step: {} warmup iters: {} iters: {} validation: {}\n",
             o.sizes.front(), o.sizes.back(), step_text(o), o.warmup, o.iters, o.check);
  fmt::print("# buffers taken in turn from {} MiB a rank, at most {} of them\n", 2 * block_bytes >> 20,
             Rotation::most);
  for (const Problem& p : problems) {  // named where it changes
    algorithms_.push_back(algorithm(comm, p, !o.private_buffers));
    const std::size_t n = algorithms_.size();
    if (n == 1 || algorithms_[n - 1] != algorithms_[n - 2])
      fmt::print("# from {} B {}: {}\n", p.nbytes(), nccl_name(p.dtype), algorithms_.back());
  }
  fmt::print("#\n");
  fmt::print("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}           out-of-place                       in-place\n",
             "", "", "", "", "");
  const auto columns = [](const char* time, const char* alg, const char* bus, const char* wrong) {
    return fmt::format("  {:>7}  {:>6}  {:>6} {:>6}", time, alg, bus, wrong);
  };
  fmt::print("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}{}\n", "size", "count", "type", "redop", "root",
             columns("time", "algbw", "busbw", "#wrong"), columns("time", "algbw", "busbw", "#wrong"));
  fmt::print("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}{}\n", "(B)", "(elements)", "", "", "",
             columns("(us)", "(GB/s)", "(GB/s)", ""), columns("(us)", "(GB/s)", "(GB/s)", ""));
  std::fflush(stdout);
  json_ = {{"version", version()},
           {"collective", name(o.collective)},
           {"backend", comm.backend()},
           {"ranks", comm.size()},
           {"private", o.private_buffers},
           {"iters", o.iters},
           {"warmup_iters", o.warmup},
           {"check", o.check},
           {"results", nlohmann::json::array()}};
}

nlohmann::json Report::form(const Problem& p, const std::optional<Measurement>& m, std::string& line) {
  if (!m) {
    line += fmt::format("  {:>7}  {:>6}  {:>6}  {:>5}", "N/A", "N/A", "N/A", "N/A");
    return nullptr;
  }
  const double algorithm = m->seconds > 0 ? p.algorithm_bytes() / m->seconds / 1e9 : 0;
  const double bus = algorithm * p.bus_factor();
  bus_ += bus;
  ++measured_;
  wrong_ += m->wrong.value_or(0);
  line += fmt::format("  {}  {:6.2f}  {:6.2f}  {:>5}", time_text(m->seconds * 1e6), algorithm, bus,
                      m->wrong ? std::to_string(*m->wrong) : "N/A");
  nlohmann::json json = {
      {"time_us", m->seconds * 1e6}, {"algbw", algorithm}, {"busbw", bus}, {"wrong", nullptr}};
  if (m->wrong) json["wrong"] = *m->wrong;
  return json;
}

void Report::add(const Problem& p, const std::optional<Measurement>& out_of_place,
                 const std::optional<Measurement>& in_place) {
  const std::string_view op = p.reduces() ? nccl_name(p.op) : "none";
  const int root = p.rooted() ? p.root : -1;
  std::string line =
      fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", p.nbytes(), p.count, nccl_name(p.dtype), op, root);
  nlohmann::json row = {
      {"size", p.nbytes()}, {"count", p.count}, {"type", nccl_name(p.dtype)}, {"redop", op}, {"root", root}};
  row["out_of_place"] = form(p, out_of_place, line);
  row["in_place"] = form(p, in_place, line);
  row["algorithm"] = algorithms_[json_["results"].size()];
  fmt::print("{}\n", line);
  std::fflush(stdout);
  json_["results"].push_back(row);
}

void Report::finish() {
  const double average = measured_ > 0 ? bus_ / measured_ : 0;
  fmt::print("# Out of bounds values : {} {}\n", wrong_, wrong_ == 0 ? "OK" : "FAILED");
  fmt::print("# Avg bus bandwidth    : {:.6g}\n#\n", average);
  std::fflush(stdout);
  json_["wrong"] = wrong_;
  json_["average_busbw"] = average;
  if (!file_) return;
  const std::string text = json_.dump(1) + "\n";
  file_->append(text.data(), text.size());
  file_->commit();
}

}  // namespace shoal::cli::bench
