#include <algorithm>
#include <cstring>
#include <random>

#include "contract/check_list.hpp"
#include "contract/values.hpp"
#include "shoal/shard/tree.hpp"

namespace shoal::contract {
namespace {

constexpr ReduceOp ops[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max,
                            ReduceOp::product};

// What rank r holds: sums of 8 ranks stay below 256 and products of 8 ranks are at most 256, exact in every dtype.
double value(ReduceOp op, int r, std::int64_t i) {
  if (op == ReduceOp::product) return 1.0 + (i + r) % 2;
  return static_cast<double>((r * 5 + i) % 11 + 1);
}

double expected(ReduceOp op, DType dtype, int ranks, std::int64_t i) {
  double x = value(op, 0, i);
  for (int r = 1; r < ranks; ++r) {
    const double y = value(op, r, i);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::average: x += y; break;
      case ReduceOp::min: x = std::min(x, y); break;
      case ReduceOp::max: x = std::max(x, y); break;
      case ReduceOp::product: x *= y; break;
    }
  }
  if (op == ReduceOp::average)
    x = dtype == DType::f64 ? x / ranks : static_cast<float>(x) / static_cast<float>(ranks);
  // 256 wraps in u8.
  return dtype == DType::u8 ? static_cast<double>(static_cast<int>(x) % 256) : x;
}

bool floating(DType t) { return t == DType::f32 || t == DType::f64 || size_of(t) == 2; }

template <class F>
void for_each_case(const F& f) {
  for (DType dtype : arithmetic)
    for (ReduceOp op : ops)
      for (std::int64_t count : counts)
        if ((count < 1000 || op == ReduceOp::sum) && (op != ReduceOp::average || floating(dtype)))
          f(dtype, op, count);
}

std::string label(const char* what, ReduceOp op, int rank) {
  return std::string(what) + " " + std::string(name(op)) + ", rank " + std::to_string(rank);
}

}  // namespace

