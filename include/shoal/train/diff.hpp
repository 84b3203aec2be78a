// Where two runs first differ: `shoal diff`.
#pragma once
#include <string>

namespace shoal::train {

struct RunDiff {
  bool same = true;
  std::string
      text;  // one line: the first tensor, layer and step; or the metrics line; or that they are the same
};

// Compares two run directories. Where both were recorded with SHOAL_CHECK=bits the first differing tensor in
// order of computation is named, whatever the rank counts; else the first line of metrics.jsonl that differs
// in loss, grad_norm, lr, tokens or val_loss; else the final weights. Throws DataError for what is not a run.
RunDiff diff_runs(const std::string& a, const std::string& b);

}  // namespace shoal::train
