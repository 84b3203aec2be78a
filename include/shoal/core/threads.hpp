// How many threads an operation of the calling rank may use. Per calling thread, since ranks can be
// threads of one process.
#pragma once

namespace shoal {

void set_num_threads(int n);  // n >= 1; throws ConfigError otherwise
int num_threads();
int hardware_threads();  // what this process may run on (its affinity mask)

}  // namespace shoal
