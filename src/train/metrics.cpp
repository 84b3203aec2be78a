#include <nlohmann/json.hpp>

#include "shoal/train/trainer.hpp"

namespace shoal::train {

// nlohmann prints the shortest text that reads back to the same double, and null for what is not finite.
std::string Metrics::json() const {
  nlohmann::ordered_json line;
  line["step"] = step;
  line["loss"] = loss;
  line["grad_norm"] = grad_norm;
  line["lr"] = lr;
  line["tokens"] = tokens;
  line["seconds"] = seconds;
  line["tokens_per_second"] = tokens_per_second;
  line["loss_scale"] = loss_scale;
  line["skipped"] = skipped;
  if (overflow) line["overflow"] = {{"parameter", overflow->parameter}, {"rank", overflow->rank}};
  if (outlier) line["outlier"] = *outlier;
  line["peak_bytes"] = peak_bytes;
  if (val_loss_ema) line["val_loss_ema"] = *val_loss_ema;
  if (val_loss) line["val_loss"] = *val_loss;
  return line.dump();
}

}  // namespace shoal::train
