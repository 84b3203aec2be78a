#include "shoal/ops/rotary.hpp"

#include <gtest/gtest.h>

#include <complex>

#include "kernels/cpu/rotary.hpp"
#include "shoal/core/error.hpp"
#include "support/reference.hpp"

namespace shoal {
namespace {

using namespace test;

struct Tables {
  Tensor cos, sin;
};

Tables tables(const Stream& s, std::int64_t seq, std::int64_t head_dim, std::int64_t first = 0) {
  Tables t{Tensor::empty({seq, head_dim / 2}, DType::f32, s),
           Tensor::empty({seq, head_dim / 2}, DType::f32, s)};
  ops::rotary_table(s, seq, head_dim, 10000.0, t.cos, t.sin, first);
  return t;
}

TEST(Rotary, TurnsPairsByTheAngleAndBack) {
  const Stream s = Stream::create({});
  Random random;
  for (std::int64_t seq : odd_sizes())
    for (std::int64_t half : {1, 16, 31, 33})
      for (std::int64_t heads : {1, 3}) {
        SCOPED_TRACE(testing::Message() << "seq " << seq << ", half " << half << ", heads " << heads);
        // Two pieces of two heads, behind 5 other columns and before 3.
        const std::int64_t samples = 2, d = 2 * half, tokens = samples * seq, width = 5 + 2 * d + 3;
        const Tensor x = random_tensor(s, {2, tokens, width}, random), before = clone(s, x);
        const Tables t = tables(s, seq, d);
        ops::rotary(s, {x, 5, 2}, heads, d, samples, seq, t.cos, t.sin, false);
        std::vector<double> want = values(before);
        for (std::int64_t h = 0; h < heads; ++h)
          for (std::int64_t n = 0; n < tokens; ++n)
            for (std::int64_t i = 0; i < half; ++i) {
              const std::int64_t at = (h / 2 * tokens + n) * width + 5 + h % 2 * d + i;
              const double angle = static_cast<double>(n % seq) * std::pow(10000.0, -2.0 * i / d);
              const auto z = std::complex<double>(want[at], want[at + half]) * std::polar(1.0, angle);
              want[at] = z.real();
              want[at + half] = z.imag();
            }
        EXPECT_TRUE(close(x, want, {before}, 1e-6));
        for (std::int64_t e = 0; e < x.numel(); ++e) {
          const std::int64_t c = e % width, piece = e / std::max<std::int64_t>(1, tokens * width);
          const std::int64_t heads_here =
              std::min<std::int64_t>(2, std::max<std::int64_t>(0, heads - 2 * piece));
          if (c < 5 || c >= 5 + heads_here * d) {
            ASSERT_EQ(x.as<float>()[e], before.as<float>()[e]) << "not its own";
          }
        }
        // The gradient of a rotation is the rotation back.
        ops::rotary(s, {x, 5, 2}, heads, d, samples, seq, t.cos, t.sin, true);
        EXPECT_TRUE(close(x, values(before), {before}, 1e-6));
      }
}

TEST(Rotary, ATableFromALaterPositionIsTheSliceOfTheWhole) {
  const Stream s = Stream::create({});
  const Tables whole = tables(s, 40, 64), part = tables(s, 7, 64, 33);
  EXPECT_TRUE(same_bits(part.cos, whole.cos.slice(33, 40)));
  EXPECT_TRUE(same_bits(part.sin, whole.sin.slice(33, 40)));
}

TEST(Rotary, BitsDoNotDependOnThreadsOrInstructionSet) {
  const Stream s = Stream::create({});
  Random random;
  const Tensor x = random_tensor(s, {1, 257, 4 * 66}, random);
  const Tables t = tables(s, 257, 66);
  const auto runs = with_thread_counts([&] {
    const Tensor y = clone(s, x);
    ops::rotary(s, {y, 0, 4}, 4, 66, 1, 257, t.cos, t.sin, false);
    return y;
  });
  EXPECT_TRUE(same_bits(runs[0], runs[1]));
  EXPECT_TRUE(same_bits(runs[0], runs[2]));
  for (const auto kernel : SHOAL_ALL_ISAS(rotary)) {
    const Tensor y = clone(s, x);
    kernel({kernels::Storage::f32, y.as<float>(), 257, 4 * 66, 0, 4, 4, 66, 257, t.cos.as<float>(),
            t.sin.as<float>(), false});
    EXPECT_TRUE(same_bits(runs[0], y));
  }
}

TEST(Rotary, RefusesWhatDoesNotFit) {
  const Stream s = Stream::create({});
  const Tensor x = filled(s, {1, 4, 8}, 0);
  const Tables t = tables(s, 4, 4);
  EXPECT_THROW(ops::rotary(s, {x, 0, 2}, 3, 4, 1, 4, t.cos, t.sin, false), ShapeError);  // three heads of two
  EXPECT_THROW(ops::rotary(s, {x, 1, 2}, 2, 4, 1, 4, t.cos, t.sin, false),
               ShapeError);  // past the last column
  EXPECT_THROW(ops::rotary(s, {x, 0, 2}, 2, 4, 1, 5, t.cos, t.sin, false), ShapeError);  // other tokens
  EXPECT_THROW(ops::rotary_table(s, 4, 3, 1e4, t.cos, t.sin), ShapeError);               // an odd head
}

}  // namespace
}  // namespace shoal
