// The collectives that `shoal bench comm` measures: their buffers, inputs, right results and bandwidth factors.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "shoal/comm/communicator.hpp"

namespace shoal::cli::bench {

enum class Collective {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  gather,
  scatter,
  all_to_all,
  sendrecv
};
inline constexpr std::string_view collective_names[] = {"all_reduce", "reduce_scatter", "all_gather",
                                                        "broadcast",  "reduce",         "gather",
                                                        "scatter",    "all_to_all",     "sendrecv"};
inline std::string_view name(Collective c) { return collective_names[static_cast<int>(c)]; }
std::optional<Collective> find_collective(std::string_view name);

// One line of the table. count is in elements, as nccl-tests counts: one rank's part where a rank's buffer has a part
// for each rank.
struct Problem {
  Collective collective = Collective::all_reduce;
  DType dtype = DType::f32;
  Reduction op;
  int root = 0;
  int rank = 0, ranks = 1;
  std::int64_t count = 0;

  bool reduces() const;
  bool rooted() const;
  std::int64_t in_count() const, out_count() const;    // elements of the buffers
  std::int64_t nbytes() const;                         // the larger of both buffers: nccl-tests' size
  bool has(bool in_place) const;                       // the operation has this form
  double algorithm_bytes() const, bus_factor() const;  // algbw = bytes / time, busbw = algbw x factor
  static std::int64_t count_of(Collective c, std::int64_t nbytes, DType dtype, int ranks);
};

// The tensors of one call; in place one is part of the other, or the same.
struct Buffers {
  Tensor in, out;
};
// Within two blocks of nbytes() bytes each. In place only the first is used.
Buffers place(const Problem& p, const Tensor& first, const Tensor& second, bool in_place);

void run(Communicator& comm, const Problem& p, const Buffers& b);
std::string algorithm(const Communicator& comm, const Problem& p, bool direct);  // what runs, by its name

// Inputs of this rank, and outputs that are wrong everywhere.
void prepare(const Problem& p, const Buffers& b, int round);
// Elements of this rank's result that are not what they must be, bit by bit.
std::int64_t count_wrong(const Problem& p, const Buffers& b, int round);

}  // namespace shoal::cli::bench
