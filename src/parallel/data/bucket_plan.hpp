// What the bucket engine does, as numbers: pure arithmetic, the same on every rank but for `rank` and what
// follows from it. Tested without memory or communication.
//
// A slot is one flat buffer of gradients: [layout.numel][tail padding][extra parts]. Part 0 of every
// parameter lies where its value lies in the flat values; parts 1, 2, ... follow in a layout of their own.
// Slot 0 is the gradient; further slots are the carry stack of data shards (R3). All ranks have as many
// slots, because allocating from a communicator is collective.
//
// ZeRO 1 cuts every bucket into equal parts, one a rank. Segments and their offsets never depend on the rank
// count (R8); what moves is where buckets are cut: at multiples of 256 x ranks, as R8 allows, inside a
// segment if need be. Only the end of the buffer is padded (less than 256 x ranks elements that belong to no
// segment, always zero). Cuts are moved up, so that a bucket never waits for a parameter that is ready later
// than its own.
#pragma once
#include <cstdint>
#include <vector>

#include "shoal/nn/parameter.hpp"
#include "shoal/parallel/data/bucket_engine.hpp"
#include "shoal/shard/layout.hpp"

namespace shoal::parallel {

struct BucketPlan {
  shard::Range elements;                // of a slot
  bool extra = false;                   // of extra parts: these are all-reduced also under ZeRO 1
  shard::Range owned;                   // what this rank gets of the sum: all of it, or its equal part
  std::vector<std::int64_t> waits_for;  // units (see below) whose gradients it holds
};

struct EnginePlan {
  std::int64_t shards = 0, local = 0, first = 0;  // V, how many are this rank's, and the first of them
  shard::FlatLayout layout, extra;
  std::int64_t storage = 0;     // elements of the values: layout.numel and the tail padding
  std::int64_t slot_numel = 0;  // storage + extra.numel
  int slots = 0;
  std::vector<std::int64_t> value_offset;  // by parameter
  std::vector<std::int64_t> extra_offset;  // by parameter: of part 1 in a slot; part k lies (k - 1) further
  std::vector<std::int64_t> padded;        // by parameter: elements of all its segments
  std::vector<std::int64_t> unit;          // by parameter: number of part 0's unit
  std::int64_t units = 0;                  // one a (parameter, part)
  std::vector<BucketPlan> buckets;
  std::vector<std::vector<std::int64_t>> buckets_of;  // by unit

  std::int64_t part_offset(std::int64_t parameter, std::int64_t part) const {
    return part == 0 ? value_offset[parameter] : extra_offset[parameter] + (part - 1) * padded[parameter];
  }
};

// Throws ConfigError, naming both values, where the numbers do not make an engine.
EnginePlan make_plan(const std::vector<nn::Parameter*>& parameters, int ranks, int rank,
                     const BucketOptions& options);

}  // namespace shoal::parallel
