// The check of `shoal bench comm` finds what is wrong, down to one bit of one element.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "cli/bench_collectives.hpp"
#include "cli/bench_values.hpp"

namespace shoal::cli::bench {
namespace {

constexpr DType types[] = {DType::f32, DType::f64, DType::f16, DType::bf16,
                           DType::i32, DType::i64, DType::u8};
constexpr Reduction reductions[] = {{ReduceOp::sum, 1.0}, ReduceOp::sum, ReduceOp::average,
                                    ReduceOp::min,        ReduceOp::max, ReduceOp::product};
constexpr std::int64_t count = 40000;  // more than a pattern is long

Tensor make(DType dtype, std::int64_t n) { return Tensor::empty({n}, dtype, Stream::create({})); }

TEST(BenchValues, EveryWrongBitIsCounted) {
  for (const DType dtype : types) {
    const Pattern p = Pattern::input(dtype, ReduceOp::sum, 4, 2, 1, 0);
    const Tensor t = make(dtype, count);
    p.fill(t);
    EXPECT_EQ(p.count_wrong(t), 0) << name(dtype);
    auto* bytes = static_cast<unsigned char*>(t.data());
    bytes[0] ^= 1;
    bytes[t.nbytes() - 1] ^= 0x80;
    bytes[t.nbytes() / 2] ^= 4;
    EXPECT_EQ(p.count_wrong(t), 3) << name(dtype);
  }
}

TEST(BenchValues, AnotherRankPartRoundOrPlaceIsWrong) {
  for (const DType dtype : types) {
    const auto input = [&](int from, int part, int round) {
      return Pattern::input(dtype, ReduceOp::max, 4, from, part, round);
    };
    const Tensor t = make(dtype, count);
    input(1, 1, 1).fill(t);
    EXPECT_GT(input(0, 1, 1).count_wrong(t), count / 2);
    EXPECT_GT(input(1, 0, 1).count_wrong(t), count / 2);
    EXPECT_GT(input(1, 1, 0).count_wrong(t), count / 2);
    EXPECT_GT(input(1, 1, 1).count_wrong(t.slice(1024, count)), count / 2);
  }
}

// The elements that were summed, in f64, by another way.
TEST(BenchValues, ReductionsAreExact) {
  for (const int ranks : {1, 2, 3, 8, 40, 255})
    for (const Reduction op : reductions) {
      const Tensor sum = make(DType::f64, period), term = make(DType::f64, period);
      for (int from = 0; from < ranks; ++from) {
        Pattern::input(DType::f64, op, ranks, from, 3, 2).fill(from == 0 ? sum : term);
        if (op.scaled)
          for (std::int64_t i = 0; i < period; ++i)
            (from == 0 ? sum : term).as<double>()[i] *= scale_of(from);
        if (from == 0) continue;
        for (std::int64_t i = 0; i < period; ++i) {
          double& a = sum.as<double>()[i];
          const double b = term.as<double>()[i];
          a = op.op == ReduceOp::min       ? std::min(a, b)
              : op.op == ReduceOp::max     ? std::max(a, b)
              : op.op == ReduceOp::product ? a * b
                                           : a + b;
        }
      }
      for (std::int64_t i = 0; i < period; ++i) {
        double& a = sum.as<double>()[i];
        if (op.op == ReduceOp::average) a /= ranks;
        ASSERT_EQ(a, static_cast<double>(static_cast<std::int64_t>(a)));
        ASSERT_LE(a, 255) << name(op.op) << op.scaled << " of " << ranks;
      }
      EXPECT_EQ(Pattern::reduced(DType::f64, op, ranks, 3, 2).count_wrong(sum), 0)
          << name(op.op) << op.scaled << " of " << ranks;
    }
}

TEST(BenchCollectives, BandwidthsAreThoseOfNcclTests) {
  const auto problem = [](Collective c) {
    return Problem{c, DType::f32, Reduction(), 0, 0, 4, Problem::count_of(c, 4096, DType::f32, 4)};
  };
  for (const auto& [c, counted, bytes, factor] :
       {std::tuple{Collective::all_reduce, 1024, 4096.0, 1.5},
        std::tuple{Collective::reduce_scatter, 256, 4096.0, 0.75},
        std::tuple{Collective::all_gather, 256, 4096.0, 0.75},
        std::tuple{Collective::all_to_all, 256, 4096.0, 0.75},
        std::tuple{Collective::broadcast, 1024, 4096.0, 1.0},
        std::tuple{Collective::reduce, 1024, 4096.0, 1.0}, std::tuple{Collective::gather, 256, 4096.0, 0.75},
        std::tuple{Collective::scatter, 256, 4096.0, 0.75},
        std::tuple{Collective::sendrecv, 1024, 4096.0, 1.0}}) {
    const Problem p = problem(c);
    EXPECT_EQ(p.count, counted) << name(c);
    EXPECT_EQ(p.nbytes(), 4096) << name(c);
    EXPECT_EQ(p.algorithm_bytes(), bytes) << name(c);
    EXPECT_EQ(p.bus_factor(), factor) << name(c);
  }
}

}  // namespace
}  // namespace shoal::cli::bench
