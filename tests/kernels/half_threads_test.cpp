// Operations on 16-bit activations give the same bits on every instruction set and number of threads (docs/numerics.md,
// R9), also where numbers are infinite, not numbers, or below the normal range.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/cpu/activation.hpp"
#include "kernels/cpu/bias.hpp"
#include "kernels/cpu/cross_entropy.hpp"
#include "kernels/cpu/dropout.hpp"
#include "kernels/cpu/embedding.hpp"
#include "kernels/cpu/norm.hpp"
#include "kernels/cpu/rotary.hpp"
#include "shoal/ops/activation.hpp"
#include "shoal/ops/cross_entropy.hpp"
#include "shoal/ops/embedding.hpp"
#include "shoal/ops/matmul.hpp"
#include "shoal/ops/norm.hpp"
#include "shoal/ops/rotary.hpp"
#include "src/ops/dropout_args.hpp"
#include "support/half.hpp"

namespace shoal {
namespace {

using namespace test;
using kernels::Storage;
using Tensors = std::vector<Tensor>;

// M x H: tails everywhere, and enough work to wake threads.
constexpr std::int64_t M = 258, H = 257;

class HalfThreads : public testing::TestWithParam<DType> {
 protected:
  Stream s = Stream::create({});
  Random random;
  DType type = GetParam();
  Storage code = type == DType::bf16 ? Storage::bf16 : Storage::f16;
  const Dropout some{0.3, {7, Purpose::dropout_ffn_out, 3, 1}, 2};

  Tensor numbers(const Shape& shape, double sigma = 1.0) {
    return narrowed(s, random_tensor(s, shape, random, sigma), type);
  }
  // Among them what is not finite, in rows of their own, and what this type has below its normal range.
  Tensor wild(const Shape& shape) {
    const Tensor t = random_tensor(s, shape, random, 3.0);
    float* x = t.as<float>();
    for (std::int64_t i = 0; i < H; ++i) x[i] *= type == DType::bf16 ? 0x1p-128f : 0x1p-18f;
    x[H + 3] = std::numeric_limits<float>::infinity();
    x[2 * H + 16] = -std::numeric_limits<float>::infinity();
    x[4 * H - 1] = std::numeric_limits<float>::quiet_NaN();
    return narrowed(s, t, type);
  }
  Tensor half(const Shape& shape) { return narrowed(s, filled(s, shape, 0.0f), type); }
  Tensor f32(const Shape& shape) { return filled(s, shape, 0.0f); }

