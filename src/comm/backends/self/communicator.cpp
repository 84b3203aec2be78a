// A world of one rank: `local` with nobody else in it, so that size 1 behaves alike.
#include "comm/backends/local/communicator.hpp"
#include "shoal/comm/bootstrap.hpp"

namespace shoal {

std::shared_ptr<Communicator> make_self(const CommOptions& options) {
  using namespace comm::local;
  const auto group = std::make_shared<Group>(Group::About{"world", "self", comm::resolve(options)},
                                             make_block(1), 0, make_host(1));
  return std::make_shared<LocalCommunicator>(group, make_caching_allocator({DeviceType::cpu, 0}));
}

}  // namespace shoal
