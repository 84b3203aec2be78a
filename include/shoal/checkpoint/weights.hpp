// A model's weights as one safetensors file of logical tensors: row-major, unpadded, whatever the layout.
#pragma once
#include <span>
#include <string>

#include "shoal/checkpoint/safetensors.hpp"
#include "shoal/nn/parameter.hpp"

namespace shoal::checkpoint {

// Writes the values of all parameters (on the host, their streams idle), in their own types, under their logical names,
// one tensor's copy at a time. Throws CheckpointError where a parameter has no memory, where this rank does not hold
// all pieces of a tensor, and as write_safetensors.
void save_weights(const std::string& path, std::span<nn::Parameter* const> parameters,
                  const Metadata& metadata = {});

// Reads them back, padding set to zero, and returns the file's metadata. FP32 values also take BF16 and FP16 ones, which
// are widened; nothing is rounded. Nothing is changed unless all of the file
// fits: CheckpointError names tensors that are missing or not expected, and both shapes or dtypes that differ.
Metadata load_weights(const std::string& path, std::span<nn::Parameter* const> parameters);

}  // namespace shoal::checkpoint
