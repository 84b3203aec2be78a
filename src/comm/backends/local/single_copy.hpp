// Reading what lies in another process's own memory, by one copy that the kernel makes (process_vm_readv). Whether it
// lets one process of a user read another's is a matter of the machine (Yama's ptrace_scope, containers' filters), so
// ranks try it once, when they make their world. Nothing is ever written to another process this way: a rank that gives
// an operation up may free its buffers while others still read them, and these then fail as well.
#pragma once
#include <cstdint>

#include "comm/rendezvous.hpp"

namespace shoal::comm::local {

// Copies n bytes at `from` in another process. False, with errno set, where it cannot.
bool read_memory(int process, const void* from, void* to, std::int64_t n);

// Whether every rank can read every other's memory; the same on all. processes[r] is rank r's.
bool try_single_copy(Rendezvous& meeting, const std::vector<int>& processes);

}  // namespace shoal::comm::local
