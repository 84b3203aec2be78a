// The files of a run, written by rank 0.
#pragma once
#include <fstream>
#include <functional>
#include <string>
#include <system_error>

#include "shoal/train/trainer.hpp"

namespace shoal::train {

class Records {
 public:
  using Notice = std::function<void(const std::string&)>;

  // Makes the directory and takes its lock; an earlier run's records stay until begin(). Throws ConfigError, naming
  // the directory and why, when it cannot be written or another run is writing it. notice: what the user should
  // know of, in a line.
  Records(const Job& job, Notice notice);

  // Writes job.toml, starts metrics.jsonl anew and clears the bits folder (made anew where with_bits). A finished
  // earlier run is moved to previous/, where it stays until finish(); the records of one that did not finish are
  // replaced. Later calls do nothing.
  void begin(bool with_bits = false);
  void write(const Metrics& metrics);
  void finish();  // the final weights are there: an earlier run's are no longer needed
  std::string weights_path() const { return dir_ + "/model.safetensors"; }

 private:
  using Refuse = std::function<void(const std::string& what, const std::string& why)>;  // throws
  // Of metrics.jsonl.
  class Lock {
   public:
    Lock() = default;
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    void open(const std::string& path, const Refuse& refuse);

   private:
    int fd_ = -1;
  };
  [[noreturn]] void refuse(const std::string& what, const std::string& why) const;
  void set_aside();

  std::string dir_, toml_;
  Notice notice_;
  Lock lock_, next_;  // next_: of the new metrics.jsonl where the old one was moved
  std::ofstream metrics_;
  bool begun_ = false;
};

}  // namespace shoal::train
