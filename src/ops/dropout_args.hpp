// From ops::Dropout to what kernels take.
#pragma once
#include "kernels/common/random_args.hpp"
#include "shoal/ops/dropout.hpp"

namespace shoal::ops {

// Throws ConfigError unless 0 <= p < 1.
inline kernels::DropoutArgs dropout_args(const Dropout& d, std::int64_t elements_per_sample) {
  const auto counter = d.key.counter(0);
  const auto key = d.key.key();
  return {
      .active = d.p != 0.0,
      .random = {key[0], key[1], counter[1], counter[2], counter[3]},
      .threshold = dropout_threshold(d.p),
      .scale = static_cast<float>(1.0 / (1.0 - d.p)),
      .first = static_cast<std::uint64_t>(d.first_sample) * static_cast<std::uint64_t>(elements_per_sample)};
}

}  // namespace shoal::ops
