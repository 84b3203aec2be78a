// Operations that only move data.
#include <algorithm>
#include <cstring>

#include "comm/backends/mpi/communicator.hpp"

namespace shoal::comm::mpi {
namespace {

std::byte* at(void* p, std::int64_t offset) { return static_cast<std::byte*>(p) + offset; }
const std::byte* at(const void* p, std::int64_t offset) { return static_cast<const std::byte*>(p) + offset; }

constexpr std::int64_t polled_bytes = 65536;  // above this, polling moves the data and must not sleep

}  // namespace

void MpiCommunicator::all_gather(const Operation& op) {
  const std::int64_t nbytes = op.nbytes();
  std::byte* own = at(op.out.data(), rank() * nbytes);
  if (own != op.in.data()) std::memmove(own, op.in.data(), nbytes);  // now `in` may be overwritten
  Exchange e = exchange();
  for (int q = 0; q < size(); ++q)
    if (q != rank()) e.recv(q, at(op.out.data(), q * nbytes), nbytes);
  for (int i = 1; i < size(); ++i) e.send((rank() + i) % size(), own, nbytes);
  wait(e, op, nbytes <= polled_bytes);
}

// A binomial tree: in round 2^k the ranks that have the data (counted from the root) pass it on by 2^k.
void MpiCommunicator::broadcast(const Operation& op) {
  const int n = size(), me = (rank() - op.root + n) % n;
  const auto real = [&](int virtual_rank) { return (virtual_rank + op.root) % n; };
  int distance = 1;
  while (distance <= me) distance *= 2;  // the round after that in which this rank receives
  Exchange e = exchange();
  if (me > 0) {
    e.recv(real(me - distance / 2), op.out.data(), op.nbytes());
    wait(e, op, op.nbytes() <= polled_bytes);
  }
  for (; me + distance < n; distance *= 2) e.send(real(me + distance), op.out.data(), op.nbytes());
  wait(e, op, op.nbytes() <= polled_bytes);
}

void MpiCommunicator::all_to_all(const Operation& op) {
  const std::int64_t nbytes = op.nbytes();
  const void* in = op.in.data();
  if (overlap(in, op.in.nbytes(), op.out.data(), op.out.nbytes()))
    in = std::memcpy(scratch(op.in.nbytes()), in, op.in.nbytes());
  Exchange e = exchange();
  for (int q = 0; q < size(); ++q)
    if (q != rank()) e.recv(q, at(op.out.data(), q * nbytes), nbytes);
  for (int i = 1; i < size(); ++i) {
    const int q = (rank() + i) % size();
    e.send(q, at(in, q * nbytes), nbytes);
  }
  std::memcpy(at(op.out.data(), rank() * nbytes), at(in, rank() * nbytes), nbytes);
  wait(e, op, nbytes <= polled_bytes);
}

}  // namespace shoal::comm::mpi
