// Operations that only move data, plain and v forms alike: every part goes straight from its owner to where it belongs.
#include <algorithm>
#include <cstring>

#include "comm/backends/mpi/communicator.hpp"

namespace shoal::comm::mpi {
namespace {

std::byte* at(void* p, std::int64_t offset) { return static_cast<std::byte*>(p) + offset; }
const std::byte* at(const void* p, std::int64_t offset) { return static_cast<const std::byte*>(p) + offset; }

constexpr std::int64_t polled_bytes = 65536;  // above this, polling moves the data and must not sleep

void copy_bytes(void* to, const void* from, std::int64_t n) {
  if (n > 0 && to != from) std::memcpy(to, from, n);
}

}  // namespace

void MpiCommunicator::all_gather(const Operation& op, const void* in) {
  std::byte* own = at(op.out.data(), op.part_offset(rank()));
  copy_bytes(own, in, op.part_bytes(rank()));
  Exchange e = exchange();
  std::int64_t most = 0;
  for (int q = 0; q < size(); ++q) {
    most = std::max(most, op.part_bytes(q));
    if (q != rank()) e.recv(q, at(op.out.data(), op.part_offset(q)), op.part_bytes(q));
  }
  for (int i = 1; i < size(); ++i) e.send((rank() + i) % size(), own, op.part_bytes(rank()));
  wait(e, op, most <= polled_bytes);
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

void MpiCommunicator::gather(const Operation& op, const void* in) {
  Exchange e = exchange();
  if (rank() != op.root) {
    e.send(op.root, in, op.part_bytes(rank()));
  } else {
    for (int q = 0; q < size(); ++q)
      if (q != rank()) e.recv(q, at(op.out.data(), op.part_offset(q)), op.part_bytes(q));
    copy_bytes(at(op.out.data(), op.part_offset(rank())), in, op.part_bytes(rank()));
  }
  wait(e, op, op.nbytes() <= polled_bytes);
}

void MpiCommunicator::scatter(const Operation& op, void* out) {
  Exchange e = exchange();
  if (rank() != op.root) {
    e.recv(op.root, out, op.part_bytes(rank()));
  } else {
    for (int i = 1; i < size(); ++i) {
      const int q = (rank() + i) % size();
      e.send(q, at(op.in.data(), op.part_offset(q)), op.part_bytes(q));
    }
    copy_bytes(out, at(op.in.data(), op.part_offset(rank())), op.part_bytes(rank()));
  }
  wait(e, op, op.nbytes() <= polled_bytes);
}

void MpiCommunicator::all_to_all(const Operation& op, const void* in) {
  Exchange e = exchange();
  std::int64_t most = 0;
  for (int q = 0; q < size(); ++q) {
    most = std::max({most, op.part_bytes(q), op.received_bytes(q)});
    if (q != rank()) e.recv(q, at(op.out.data(), op.received_offset(q)), op.received_bytes(q));
  }
  for (int i = 1; i < size(); ++i) {
    const int q = (rank() + i) % size();
    e.send(q, at(in, op.part_offset(q)), op.part_bytes(q));
  }
  copy_bytes(at(op.out.data(), op.received_offset(rank())), at(in, op.part_offset(rank())),
             op.part_bytes(rank()));
  wait(e, op, most <= polled_bytes);
}

}  // namespace shoal::comm::mpi
