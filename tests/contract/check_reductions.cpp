#include <algorithm>
#include <array>
#include <numeric>

#include "contract/check_list.hpp"
#include "contract/values.hpp"

namespace shoal::contract {
namespace {

constexpr ReduceOp ops[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max,
                            ReduceOp::product};

// What rank r holds: sums of 8 ranks stay below 256 and products of 8 ranks are at most 256, exact in every dtype.
constexpr std::int64_t period = 22;
double value(ReduceOp op, int r, std::int64_t i) {
  if (op == ReduceOp::product) return 1.0 + (i + r) % 2;
  return static_cast<double>((r * 5 + i) % 11 + 1);
}

// Powers of two, so that scaling is exact; another one on each rank.
double scale_of(int r) { return r % 3 == 0 ? 2.0 : r % 3 == 1 ? 0.5 : -1.0; }

// The result over ranks [0, n), by element modulo the period.
using Table = std::array<double, period>;
Table table(Reduction how, DType dtype, int n) {
  Table all;
  for (std::int64_t i = 0; i < period; ++i) {
    const auto term = [&](int r) { return value(how.op, r, i) * (how.scaled ? scale_of(r) : 1.0); };
    double x = term(0);
    for (int r = 1; r < n; ++r) {
      const double y = term(r);
      switch (how.op) {
        case ReduceOp::sum:
        case ReduceOp::average: x += y; break;
        case ReduceOp::min: x = std::min(x, y); break;
        case ReduceOp::max: x = std::max(x, y); break;
        case ReduceOp::product: x *= y; break;
      }
    }
    if (how.op == ReduceOp::average)
      x = dtype == DType::f64 ? x / n : static_cast<float>(x) / static_cast<float>(n);
    all[i] = dtype == DType::u8 ? static_cast<double>(static_cast<int>(x) % 256) : x;  // 256 wraps in u8
  }
  return all;
}

// f(dtype, reduction, count, expected(i)) for every reduction that a dtype has.
template <class F>
void for_each_case(int n, const F& f) {
  int index = 0;
  for (DType dtype : arithmetic)
    for (ReduceOp op : ops) {
      ++index;
      if (op == ReduceOp::average && !floating(dtype)) continue;
      const Table all = table(op, dtype, n);
      for (std::int64_t count : counts_of(index, n))
        f(dtype, op, count, [&](std::int64_t i) { return all[i % period]; });
    }
}

std::string label(const char* what, ReduceOp op, int rank) {
  return std::string(what) + " " + std::string(name(op)) + ", rank " + std::to_string(rank);
}

}  // namespace

void check_all_reduce(const World& w) {
  const int r = w->rank();
  for_each_case(w->size(), [&](DType dtype, ReduceOp op, std::int64_t count, const auto& sum) {
    const auto mine = [&](std::int64_t i) { return value(op, r, i); };
    const Tensor in = filled(dtype, count, mine), out = make(dtype, count);
    w->all_reduce(in, out, op);
    expect_values(out, sum, label("all_reduce", op, r));
    expect_values(in, mine, label("the input of all_reduce", op, r));
    w->all_reduce(in, op);
    expect_values(in, sum, label("all_reduce in place", op, r));
  });
}

void check_reduce_scatter(const World& w) {
  const int n = w->size(), r = w->rank();
  for_each_case(n, [&](DType dtype, ReduceOp op, std::int64_t count, const auto& sum) {
    if (count == big && n > 2) count = 20011;  // a rank's part: ranks hold n of them
    const auto mine = [&](std::int64_t i) { return value(op, r, i); };
    const auto part = [&](std::int64_t i) { return sum(r * count + i); };
    const Tensor in = filled(dtype, count * n, mine), out = make(dtype, count);
    w->reduce_scatter(in, out, op);
    expect_values(out, part, label("reduce_scatter", op, r));
    expect_values(in, mine, label("the input of reduce_scatter", op, r));
    const Tensor own = in.slice(r * count, (r + 1) * count);
    w->reduce_scatter(in, own, op);
    expect_values(own, part, label("reduce_scatter in place", op, r));
    const Tensor again = filled(dtype, count * n, mine);  // the result over the first part, whoever owns it
    w->reduce_scatter(again, again.slice(0, count), op);
    expect_values(again.slice(0, count), part, label("reduce_scatter over the first part", op, r));
  });
}

void check_reduce(const World& w) {
  const int n = w->size(), r = w->rank();
  int next = 0;
  for_each_case(n, [&](DType dtype, ReduceOp op, std::int64_t count, const auto& sum) {
    const int root = next++ % n;
    const auto mine = [&](std::int64_t i) { return value(op, r, i); };
    const Tensor in = filled(dtype, count, mine);
    const Tensor out = filled(dtype, count, [](std::int64_t) { return 99.0; });
    w->reduce(in, out, root, op);
    if (r == root)
      expect_values(out, sum, label("reduce at the root", op, r));
    else
      expect_all(out, 99.0, label("reduce elsewhere", op, r));
    expect_values(in, mine, label("the input of reduce", op, r));
    w->reduce(in, r == root ? in : Tensor(), root, op);
    if (r == root) expect_values(in, sum, label("reduce in place", op, r));
  });
}

// Each rank's own scale; also one of 1, which is a scale as well.
void check_prescaled(const World& w) {
  const int n = w->size(), r = w->rank();
  const Reduction how(ReduceOp::sum, scale_of(r));
  int index = 0;
  for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    const Table all = table(Reduction(ReduceOp::sum, 1.0), dtype, n);
    const auto sum = [&](std::int64_t i) { return all[i % period]; };
    for (std::int64_t count : counts_of(index++, n)) {
      const auto mine = [&](std::int64_t i) { return value(ReduceOp::sum, r, i); };
      const Tensor in = filled(dtype, count, mine), out = make(dtype, count);
      w->all_reduce(in, out, how);
      expect_values(out, sum, "pre-scaled all_reduce");
      const int root = static_cast<int>(count % n);
      w->reduce(in, out, root, how);
      if (r == root) expect_values(out, sum, "pre-scaled reduce");
      w->all_reduce(in, how);
      expect_values(in, sum, "pre-scaled all_reduce in place");
      if (count == big) continue;
      const Tensor whole = filled(dtype, count * n, mine), part = make(dtype, count);
      w->reduce_scatter(whole, part, how);
      expect_values(
          part, [&](std::int64_t i) { return sum(r * count + i); }, "pre-scaled reduce_scatter");
    }
  }
  const Tensor t = filled(DType::f32, 5, [](std::int64_t i) { return 1.0 * i; });
  w->all_reduce(t, Reduction(ReduceOp::sum, 1.0));
  expect_values(
      t, [&](std::int64_t i) { return 1.0 * n * i; }, "a scale of 1");
}

// Unequal parts, some of them empty.
void check_reduce_scatter_v(const World& w) {
  const int n = w->size(), r = w->rank();
  for_each_case(n, [&](DType dtype, ReduceOp op, std::int64_t base, const auto& sum) {
    if (base == big && n > 2) base = 20011;
    Communicator::Counts counts(n);
    for (int q = 0; q < n; ++q) counts[q] = q % 3 == 1 ? 0 : base + q;
    const std::int64_t begin = std::accumulate(counts.begin(), counts.begin() + r, std::int64_t{0});
    const std::int64_t all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const auto mine = [&](std::int64_t i) { return value(op, r, i); };
    const auto part = [&](std::int64_t i) { return sum(begin + i); };
    const Tensor in = filled(dtype, all, mine), out = make(dtype, counts[r]);
    w->reduce_scatter_v(in, out, counts, op);
    expect_values(out, part, label("reduce_scatter_v", op, r));
    expect_values(in, mine, label("the input of reduce_scatter_v", op, r));
    const Tensor own = in.slice(begin, begin + counts[r]);
    w->reduce_scatter_v(in, own, counts, op);
    expect_values(own, part, label("reduce_scatter_v in place", op, r));
  });
}

}  // namespace shoal::contract
