// How the numbers of an array are stored, for the arguments of kernels.
#pragma once

namespace shoal::kernels {

enum class Storage : unsigned char { f32, bf16, f16 };

}  // namespace shoal::kernels
