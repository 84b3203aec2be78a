// The files of a run, written by rank 0.
#pragma once
#include <fstream>
#include <string>

#include "shoal/train/trainer.hpp"

namespace shoal::train {

class Records {
 public:
  // Makes the directory, writes job.toml, starts metrics.jsonl anew and clears the bits folder (made anew
  // where with_bits). Throws ConfigError, naming the directory and why, when it cannot be written.
  Records(const Job& job, bool with_bits);
  void write(const Metrics& metrics);
  std::string weights_path() const { return dir_ + "/model.safetensors"; }

 private:
  std::string dir_;
  std::ofstream metrics_;
};

}  // namespace shoal::train
