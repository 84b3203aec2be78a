#include <mpi.h>

#include "sides.hpp"

namespace compare {

void add_mpi(std::vector<Side>& sides, const Problem& p, const Memory& own) {
  const MPI_Comm world = MPI_COMM_WORLD;
  const int count = static_cast<int>(p.count()), part = static_cast<int>(p.part());
  const auto add = [&](auto call) {
    sides.push_back({"mpi", &own, [&own, p, call](std::int64_t i) { call(own.in(p, i), own.out(p, i)); }});
  };
  if (p.op == "all_reduce")
    add([=](float* in, float* out) { MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, world); });
  else if (p.op == "reduce")
    add([=](float* in, float* out) { MPI_Reduce(in, out, count, MPI_FLOAT, MPI_SUM, 0, world); });
  else if (p.op == "reduce_scatter")
    add([=](float* in, float* out) { MPI_Reduce_scatter_block(in, out, part, MPI_FLOAT, MPI_SUM, world); });
  else if (p.op == "all_gather")
    add([=](float* in, float* out) { MPI_Allgather(in, part, MPI_FLOAT, out, part, MPI_FLOAT, world); });
  else if (p.op == "broadcast")
    add([=](float*, float* out) { MPI_Bcast(out, count, MPI_FLOAT, 0, world); });
  else
    add([=](float* in, float* out) { MPI_Alltoall(in, part, MPI_FLOAT, out, part, MPI_FLOAT, world); });
}

}  // namespace compare
