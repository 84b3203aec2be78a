#include "train/records.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "shoal/core/error.hpp"

namespace shoal::train {

namespace fs = std::filesystem;

Records::Records(const Job& job, bool with_bits) : dir_(job.run.dir) {
  const Refuse refuse = [&](const std::string& what, const std::string& why) {
    throw ConfigError(fmt::format("run directory {}: {} cannot be written: {}", dir_, what, why));
  };
  std::error_code error;
  fs::create_directories(dir_, error);
  if (error) refuse("it", error.message());
  lock_.open(dir_ + "/metrics.jsonl", refuse);
  errno = 0;
  std::ofstream toml(dir_ + "/job.toml", std::ios::trunc);
  toml << to_toml(job);
  toml.close();
  if (!toml) refuse("job.toml", std::strerror(errno));
  metrics_.open(dir_ + "/metrics.jsonl", std::ios::trunc);
  if (!metrics_) refuse("metrics.jsonl", std::strerror(errno));
  fs::remove(weights_path(), error);  // an earlier run's: not this one's until it ends
  if (error) refuse("model.safetensors", error.message());
  remove_bits(error);
  if (!error && with_bits) fs::create_directory(dir_ + "/bits", error);
  if (error) refuse("bits", error.message());
}

// Only what a run wrote there: the directory may hold files of the user's.
void Records::remove_bits(std::error_code& error) const {
  const fs::path folder = dir_ + "/bits";
  std::vector<fs::path> old;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with("rank-") && name.ends_with(".jsonl")) old.push_back(at->path());
  }
  if (error == std::errc::no_such_file_or_directory) error.clear();
  for (const fs::path& path : old)
    if (!error) fs::remove(path, error);
  std::error_code others;  // are left, and so is the folder
  if (!error) fs::remove(folder, others);
}

// One run at a time: two would write over each other's lines. A lock of the process, not of the descriptor: in
// an interactive session a new Trainer is made while the old one still lives. It goes however the process ends.
void Records::Lock::open(const std::string& path, const Refuse& refuse) {
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
  if (fd_ < 0) refuse("metrics.jsonl", std::strerror(errno));
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  // Any other failure is that of a file system without locks.
  if (::fcntl(fd_, F_SETLK, &whole) != 0 && (errno == EACCES || errno == EAGAIN))
    refuse("metrics.jsonl", "another run is writing it");
}

Records::Lock::~Lock() {
  if (fd_ >= 0) ::close(fd_);
}

void Records::write(const Metrics& metrics) {
  metrics_ << metrics.json() << '\n';
  if (!metrics_.flush())
    throw TrainError(fmt::format("step {}: {}/metrics.jsonl cannot be written: {}", metrics.step, dir_,
                                 std::strerror(errno)));
}

}  // namespace shoal::train
