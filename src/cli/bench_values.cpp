#include "cli/bench_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "shoal/core/error.hpp"

namespace shoal::cli::bench {
namespace {

constexpr std::int64_t repeats = 32;  // periods in a pattern: long enough for memcpy and memcmp to be fast

std::uint32_t hash(int from, int part, int round, std::int64_t j) {
  std::uint32_t h =
      static_cast<std::uint32_t>(j) * 0x9e3779b1u + static_cast<std::uint32_t>(from) * 0x85ebca6bu +
      static_cast<std::uint32_t>(part) * 0xc2b2ae35u + static_cast<std::uint32_t>(round) * 0x27d4eb2fu;
  h ^= h >> 15;
  h *= 0x2c1b3c6du;
  return h >> 8;
}

// Sums over all ranks stay at or below 255, and so does every partial sum: exact in u8 and in BF16. The inputs of an
// average are multiples of the number of ranks, so that its result is whole. Products have at most five factors 2.
double element(Reduction op, int ranks, int from, int part, int round, std::int64_t j) {
  const std::uint32_t h = hash(from, part, round, j);
  const std::uint32_t most =
      static_cast<std::uint32_t>(std::clamp(255 / (op.scaled ? 2 * ranks : ranks), 1, 7));
  const bool counts = from < (op.scaled ? 127 : 255);
  switch (op.op) {
    case ReduceOp::sum: return counts ? h % (most + 1) : 0;
    case ReduceOp::average:
      return counts && ranks < 256 ? (h % (most + 1)) * static_cast<std::uint32_t>(ranks) : 0;
    case ReduceOp::min:
    case ReduceOp::max: return h % 128;
    case ReduceOp::product: return (from + j) % ranks < 5 && h % 2 == 1 ? 2 : 1;
  }
  return 0;
}

double combine(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average: return a + b;
    case ReduceOp::min: return std::min(a, b);
    case ReduceOp::max: return std::max(a, b);
    case ReduceOp::product: return a * b;
  }
  return 0;
}

template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// Whole numbers from 0 to 256 need neither rounding nor subnormals in any type.
std::uint16_t f16_bits(double value) {
  if (value == 0) return 0;
  const std::uint32_t u = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return static_cast<std::uint16_t>((((u >> 23) - 127 + 15) << 10) | ((u >> 13) & 0x3ff));
}

void store(std::byte* to, DType dtype, double value) {
  switch (dtype) {
    case DType::f32: return store(to, static_cast<float>(value));
    case DType::f64: return store(to, value);
    case DType::f16: return store(to, f16_bits(value));
    case DType::bf16:
      return store(to,
                   static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16));
    case DType::i32: return store(to, static_cast<std::int32_t>(value));
    case DType::i64: return store(to, static_cast<std::int64_t>(value));
    case DType::u8: return store(to, static_cast<std::uint8_t>(value));
    case DType::u16: return store(to, static_cast<std::uint16_t>(value));
    case DType::u32: return store(to, static_cast<std::uint32_t>(value));
  }
}

}  // namespace

Pattern::Pattern(DType dtype, const std::vector<double>& values) : dtype_(dtype) {
  const std::int64_t size = size_of(dtype);
  bytes_.resize(static_cast<std::size_t>(size * period * repeats));
  for (std::int64_t j = 0; j < period * repeats; ++j)
    store(bytes_.data() + j * size, dtype, values[static_cast<std::size_t>(j % period)]);
}

Pattern Pattern::input(DType dtype, Reduction op, int ranks, int from, int part, int round) {
  std::vector<double> values(period);
  for (std::int64_t j = 0; j < period; ++j)
    values[static_cast<std::size_t>(j)] = element(op, ranks, from, part, round, j);
  return Pattern(dtype, values);
}

Pattern Pattern::reduced(DType dtype, Reduction op, int ranks, int part, int round) {
  std::vector<double> values(period);
  for (std::int64_t j = 0; j < period; ++j) {
    const auto term = [&](int from) {
      return element(op, ranks, from, part, round, j) * (op.scaled ? scale_of(from) : 1);
    };
    double result = term(0);
    for (int from = 1; from < ranks; ++from) result = combine(op.op, result, term(from));
    values[static_cast<std::size_t>(j)] = op.op == ReduceOp::average ? result / ranks : result;
  }
  return Pattern(dtype, values);
}

void Pattern::fill(const Tensor& t) const {
  t.require(dtype_);
  const auto block = static_cast<std::int64_t>(bytes_.size());
  auto* to = static_cast<std::byte*>(t.data());
  for (std::int64_t at = 0; at < t.nbytes(); at += block)
    std::memcpy(to + at, bytes_.data(), static_cast<std::size_t>(std::min(block, t.nbytes() - at)));
}

std::int64_t Pattern::count_wrong(const Tensor& t) const {
  t.require(dtype_);
  const auto block = static_cast<std::int64_t>(bytes_.size());
  const std::int64_t size = size_of(dtype_);
  const auto* found = static_cast<const std::byte*>(t.data());
  std::int64_t wrong = 0;
  for (std::int64_t at = 0; at < t.nbytes(); at += block) {
    const std::int64_t n = std::min(block, t.nbytes() - at);
    if (std::memcmp(found + at, bytes_.data(), static_cast<std::size_t>(n)) == 0) continue;
    for (std::int64_t i = 0; i < n; i += size)
      wrong += std::memcmp(found + at + i, bytes_.data() + i, static_cast<std::size_t>(size)) != 0;
  }
  return wrong;
}

}  // namespace shoal::cli::bench