  // op(results) on 1, 2 and 3 threads, then by each instruction set's kernel: kernel(k, results).
  template <class Op, class Kernels, class Call>
  void check(const std::function<Tensors()>& results, const Op& op, const Kernels& all, const Call& call) {
    const auto runs = with_thread_counts([&] {
      Tensors r = results();
      op(r);
      s.synchronize();
      return r;
    });
    for (int i : {1, 2}) expect_same(runs[i], runs[0], "threads");
    for (const auto kernel : all) {
      const Tensors r = results();
      call(kernel, r);
      expect_same(r, runs[0], "instruction set");
    }
  }
  // Which NaN comes out of two goes by the order in which a compiler names them: all are the same here.
  Tensor plain(const Tensor& t) {
    const Tensor wide = widened(s, t);
    for (std::int64_t i = 0; i < wide.numel(); ++i)
      if (std::isnan(wide.as<float>()[i])) wide.as<float>()[i] = std::numeric_limits<float>::quiet_NaN();
    return wide;
  }
  void expect_same(const Tensors& got, const Tensors& want, const char* what) {
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_TRUE(same_bits(plain(got[i]), plain(want[i]))) << what << ", result " << i;
  }
};
INSTANTIATE_TEST_SUITE_P(Types, HalfThreads, testing::Values(DType::bf16, DType::f16),
                         [](const auto& info) { return std::string(name(info.param)); });

float* f(const Tensor& t) { return t.as<float>(); }
std::uint16_t* h(const Tensor& t) { return static_cast<std::uint16_t*>(t.data()); }

TEST_P(HalfThreads, Norms) {
  const Tensor x = wild({M, H}), dy = numbers({M, H}), dres = numbers({M, H}), w = numbers({H}),
               b = numbers({H});
  for (const bool centred : {true, false}) {
    SCOPED_TRACE(centred ? "layer" : "rms");
    const Tensor none, bias = centred ? b : none;
    check(
        [&] {
          return Tensors{half({M, H}), f32({M}), f32({M})};
        },
        [&](const Tensors& r) {
          if (centred)
            ops::layer_norm_forward(s, x, w, b, 1e-5f, r[0], r[1], r[2]);
          else
            ops::rms_norm_forward(s, x, w, 1e-5f, r[0], r[2]);
        },
        centred ? SHOAL_ALL_ISAS(layer_norm_forward) : SHOAL_ALL_ISAS(rms_norm_forward),
        [&](auto kernel, const Tensors& r) {
          kernel({code, code, x.data(), w.data(), bias.data(), 1e-5f, r[0].data(), f(r[1]), f(r[2]), M, H});
        });
    const Tensor y = half({M, H}), mean = f32({M}), rstd = f32({M});
    ops::layer_norm_forward(s, x, w, b, 1e-5f, y, mean, rstd);
    const Tensor partial = f32({2 * kernels::norm_blocks(M / 2), 2, H});
    check(
        [&] {
          return Tensors{half({M, H}), f32({2, H}), f32({2, H})};
        },
        [&](const Tensors& r) {
          if (centred)
            ops::layer_norm_backward(s, dy, x, w, mean, rstd, dres, r[0], r[1], r[2], false);
          else
            ops::rms_norm_backward(s, dy, x, w, rstd, dres, r[0], r[1], false);
        },
        centred ? SHOAL_ALL_ISAS(layer_norm_backward) : SHOAL_ALL_ISAS(rms_norm_backward),
        [&](auto kernel, const Tensors& r) {
          kernel({code, code, dy.data(), x.data(), w.data(), f(mean), f(rstd), dres.data(), r[0].data(),
                  f(r[1]), f(r[2]), f(partial), M, H, 2, false});
        });
  }
}

TEST_P(HalfThreads, DropoutAndResidual) {
  const Tensor x = wild({M, H}), z = numbers({M, H}), exact = random_tensor(s, {M, H}, random),
               bias = numbers({H});
  const auto args = ops::dropout_args(some, M * H);
  check(
      [&] {
        return Tensors{half({M, H})};
      },
      [&](const Tensors& r) { ops::dropout_forward(s, x, some, M, r[0]); }, SHOAL_ALL_ISAS(dropout),
      [&](auto kernel, const Tensors& r) {  // and in two parts
        const std::int64_t cut = 1001;
        kernel(code, x.data(), r[0].data(), cut, args);
        auto rest = args;
        rest.first += cut;
        kernel(code, h(x) + cut, h(r[0]) + cut, M * H - cut, rest);
      });
  for (const Tensor& in : {z, exact}) {
    const Storage z_type = in.dtype() == DType::f32 ? Storage::f32 : code;
    check(
        [&] {
          return Tensors{half({M, H})};
        },
        [&](const Tensors& r) { ops::residual_forward(s, x, in, bias, some, M, r[0]); },
        SHOAL_ALL_ISAS(residual_forward),
        [&](auto kernel, const Tensors& r) {
          kernel({code, z_type, code, x.data(), in.data(), bias.data(), r[0].data(), M, H, args});
        });
    // In place.
    const Tensor want = half({M, H});
    ops::residual_forward(s, x, in, {}, some, M, want);
    const Tensor over_x = clone(s, x);
    ops::residual_forward(s, over_x, in, {}, some, M, over_x);
    EXPECT_TRUE(same_bits(over_x, want));
    if (in.dtype() == type) {
      const Tensor over_z = clone(s, in);
      ops::residual_forward(s, x, over_z, {}, some, M, over_z);
      EXPECT_TRUE(same_bits(over_z, want));
    }
  }
}

TEST_P(HalfThreads, Embedding) {
  const std::int64_t V = 50, seq = 86;
  const Tensor word = wild({V, H}), position = numbers({seq, H}), dy = wild({M, H});
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < M; ++i) ids.push_back(static_cast<std::int32_t>(random.integer(0, V - 1)));
  const Tensor tokens = tensor_of<std::int32_t>(s, {M}, ids);
  const kernels::EmbeddingArgs args{tokens.as<std::int32_t>(),       M, H, seq, 1, V, 0,
                                    ops::dropout_args(some, seq * H)};
  check(
      [&] {
        return Tensors{half({M, H})};
      },
      [&](const Tensors& r) { ops::embedding_forward(s, tokens, word, position, seq, some, r[0]); },
      SHOAL_ALL_ISAS(embedding_forward),
      [&](auto kernel, const Tensors& r) {
        kernel(args, code, word.data(), position.data(), code, r[0].data());
      });
  check(
      [&] {
        return Tensors{f32({V, H}), f32({seq, H})};
      },
      [&](const Tensors& r) { ops::embedding_backward(s, dy, tokens, seq, some, r[0], r[1], true); },
      SHOAL_ALL_ISAS(embedding_backward),
      [&](auto kernel, const Tensors& r) { kernel(args, code, dy.data(), f(r[0]), f(r[1]), seq, true); });
}

// A vocabulary in pieces that lie apart (R8) changes no bit.
TEST_P(HalfThreads, EmbeddingInPiecesThatLieApart) {
  const std::int64_t V = 12, pieces = 3, rows = V / pieces, seq = 6, apart = rows * H + 64;
  const Tensor word = numbers({V, H}), dy = numbers({V, H});
  const Tensor gaps = half({pieces * apart}), dgaps = f32({pieces * apart});
  const Tensor split = gaps.view({pieces, rows, H}, apart), dsplit = dgaps.view({pieces, rows, H}, apart);
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < V; ++i) ids.push_back(static_cast<std::int32_t>((5 * i) % V));
  const Tensor tokens = tensor_of<std::int32_t>(s, {V}, ids);
  for (std::int64_t p = 0; p < pieces; ++p)
    std::memcpy(h(gaps) + p * apart, h(word) + p * rows * H, static_cast<std::size_t>(rows * H * 2));
  const Tensor y = half({V, H}), want = half({V, H}), dw = f32({V, H});
  ops::embedding_forward(s, tokens, split, {}, seq, {}, y);
  ops::embedding_forward(s, tokens, word, {}, seq, {}, want);
  EXPECT_TRUE(same_bits(y, want));
  ops::embedding_backward(s, dy, tokens, seq, {}, dsplit, {}, false);
  ops::embedding_backward(s, dy, tokens, seq, {}, dw, {}, false);
  for (std::int64_t p = 0; p < pieces; ++p)
    EXPECT_EQ(0, std::memcmp(f(dgaps) + p * apart, f(dw) + p * rows * H,
                             static_cast<std::size_t>(rows * H) * sizeof(float)));
}