void check_all_reduce(const World& w) {
  const int n = w->size(), r = w->rank();
  for_each_case([&](DType dtype, ReduceOp op, std::int64_t count) {
    const auto mine = [&](std::int64_t i) { return value(op, r, i); };
    const auto sum = [&](std::int64_t i) { return expected(op, dtype, n, i); };
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
  for_each_case([&](DType dtype, ReduceOp op, std::int64_t count) {
    if (count > 1000) count = 20011;
    const auto mine = [&](std::int64_t i) { return value(op, r, i); };
    const auto sum = [&](std::int64_t i) { return expected(op, dtype, n, r * count + i); };
    const Tensor in = filled(dtype, count * n, mine), out = make(dtype, count);
    w->reduce_scatter(in, out, op);
    expect_values(out, sum, label("reduce_scatter", op, r));
    expect_values(in, mine, label("the input of reduce_scatter", op, r));
    const Tensor own = in.slice(r * count, (r + 1) * count);
    w->reduce_scatter(in, own, op);
    expect_values(own, sum, label("reduce_scatter in place", op, r));
    const Tensor again = filled(dtype, count * n, mine);  // the result over the first part, whoever owns it
    w->reduce_scatter(again, again.slice(0, count), op);
    expect_values(again.slice(0, count), sum, label("reduce_scatter over the first part", op, r));
  });
}

void check_reduce(const World& w) {
  const int n = w->size(), r = w->rank();
  for (int root = 0; root < n; ++root)
    for (DType dtype : {DType::f32, DType::bf16, DType::i64})
      for (std::int64_t count : counts) {
        const auto mine = [&](std::int64_t i) { return value(ReduceOp::sum, r, i); };
        const auto sum = [&](std::int64_t i) { return expected(ReduceOp::sum, dtype, n, i); };
        const Tensor in = filled(dtype, count, mine);
        const Tensor out = filled(dtype, count, [](std::int64_t) { return 99.0; });
        w->reduce(in, out, root);
        if (r == root)
          expect_values(out, sum, "reduce at the root");
        else
          expect_values(
              out, [](std::int64_t) { return 99.0; }, "reduce elsewhere");
        expect_values(in, mine, "the input of reduce");
        w->reduce(in, r == root ? in : Tensor(), root);
        if (r == root) expect_values(in, sum, "reduce in place");
      }
}

// A sum rounded at each step would stay at 256; the sum of two FP16 40000 is infinite.
void check_sixteen_bit_sums(const World& w) {
  const int n = w->size(), r = w->rank();
  for (std::int64_t count : {1, 33, 20011}) {
    const Tensor t = filled(DType::bf16, count, [&](std::int64_t) { return r == 0 ? 256.0 : 1.0; });
    w->all_reduce(t);
    const Tensor once = filled(DType::bf16, 1, [&](std::int64_t) { return 255.0 + n; });
    if (n == 8) {
      EXPECT_EQ(get(once, 0), 264.0);
    }
    expect_values(
        t, [&](std::int64_t) { return get(once, 0); }, "256 + 1 + 1 + ... in bf16");
    const Tensor h = filled(DType::f16, count, [](std::int64_t) { return 40000.0; });
    w->all_reduce(h, ReduceOp::average);
    expect_values(
        h, [](std::int64_t) { return 40000.0; }, "the average of 40000 in f16");
  }
}

// Sums whose bits depend on the order: every rank has those of the tree over the ranks.
void check_bits_of_the_tree(const World& w) {
  const int n = w->size();
  for (std::int64_t count : {5, 1021, 70001}) {
    std::mt19937 random(w->rank() * 1000 + 17);
    const Tensor in = filled(DType::f32, count, [&](std::int64_t) {
      return static_cast<float>(static_cast<std::int32_t>(random())) * (random() % 2 ? 1.0f : 1e-5f);
    });
    const Tensor all = make(DType::f32, count * n), out = make(DType::f32, count);
    w->all_gather(in, all);
    w->all_reduce(in, out, ReduceOp::sum);
    // All ranks have the same bits, on every backend; and where one backend sums, those of the tree over ranks.
    const Tensor first = filled(DType::f32, count, [&](std::int64_t k) { return out.as<float>()[k]; });
    w->broadcast(first, 0);
    ASSERT_EQ(std::memcmp(first.data(), out.data(), out.nbytes()), 0) << count << " elements";
    if (w->backend().find('+') != std::string::npos) continue;
    std::vector<float> slot(n);
    for (std::int64_t i = 0; i < count; ++i) {
      for (int q = 0; q < n; ++q) slot[q] = all.as<float>()[q * count + i];
      shard::tree_reduce(n, [&](std::int64_t a, std::int64_t b) { slot[a] += slot[b]; });
      ASSERT_EQ(std::memcmp(&slot[0], out.as<float>() + i, 4), 0) << "element " << i << " of " << count;
    }
  }
}

// Leaves shared out unevenly, also none to a rank: the bits of one process that sums all leaves.
void check_reduce_tree(const World& w) {
  const int n = w->size(), r = w->rank();
  for (const std::int64_t leaves : {1, 2, 5, 12, 13})
    for (int skew = 0; skew < 3; ++skew)
      for (std::int64_t part : {1, 37, 5003}) {
        const std::int64_t count = part * n;
        const auto edge = [&](std::int64_t k) -> std::int64_t {
          if (k >= n) return leaves;
          return skew == 0   ? leaves * k / n
                 : skew == 1 ? std::min<std::int64_t>(k, leaves)
                 : k > 0     ? leaves / 2
                             : 0;
        };
        const auto leaf = [&](std::int64_t l) {
          std::mt19937 random(static_cast<unsigned>(l * 31 + 5));
          return filled(DType::f32, count, [&](std::int64_t) {
            return static_cast<float>(static_cast<std::int32_t>(random())) * (random() % 3 ? 1.0f : 1e-6f);
          });
        };
        const auto add = [&](const Tensor& a, const Tensor& b) {
          for (std::int64_t i = 0; i < count; ++i) a.as<float>()[i] += b.as<float>()[i];
        };
        std::vector<Tensor> all;
        for (std::int64_t l = 0; l < leaves; ++l) all.push_back(leaf(l));
        shard::tree_reduce(leaves, [&](std::int64_t a, std::int64_t b) { add(all[a], all[b]); });
        const std::int64_t first = edge(r), last = edge(r + 1);
        const auto own = [&] {
          std::vector<Tensor> nodes;
          shard::CarryStack stack(leaves, first);
          for (std::int64_t l = first; l < last; ++l) {
            nodes.push_back(leaf(l));
            stack.push([&](int a, int b) {
              add(nodes[a], nodes[b]);
              nodes.pop_back();
            });
          }
          return nodes;
        };
        std::vector<Tensor> nodes = own();
        const Tensor out = make(DType::f32, count), share = make(DType::f32, part);
        w->reduce_scatter_tree(nodes, leaves, first, last, share);
        EXPECT_EQ(std::memcmp(share.data(), all[0].as<float>() + r * part, part * 4), 0)
            << "scattered sum of " << leaves << " leaves, skew " << skew << ", rank " << r;
        nodes = own();
        const Tensor& to = nodes.empty() || part == 37 ? out : nodes[0];
        w->reduce_tree(nodes, leaves, first, last, to);
        EXPECT_EQ(std::memcmp(to.data(), all[0].data(), count * 4), 0)
            << "sum of " << leaves << " leaves, skew " << skew << ", rank " << r;
      }
}

}  // namespace shoal::contract
