// Small jobs and their data, for tests of training.
#pragma once
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "shoal/train/job.hpp"
#include "support/temp_dir.hpp"

namespace shoal::test {

// Text with some structure, so that losses fall: n bytes, the same every time.
inline std::string sample_text(std::int64_t n) {
  const std::string words[] = {"shoal ", "of ", "fish ", "swims ", "where ", "the ", "tide ", "turns\n"};
  std::string text;
  std::uint64_t state = 12345;
  while (static_cast<std::int64_t>(text.size()) < n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    text += words[state >> 61];
  }
  text.resize(static_cast<std::size_t>(n));
  return text;
}

// A job of one or two small layers on a text of its own in `dir`, with records in dir/run.
inline train::Job tiny_job(const TempDir& dir, const std::vector<std::string>& more = {}) {
  static std::mutex writing;  // several ranks of one process ask for the same job
  {
    std::lock_guard lock(writing);
    if (!std::filesystem::exists(dir / "text.txt")) dir.write("text.txt", sample_text(6000));
  }
  std::vector<std::string> items = {"data.train=" + (dir / "text.txt"),
                                    "run.dir=" + (dir / "run"),
                                    "model.layers=2",
                                    "model.hidden=32",
                                    "model.heads=2",
                                    "model.seq=16",
                                    "model.vocab=256",
                                    "train.steps=5",
                                    "train.global_batch=12",
                                    "optimizer.lr=1e-2",
                                    "train.threads=1",
                                    "optimizer.warmup=3"};
  items.insert(items.end(), more.begin(), more.end());
  return train::load_job("", items);
}

}  // namespace shoal::test
