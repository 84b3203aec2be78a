// Steps whose loss or gradient norm is far from what it has been lately are skipped: a batch of broken data, or the
// first step of a divergence, does not reach the weights.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace shoal::optim {

struct OutlierConfig {
  double zscore = 0;  // a step further than so many standard deviations above the mean is skipped; 0: off
  std::string of = "grad_norm";  // | "loss"
  std::int64_t window = 100;     // of the last steps that were not skipped
  std::int64_t minimum = 20;     // nothing is skipped before so many are known
};
void check(const OutlierConfig& config);  // throws ConfigError naming option and value

class OutlierFilter {
 public:
  explicit OutlierFilter(const OutlierConfig& config);  // throws as check
  bool enabled() const { return config_.zscore > 0; }
  // (value - mean) / deviation over the window, in FP64, its values summed in the order they came; 0 while there are
  // too few of them. A window without any spread counts as one of deviation 1e-12 |mean|.
  double zscore(double value) const;
  // Whether the step is to be skipped: its z-score is above the limit, or the value is not finite. One that is not
  // skipped joins the window.
  bool skip(double value);

  const std::vector<double>& values() const { return values_; }  // oldest first; for checkpoints
  void set_values(std::vector<double> values);

 private:
  OutlierConfig config_;
  std::vector<double> values_;
};

}  // namespace shoal::optim
