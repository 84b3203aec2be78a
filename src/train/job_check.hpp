// Checks of a whole job that need no rank count.
#pragma once
#include <string>

#include "shoal/train/job.hpp"

namespace shoal::train {

// Values, divisions between keys, then what is not built yet: in this order, so that a number that could
// never work is named as such. Throws ConfigError.
void check_job(const Job& job);

// "1, 2, 4 or 8": the divisors of n.
std::string divisors(std::int64_t n);

}  // namespace shoal::train
