// The mean loss of a step over all ranks (docs/numerics.md, R5 and R11).
#pragma once
#include <cstdint>
#include <vector>

#include "shoal/comm/communicator.hpp"
#include "shoal/core/stream.hpp"

namespace shoal::train {

// The step's count of valid tokens, agreed by all ranks. Collective.
std::int64_t agree_count(Communicator& comm, const Stream& stream, std::int64_t local);

// The sum of loss [samples, seq] f32, read on the host.
double microbatch_loss(const Stream& stream, const Tensor& loss);

// sums[i] is the FP64 loss sum of this rank's i-th leaf; ranks hold equally many, in order. Returns the
// leaves of all ranks. Collective.
std::vector<double> gather_losses(Communicator& comm, const Stream& stream, const std::vector<double>& sums);

// The sum of the leaves by the tree (shard/tree.hpp): the same bits however ranks share them.
double tree_sum(std::vector<double> leaves);

}  // namespace shoal::train
