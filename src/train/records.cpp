#include "train/records.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "shoal/core/error.hpp"
#include "shoal/core/file.hpp"

namespace shoal::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* weights = "model.safetensors";  // written last: it says that the run has finished
constexpr const char* average = "model_ema.safetensors";
constexpr const char* mark = "set_aside.txt";  // in previous/: a run made it, and a run may remove it

// Only what a run wrote there: the directories may hold files of the user's.
std::vector<fs::path> bits_files(const fs::path& run, std::error_code& error) {
  std::vector<fs::path> files;
  for (fs::directory_iterator at(run / "bits", error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with("rank-") && name.ends_with(".jsonl")) files.push_back(at->path());
  }
  if (error == std::errc::no_such_file_or_directory) error.clear();
  return files;
}

void remove_bits(const fs::path& run, std::error_code& error) {
  for (const fs::path& file : bits_files(run, error))
    if (!error) fs::remove(file, error);
  std::error_code others;  // are left, and so is the folder
  if (!error) fs::remove(run / "bits", others);
}

void remove_previous(const fs::path& previous, std::error_code& error) {
  if (!fs::exists(previous / mark, error)) return;
  for (const char* name : {weights, average, "metrics.jsonl", "job.toml"})
    if (!error) fs::remove(previous / name, error);
  if (!error) remove_bits(previous, error);
  if (!error) fs::remove(previous / mark, error);
  std::error_code others;
  if (!error) fs::remove(previous, others);
}

}  // namespace

void Records::refuse(const std::string& what, const std::string& why) const {
  throw ConfigError(fmt::format("run directory {}: {} cannot be written: {}", dir_, what, why));
}

Records::Records(const Job& job, Notice notice)
    : dir_(job.run.dir), toml_(to_toml(job)), notice_(std::move(notice)) {
  std::error_code error;
  fs::create_directories(dir_, error);
  if (error) refuse("it", error.message());
  lock_.open(dir_ + "/metrics.jsonl", [this](auto& what, auto& why) { refuse(what, why); });
  for (const char* name : {"job.toml", average, weights}) {
    remove_stale_temporaries(dir_ + "/" + name);
    if (fs::is_directory(dir_ + "/" + name, error)) refuse(name, std::strerror(EISDIR));
  }
  const fs::path previous = fs::path(dir_) / "previous";
  if (fs::exists(weights_path(), error) && fs::exists(previous, error) && !fs::exists(previous / mark, error))
    refuse("previous", "it is there already, and not made by a run; the finished run would be kept in it");
}

// The weights go last: as long as they are at their old place the rest can be moved again.
void Records::set_aside() {
  const fs::path run = dir_, previous = run / "previous";
  std::error_code error;
  if (fs::exists(run / "job.toml", error)) remove_previous(previous, error);
  if (!error) fs::create_directories(previous / "bits", error);
  std::ofstream(previous / mark)
      << "The finished run that was in the folder above. A run removes it when it has itself "
         "finished there.\n";
  for (const fs::path& file : bits_files(run, error))
    if (!error) fs::rename(file, previous / "bits" / file.filename(), error);
  for (const char* name : {"job.toml", "metrics.jsonl", average, weights})
    if (!error && fs::exists(run / name, error)) fs::rename(run / name, previous / name, error);
  if (error) refuse("previous", error.message());
  next_.open(dir_ + "/metrics.jsonl", [this](auto& what, auto& why) { refuse(what, why); });
}

void Records::begin(bool with_bits) {
  if (begun_) return;
  begun_ = true;
  std::error_code error;
  if (fs::exists(weights_path(), error)) {
    set_aside();
    notice_(fmt::format("{} holds a finished run: its records are in {}/previous until this one has finished",
                        dir_, dir_));
  } else if (fs::is_regular_file(dir_ + "/metrics.jsonl", error) &&
             fs::file_size(dir_ + "/metrics.jsonl", error) > 0) {
    notice_(fmt::format("{} holds records of a run that did not finish: they are replaced", dir_));
  }
  AtomicFile toml(dir_ + "/job.toml", raise<ConfigError>);
  toml.append(toml_.data(), toml_.size());
  toml.commit();
  errno = 0;
  metrics_.open(dir_ + "/metrics.jsonl", std::ios::trunc);
  if (!metrics_) refuse("metrics.jsonl", std::strerror(errno));
  error.clear();
  fs::remove(fs::path(dir_) / average, error);  // of a run that did not finish
  if (error) refuse(average, error.message());
  remove_bits(dir_, error);
  if (!error && with_bits) fs::create_directory(dir_ + "/bits", error);
  if (error && error != std::errc::file_exists) refuse("bits", error.message());
}

void Records::finish() {
  std::error_code error;
  remove_previous(dir_ + "/previous", error);
  if (error)
    notice_(
        fmt::format("{}/previous, the run before this one, cannot be removed: {}", dir_, error.message()));
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
  begin();
  metrics_ << metrics.json() << '\n';
  if (!metrics_.flush())
    throw TrainError(fmt::format("step {}: {}/metrics.jsonl cannot be written: {}", metrics.step, dir_,
                                 std::strerror(errno)));
}

}  // namespace shoal::train
