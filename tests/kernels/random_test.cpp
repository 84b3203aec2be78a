#include "kernels/cpu/random.hpp"

#include <gtest/gtest.h>

#include "src/ops/dropout_args.hpp"
#include "support/reference.hpp"

namespace shoal {
namespace {

TEST(RandomBits, AreTheScalarNumbersAtEveryAlignmentOnEveryInstructionSet) {
  const RandomKey keys[] = {{.seed = 0, .purpose = Purpose::init, .batch = 0, .layer = 0},
                            {.seed = 0x123456789abcdef0,
                             .purpose = Purpose::dropout_ffn_out,
                             .batch = (std::uint64_t{1} << 48) - 3,
                             .layer = 65535}};
  // The last ones carry from the counter's low word into its high one.
  const std::uint64_t firsts[] = {
      0, 1, 2, 3, 4, 17, (std::uint64_t{1} << 34) - 40, (std::uint64_t{1} << 49) + 5};
  for (const RandomKey& key : keys) {
    const auto args = ops::dropout_args({.p = 0.5, .key = key}, 1).random;
    for (const auto kernel : SHOAL_ALL_ISAS(random_bits))
      for (std::uint64_t first : firsts)
        for (std::int64_t n : {0, 1, 31, 33, 257, 1000}) {
          std::vector<std::uint32_t> out(static_cast<std::size_t>(n) + 1, 42u);
          kernel(args, first, out.data(), n);
          for (std::int64_t i = 0; i < n; ++i)
            ASSERT_EQ(out[i], key.bits(first + i)) << "number " << first << " + " << i << " of " << n;
          ASSERT_EQ(out[n], 42u) << "written past the end";
        }
  }
}

}  // namespace
}  // namespace shoal
