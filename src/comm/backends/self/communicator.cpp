// A world of one rank: the direct path of `local` with nobody else in it, so that size 1 behaves alike.
#include "comm/backends/local/communicator.hpp"
#include "shoal/comm/bootstrap.hpp"

namespace shoal {

std::shared_ptr<Communicator> make_self(const CommOptions& options) {
  const auto group = std::make_shared<comm::local::Group>("world", "self", 1, comm::resolve(options));
  return std::make_shared<comm::local::LocalCommunicator>(group, 0,
                                                          make_caching_allocator({DeviceType::cpu, 0}));
}

}  // namespace shoal
