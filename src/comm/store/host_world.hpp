// Worlds whose ranks meet over the Store: processes of one host, which then talk through shared memory.
#pragma once
#include <memory>
#include <string>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/comm/store.hpp"

namespace shoal::comm::store {

// Collective. Throws ConfigError where the ranks are on several hosts.
std::shared_ptr<Communicator> make_host_world(const StoreOptions& where, const CommOptions& options);

// What shoal::end_failed_job does in such a world: tells the launcher and the other ranks, and writes the message. A rank
// that only reports another's failure writes nothing and waits for the launcher to end it, if there is one. False when this
// process is in no such world.
bool end_failed_job(const std::string& message);

}  // namespace shoal::comm::store