TEST_P(HalfThreads, CrossEntropy) {
  const std::int64_t pieces = 2, width = 1031, vocab = 2 * width - 5;
  const Tensor logits = numbers({pieces, M, width}, 4.0);
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < M; ++i)
    ids.push_back(i % 7 ? static_cast<std::int32_t>(random.integer(0, vocab - 1)) : ops::ignored_token);
  const Tensor targets = tensor_of<std::int32_t>(s, {M}, ids);
  check(
      [&] {
        return Tensors{f32({M}), half({pieces, M, width})};
      },
      [&](const Tensors& r) { ops::cross_entropy(s, logits, targets, vocab, r[0], r[1], 3.0f); },
      SHOAL_ALL_ISAS(cross_entropy),
      [&](auto kernel, const Tensors& r) {
        EXPECT_EQ(0, kernel({code, logits.data(), targets.as<std::int32_t>(), f(r[0]), r[1].data(), pieces, M,
                             width, vocab, ops::ignored_token, 3.0f}));
      });
}

TEST_P(HalfThreads, Activations) {
  const Tensor x = wild({M, H}), dy = numbers({M, H}), gate_up = wild({M, 2 * H});
  const auto one = [&] { return Tensors{half({M, H})}; };
  check(
      one, [&](const Tensors& r) { ops::gelu_forward(s, x, r[0]); }, SHOAL_ALL_ISAS(gelu_forward),
      [&](auto kernel, const Tensors& r) { kernel(code, x.data(), r[0].data(), M * H); });
  check(
      one, [&](const Tensors& r) { ops::gelu_backward(s, dy, x, r[0]); }, SHOAL_ALL_ISAS(gelu_backward),
      [&](auto kernel, const Tensors& r) { kernel(code, dy.data(), x.data(), r[0].data(), M * H); });
  check(
      one, [&](const Tensors& r) { ops::swiglu_forward(s, gate_up, r[0]); }, SHOAL_ALL_ISAS(swiglu_forward),
      [&](auto kernel, const Tensors& r) { kernel(code, gate_up.data(), r[0].data(), M, H); });
  check(
      [&] {
        return Tensors{half({M, 2 * H})};
      },
      [&](const Tensors& r) { ops::swiglu_backward(s, dy, gate_up, r[0]); }, SHOAL_ALL_ISAS(swiglu_backward),
      [&](auto kernel, const Tensors& r) { kernel(code, dy.data(), gate_up.data(), r[0].data(), M, H); });
  const Tensor place = clone(s, gate_up), want = half({M, 2 * H});
  ops::swiglu_backward(s, dy, gate_up, want);
  ops::swiglu_backward(s, dy, place, place);
  EXPECT_TRUE(same_bits(place, want));
}

