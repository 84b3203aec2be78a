// Shoal, the MPI library and gloo alternately, in the same processes: `benchmarks/comm/compare` starts it.
//
//     mpirun -n RANKS bench_compare --rounds 9 --ops all_reduce,reduce --bytes 4,1024 [--sides mpi,direct]
//
// Rank 0 prints a line of JSON for each operation, size and side: the microseconds of one operation in each round.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mpi.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/threads.hpp"
#include "sides.hpp"

namespace {

using namespace compare;

constexpr double batch_seconds = 0.01;

struct Arguments {
  int rounds = 9;
  std::vector<std::string> ops, sides;
  std::vector<std::int64_t> bytes;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--rounds") a.rounds = std::stoi(value);
    if (flag == "--ops") a.ops = split(value);
    if (flag == "--sides") a.sides = split(value);
    if (flag == "--bytes")
      for (const std::string& b : split(value)) a.bytes.push_back(std::stoll(b));
  }
  if (a.ops.empty() || a.bytes.empty())
    throw std::runtime_error("bench_compare: --ops and --bytes are needed");
  return a;
}

// One clock for all processes of the host.
double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// From a moment on which the ranks agree to the last one's end. (They leave a barrier at different times.)
double batch(const Side& side, std::int64_t& i, std::int64_t iters) {
  double start = now() + 20e-6, end = 0;
  MPI_Allreduce(MPI_IN_PLACE, &start, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  while (now() < start) {
  }
  for (const std::int64_t last = i + iters; i < last; ++i) side.run(i);
  end = now();
  MPI_Allreduce(MPI_IN_PLACE, &end, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return (end - start) / static_cast<double>(iters);
}

// Every element of rank r's input is r + 1; sums and moved parts follow. Bad arithmetic must not win.
void verify(const Side& side, const Problem& p) {
  if (!side.exact) return;
  float *in = side.memory->in(p, 0), *out = side.memory->out(p, 0);
  const float own = static_cast<float>(p.rank + 1);
  std::fill_n(in, p.in_count(), own);
  std::fill_n(out, p.out_count(), p.op == "broadcast" ? own : -1.0f);
  MPI_Barrier(MPI_COMM_WORLD);
  side.run(0);
  MPI_Barrier(MPI_COMM_WORLD);
  const bool sums = p.op.find("reduce") != std::string::npos, has = p.op != "reduce" || p.rank == 0;
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; has && i < p.out_count(); ++i) {
    const float expected = sums                  ? static_cast<float>(p.ranks * (p.ranks + 1) / 2)
                           : p.op == "broadcast" ? 1.0f
                                                 : static_cast<float>(i / p.part() + 1);
    wrong += out[i] != expected;
  }
  std::fill_n(in, p.in_count(), 0.0f);
  std::fill_n(out, p.out_count(), 0.0f);
  if (wrong > 0)
    throw std::runtime_error(fmt::format("rank {}: {} of {} bytes by {}: {} elements are wrong", p.rank, p.op,
                                         p.bytes, side.name, wrong));
}

void measure(const Problem& p, const std::vector<Side>& sides, int rounds) {
  std::vector<std::vector<double>> us(sides.size());
  std::vector<std::int64_t> at(sides.size(), 0);
  std::vector<std::int64_t> iters(sides.size(), 1);
  for (const Side& side : sides) verify(side, p);
  for (std::size_t k = 0; k < sides.size(); ++k) {  // as many in a row as take some milliseconds
    batch(sides[k], at[k], 1);
    iters[k] = std::clamp<std::int64_t>(std::llround(batch_seconds / batch(sides[k], at[k], 2)), 1, 1000);
  }
  for (int round = 0; round < rounds; ++round)
    for (std::size_t k = 0; k < sides.size(); ++k) {
      const std::size_t s = (k + static_cast<std::size_t>(round)) % sides.size();
      us[s].push_back(batch(sides[s], at[s], iters[s]) * 1e6);
    }
  if (p.rank != 0) return;
  for (std::size_t s = 0; s < sides.size(); ++s)
    fmt::print("{{\"op\": \"{}\", \"ranks\": {}, \"bytes\": {}, \"side\": \"{}\", \"us\": [{:.4f}]}}\n", p.op,
               p.ranks, p.bytes, sides[s].name, fmt::join(us[s], ", "));
  std::fflush(stdout);
}

void run(const Arguments& a, int rank, int ranks) {
  const auto world = shoal::make_world();
  shoal::set_num_threads(1);
  const std::int64_t largest = *std::max_element(a.bytes.begin(), a.bytes.end()) + 256;
  const Memory shared(world->allocator(), largest), own(shoal::make_caching_allocator({}), largest);
  char folder[] = "/tmp/bench_compare_XXXXXX";
  if (rank == 0 && !mkdtemp(folder)) throw std::runtime_error("bench_compare: no folder in /tmp");
  MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD);
  const Gloo gloo(rank, ranks, folder);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) std::filesystem::remove_all(folder);
  if (rank == 0)
    fmt::print("{{\"backend\": \"{}\", \"ranks\": {}, \"cache\": {}}}\n", world->backend(), ranks,
               last_level_cache());
  for (const std::string& op : a.ops)
    for (const std::int64_t bytes : a.bytes) {
      const Problem p{op, bytes, rank, ranks};
      if (p.part() == 0 && op != "all_reduce" && op != "reduce" && op != "broadcast") continue;
      std::vector<Side> all, chosen;
      all.push_back({"copy", &own,
                     [&](std::int64_t i) {
                       std::memcpy(own.out(p, i), own.in(p, i), static_cast<std::size_t>(p.bytes));
                     },
                     false});
      add_shoal(all, p, *world, shared, own);
      add_mpi(all, p, own);
      gloo.add(all, p, own);
      for (const Side& side : all)
        if (a.sides.empty() || std::find(a.sides.begin(), a.sides.end(), side.name) != a.sides.end())
          chosen.push_back(side);
      measure(p, chosen, a.rounds);
    }
}

}  // namespace

int main(int argc, char** argv) {
  int given = 0, rank = 0, ranks = 1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  try {
    run(parse(argc, argv), rank, ranks);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
