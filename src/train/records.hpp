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
  // Makes the directory, writes job.toml, starts metrics.jsonl anew and clears the bits folder (made anew
  // where with_bits). Throws ConfigError, naming the directory and why, when it cannot be written or another
  // run is writing it.
  Records(const Job& job, bool with_bits);
  void write(const Metrics& metrics);
  std::string weights_path() const { return dir_ + "/model.safetensors"; }

 private:
  using Refuse = std::function<void(const std::string& what, const std::string& why)>;  // throws
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
  void remove_bits(std::error_code& error) const;

  std::string dir_;
  Lock lock_;
  std::ofstream metrics_;
};

}  // namespace shoal::train
