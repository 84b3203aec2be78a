#include "shoal/ops/embedding.hpp"

#include <gtest/gtest.h>

#include "kernels/cpu/embedding.hpp"
#include "shoal/core/error.hpp"
#include "src/ops/dropout_args.hpp"
#include "support/expect_message.hpp"
#include "support/reference.hpp"

namespace shoal {
namespace {

using namespace test;
using ops::Dropout;

const RandomKey key{.seed = 11, .purpose = Purpose::dropout_embedding, .batch = 9, .layer = 0};

Tensor random_tokens(const Stream& s, std::int64_t n, std::int64_t vocab, Random& random) {
  const Tensor t = Tensor::empty({n}, DType::i32, s);
  for (std::int64_t i = 0; i < n; ++i)
    t.as<std::int32_t>()[i] = static_cast<std::int32_t>(random.integer(0, vocab - 1));
  return t;
}

// Factor of element e of the microbatch.
double kept(const Dropout& d, std::int64_t elements_per_sample, std::int64_t e) {
  if (d.p == 0.0) return 1.0;
  const auto index = static_cast<std::uint64_t>(d.first_sample * elements_per_sample + e);
  return d.key.bits(index) < dropout_threshold(d.p) ? 0.0 : 1.0 / (1.0 - d.p);
}

// Forward is linear and backward its transpose, each by loops over the definition.
TEST(Embedding, ForwardAndBackwardAgreeWithFp64AtOddSizes) {
  const Stream s = Stream::create({});
  Random random;
  for (double p : {0.0, 0.3})
    for (bool positions : {true, false})
      for (std::int64_t seq : odd_sizes())
        for (std::int64_t hidden : odd_sizes())
          for (std::int64_t vocab : {1, 31, 257}) {
            if (seq == 257 && hidden == 257 && vocab == 31) continue;  // time
            SCOPED_TRACE(testing::Message() << "seq " << seq << ", hidden " << hidden << ", vocab " << vocab);
            const std::int64_t samples = seq == 0 ? 0 : 2, rows = samples * seq,
                               length = std::max<std::int64_t>(1, seq);
            const Dropout d{.p = p, .key = key, .first_sample = 3};
            const Tensor tokens = random_tokens(s, rows, vocab, random);
            const Tensor word = random_tensor(s, {vocab, hidden}, random);
            const Tensor position = positions ? random_tensor(s, {length + 2, hidden}, random) : Tensor();
            const Tensor dy = random_tensor(s, {rows, hidden}, random);
            const Tensor y = Tensor::empty({rows, hidden}, DType::f32, s);
            const Tensor dword = filled(s, word.shape(), NAN);
            const Tensor dposition = positions ? filled(s, position.shape(), NAN) : Tensor();
            std::vector<double> y64(rows * hidden), dw64(vocab * hidden), dp64((length + 2) * hidden);
            for (std::int64_t e = 0; e < rows * hidden; ++e) {
              const std::int64_t w = tokens.as<std::int32_t>()[e / hidden] * hidden + e % hidden;
              const std::int64_t at = e / hidden % length * hidden + e % hidden;
              const double k = kept(d, length * hidden, e), g = k * dy.as<float>()[e];
              y64[e] = k * (static_cast<double>(word.as<float>()[w]) +
                            (positions ? position.as<float>()[at] : 0.0));
              dw64[w] += g;
              dp64[at] += g;
            }
            ops::embedding_forward(s, tokens, word, position, length, d, y);
            EXPECT_TRUE(close(y, y64, {word, position}, 1e-6));
            ops::embedding_backward(s, dy, tokens, length, d, dword, dposition, false);
            EXPECT_TRUE(close(dword, dw64, {dy}));
            if (positions) {
              EXPECT_TRUE(close(dposition, dp64, {dy}));
            }
          }
}

TEST(Embedding, GradientsAreSummedInAscendingTokenOrder) {
  const Stream s = Stream::create({});
  Random random;
  const std::int64_t seq = 129, samples = 3, hidden = 130, vocab = 7;
  const Tensor tokens = random_tokens(s, samples * seq, vocab, random);
  const Tensor dy = random_tensor(s, {samples * seq, hidden}, random);
  const Tensor word = filled(s, {vocab, hidden}, 0), position = filled(s, {seq, hidden}, 0);
  for (std::int64_t t = 0; t < samples * seq; ++t)
    for (std::int64_t i = 0; i < hidden; ++i) {
      const float g = dy.as<float>()[t * hidden + i];
      word.as<float>()[tokens.as<std::int32_t>()[t] * hidden + i] += g;
      position.as<float>()[t % seq * hidden + i] += g;
    }
  const Tensor dword = Tensor::empty(word.shape(), DType::f32, s),
               dposition = Tensor::empty(position.shape(), DType::f32, s);
  ops::embedding_backward(s, dy, tokens, seq, {}, dword, dposition, false);
  EXPECT_TRUE(same_bits(dword, word));
  EXPECT_TRUE(same_bits(dposition, position));
  // Samples one after another into the same accumulators: the same sums.
  for (std::int64_t j = 0; j < samples; ++j)
    ops::embedding_backward(s, dy.slice(j * seq, (j + 1) * seq), tokens.slice(j * seq, (j + 1) * seq), seq,
                            {}, dword, dposition, j > 0);
  EXPECT_TRUE(same_bits(dword, word));
  EXPECT_TRUE(same_bits(dposition, position));
}

TEST(Embedding, BitsDoNotDependOnThreadsInstructionSetOrMicrobatch) {
  const Stream s = Stream::create({});
  Random random;
  const std::int64_t seq = 65, samples = 4, hidden = 259, vocab = 50, rows = samples * seq;
  const Tensor tokens = random_tokens(s, rows, vocab, random), dy = random_tensor(s, {rows, hidden}, random);
  const Tensor word = random_tensor(s, {vocab, hidden}, random),
               position = random_tensor(s, {seq, hidden}, random);
  const Dropout d{.p = 0.2, .key = key, .first_sample = 8};
  struct Result {
    Tensor y, dword, dposition;
  };
  const auto result = [&] {
    return Result{Tensor::empty({rows, hidden}, DType::f32, s), Tensor::empty(word.shape(), DType::f32, s),
                  Tensor::empty(position.shape(), DType::f32, s)};
  };
  const auto runs = with_thread_counts([&] {
    const Result r = result();
    ops::embedding_forward(s, tokens, word, position, seq, d, r.y);
    ops::embedding_backward(s, dy, tokens, seq, d, r.dword, r.dposition, false);
    return r;
  });
  const auto check = [&](const Result& r) {
    EXPECT_TRUE(same_bits(runs[0].y, r.y));
    EXPECT_TRUE(same_bits(runs[0].dword, r.dword));
    EXPECT_TRUE(same_bits(runs[0].dposition, r.dposition));
  };
  check(runs[1]);
  check(runs[2]);
  const auto forwards = SHOAL_ALL_ISAS(embedding_forward);
  const auto backwards = SHOAL_ALL_ISAS(embedding_backward);
  const kernels::EmbeddingArgs args{tokens.as<std::int32_t>(),         rows, hidden, seq, 1, vocab, 0,
                                    ops::dropout_args(d, seq * hidden)};
  for (std::size_t k = 0; k < forwards.size(); ++k) {
    const Result r = result();
    forwards[k](args, kernels::Storage::f32, word.data(), position.data(), kernels::Storage::f32, r.y.data());
    backwards[k](args, kernels::Storage::f32, dy.as<float>(), r.dword.as<float>(), r.dposition.as<float>(),
                 seq, false);
    check(r);
  }
  const Result parts = result();
  for (std::int64_t j = 0; j < samples; ++j) {
    Dropout part = d;
    part.first_sample += j;
    const std::int64_t a = j * seq, b = a + seq;
    ops::embedding_forward(s, tokens.slice(a, b), word, position, seq, part, parts.y.slice(a, b));
    ops::embedding_backward(s, dy.slice(a, b), tokens.slice(a, b), seq, part, parts.dword, parts.dposition,
                            j > 0);
  }
  check(parts);
}

// The vocabulary in pieces of rows that lie apart, its last rows being padding.
TEST(Embedding, PiecesThatLieApartGiveTheSameBits) {
  const Stream s = Stream::create({});
  Random random;
  const std::int64_t vocab = 31, pieces = 3, rows = 11, hidden = 37, stride = rows * hidden + 9,
                     tokens_n = 200;
  const Tensor tokens = random_tokens(s, tokens_n, vocab, random);
  tokens.as<std::int32_t>()[0] = vocab - 1;
  const Tensor word = random_tensor(s, {vocab, hidden}, random),
               dy = random_tensor(s, {tokens_n, hidden}, random);
  const Tensor y = filled(s, {tokens_n, hidden}, 0), y2 = filled(s, y.shape(), 0),
               dword = filled(s, word.shape(), 0);
  const Tensor padded = filled(s, {pieces * rows, hidden}, NAN), flat = filled(s, {pieces * stride}, NAN);
  const Tensor apart = flat.view({pieces, rows, hidden}, stride);
  copy(s, word, padded.slice(0, vocab));
  copy(s, padded, apart);
  ops::embedding_forward(s, tokens, word, {}, 20, {}, y);
  ops::embedding_forward(s, tokens, apart, {}, 20, {}, y2, vocab);
  EXPECT_TRUE(same_bits(y, y2));
  copy(s, filled(s, flat.shape(), 5), flat);
  for (bool accumulate : {false, true}) {
    ops::embedding_backward(s, dy, tokens, 20, {}, dword, {}, accumulate);
    ops::embedding_backward(s, dy, tokens, 20, {}, apart, {}, accumulate, vocab);
  }
  copy(s, apart, padded);
  EXPECT_TRUE(same_bits(padded.slice(0, vocab), dword));
  for (std::int64_t i = vocab * hidden; i < padded.numel(); ++i) ASSERT_EQ(padded.as<float>()[i], 0.0f);
  for (std::int64_t p = 0; p < pieces; ++p)
    for (std::int64_t i = rows * hidden; i < stride; ++i) ASSERT_EQ(flat.as<float>()[p * stride + i], 5.0f);
  tokens.as<std::int32_t>()[3] = vocab;  // a row of padding
  EXPECT_MESSAGE(ops::embedding_forward(s, tokens, apart, {}, 20, {}, y, vocab), ShapeError,
                 "token 3 has id 31, outside the vocabulary [0, 31)");
  EXPECT_MESSAGE(ops::embedding_forward(s, tokens, apart, {}, 20, {}, y, 34), ShapeError,
                 "a vocabulary of 34 in word f32[3, 11, 37] (stride 416)");
}

TEST(Embedding, NamesTheFirstBadIdBeforeAnyWork) {
  const Stream s = Stream::create({});
  const Tensor word = filled(s, {5, 3}, 1.0f), y = filled(s, {4, 3}, 7.0f);
  for (std::int32_t bad : {5, -1, INT32_MIN, INT32_MAX}) {
    const Tensor tokens = tensor_of<std::int32_t>(s, {4}, {0, 4, bad, -9});
    const std::string want = "token 2 has id " + std::to_string(bad) + ", outside the vocabulary [0, 5)";
    for (bool backward : {false, true}) try {
        if (backward)
          ops::embedding_backward(s, y, tokens, 4, {}, word, {}, false);
        else
          ops::embedding_forward(s, tokens, word, {}, 4, {}, y);
        FAIL() << "no error";
      } catch (const ShapeError& e) {
        EXPECT_NE(std::string(e.what()).find(want), std::string::npos) << e.what();
      }
  }
  EXPECT_TRUE(same_bits(y, filled(s, {4, 3}, 7.0f)));
  EXPECT_TRUE(same_bits(word, filled(s, {5, 3}, 1.0f)));
  const Tensor tokens = tensor_of<std::int32_t>(s, {4}, {0, 1, 2, 3});
  EXPECT_THROW(ops::embedding_forward(s, tokens, word, filled(s, {3, 3}, 0), 4, {}, y), ShapeError);
  EXPECT_THROW(ops::embedding_forward(s, tokens, word, {}, 4, {}, filled(s, {4, 4}, 0)), ShapeError);
}

}  // namespace
}  // namespace shoal
