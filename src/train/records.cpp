#include "train/records.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "shoal/core/error.hpp"

namespace shoal::train {

namespace fs = std::filesystem;

Records::Records(const Job& job, bool with_bits) : dir_(job.run.dir) {
  const auto refuse = [&](const std::string& what, const std::string& why) {
    throw ConfigError(fmt::format("run directory {}: {} cannot be written: {}", dir_, what, why));
  };
  std::error_code error;
  fs::create_directories(dir_, error);
  if (error) refuse("it", error.message());
  errno = 0;
  std::ofstream toml(dir_ + "/job.toml", std::ios::trunc);
  toml << to_toml(job);
  toml.close();
  if (!toml) refuse("job.toml", std::strerror(errno));
  metrics_.open(dir_ + "/metrics.jsonl", std::ios::trunc);
  if (!metrics_) refuse("metrics.jsonl", std::strerror(errno));
  fs::remove(weights_path(), error);  // an earlier run's: not this one's until it ends
  if (error) refuse("model.safetensors", error.message());
  fs::remove_all(dir_ + "/bits", error);
  if (!error && with_bits) fs::create_directory(dir_ + "/bits", error);
  if (error) refuse("bits", error.message());
}

void Records::write(const Metrics& metrics) {
  metrics_ << metrics.json() << '\n';
  if (!metrics_.flush())
    throw TrainError(fmt::format("step {}: {}/metrics.jsonl cannot be written: {}", metrics.step, dir_,
                                 std::strerror(errno)));
}

}  // namespace shoal::train
