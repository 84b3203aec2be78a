// The libraries that bench_compare holds against each other, as functions that do one operation.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shoal/comm/communicator.hpp"

namespace compare {

// S bytes a rank: the larger of its two buffers, as nccl-tests counts. Out of place, but for broadcast.
struct Problem {
  std::string op;  // all_reduce, reduce, reduce_scatter, all_gather, broadcast, all_to_all
  std::int64_t bytes = 0;
  int rank = 0, ranks = 1;

  std::int64_t count() const { return bytes / 4; }       // f32 elements of the larger buffer
  std::int64_t part() const { return count() / ranks; }  // of one rank's part
  std::int64_t in_count() const {
    return op == "all_gather"                             ? part()
           : op == "all_to_all" || op == "reduce_scatter" ? part() * ranks
                                                          : count();
  }
  std::int64_t out_count() const {
    return op == "reduce_scatter"                     ? part()
           : op == "all_gather" || op == "all_to_all" ? part() * ranks
                                                      : count();
  }
};

// Two blocks of memory, cut into buffers that are taken in turn: together twice the last-level cache at least, or 1024 of
// them.
class Memory {
 public:
  Memory(const std::shared_ptr<shoal::Allocator>& allocator, std::int64_t block_bytes);
  float* in(const Problem& p, std::int64_t i) const { return at(in_, p, i); }
  float* out(const Problem& p, std::int64_t i) const { return at(out_, p, i); }
  static std::int64_t buffers(const Problem& p);

 private:
  static float* at(const shoal::Tensor& block, const Problem& p, std::int64_t i);
  shoal::Tensor in_, out_;
};

struct Side {
  std::string name;
  const Memory* memory;
  std::function<void(std::int64_t i)> run;  // on the i-th buffers
  bool exact = true;                        // its result in out can be checked
};

std::int64_t last_level_cache();

// Each adds what it can do of p. Empty where the library lacks the operation, or the build the library.
void add_shoal(std::vector<Side>& sides, const Problem& p, shoal::Communicator& comm, const Memory& shared,
               const Memory& own);
void add_mpi(std::vector<Side>& sides, const Problem& p, const Memory& own);

// gloo's connections between all ranks; empty where this build has no gloo.
class Gloo {
 public:
  Gloo(int rank, int ranks, const std::string& folder);
  ~Gloo();
  void add(std::vector<Side>& sides, const Problem& p, const Memory& own) const;

 private:
  struct Connections;
  std::unique_ptr<Connections> connections_;
};

}  // namespace compare