TEST_P(HalfThreads, Rotary) {
  const std::int64_t seq = 43, heads = 6, dim = 82, width = 3 * dim + 11;
  const Tensor x = wild({2, M, width}), cos = f32({seq, dim / 2}), sin = f32({seq, dim / 2});
  ops::rotary_table(s, seq, dim, 10000.0, cos, sin);
  check([&] { return Tensors{clone(s, x)}; },
        [&](const Tensors& r) {
          ops::rotary(s, {r[0], 11, 3}, heads, dim, M / seq, seq, cos, sin, true);
        },
        SHOAL_ALL_ISAS(rotary),
        [&](auto kernel, const Tensors& r) {
          kernel({code, r[0].data(), M, width, 11, heads, 3, dim, seq, f(cos), f(sin), true});
        });
}

TEST_P(HalfThreads, Sums) {
  const std::int64_t pieces = 3;
  const Tensor dy = wild({pieces, M, H}), x = random_tensor(s, {5, M * H}, random, 1e4);
  check(
      [&] {
        return Tensors{f32({pieces, H})};
      },
      [&](const Tensors& r) { ops::bias_backward(s, dy, r[0], true); }, SHOAL_ALL_ISAS(bias_backward),
      [&](auto kernel, const Tensors& r) { kernel(code, dy.data(), f(r[0]), H, pieces, M, H, true); });
  check([&] { return Tensors{half({M * H})}; }, [&](const Tensors& r) { ops::tree_sum(s, x, r[0]); },
        SHOAL_ALL_ISAS(tree_sum),
        [&](auto kernel, const Tensors& r) { kernel(f(x), code, r[0].data(), 5, M * H); });
}

}  // namespace
}  // namespace shoal
