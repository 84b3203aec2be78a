// What `shoal bench comm` prints, in nccl-tests' columns, and writes as JSON.
#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/bench_measure.hpp"
#include "shoal/core/file.hpp"

namespace shoal::cli::bench {

// Used by rank 0 alone.
class Report {
 public:
  Report(const Options& options, const Communicator& comm, const std::vector<Problem>& problems,
         std::int64_t block_bytes);
  void add(const Problem& p, const std::optional<Measurement>& out_of_place,
           const std::optional<Measurement>& in_place);
  // Prints the last lines, writes the file.
  void finish();

 private:
  nlohmann::json form(const Problem& p, const std::optional<Measurement>& m, std::string& line);
  std::unique_ptr<AtomicFile> file_;  // opened first: a path that cannot be written costs no measurement
  nlohmann::json json_;
  std::vector<std::string> algorithms_;  // of the problems, in their order
  double bus_ = 0;
  int measured_ = 0;
  std::int64_t wrong_ = 0;
};

}  // namespace shoal::cli::bench
