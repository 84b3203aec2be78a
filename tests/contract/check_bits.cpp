// Where the bits depend on the order of a sum, and on where it is rounded.
#include <algorithm>
#include <cstring>
#include <random>

#include "contract/check_list.hpp"
#include "contract/values.hpp"
#include "shoal/shard/tree.hpp"

namespace shoal::contract {

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

// Every rank gets the same bits, whatever the operation, also where the sum is rounded.
void check_same_bits(const World& w) {
  const int n = w->size();
  for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (Reduction how : {Reduction(ReduceOp::sum), Reduction(ReduceOp::average),
                          Reduction(ReduceOp::product), Reduction(ReduceOp::sum, 0.1 + w->rank())})
      for (std::int64_t count : {3, 1021, 70001}) {
        std::mt19937 random(w->rank() * 1000 + 71);
        const Tensor t = filled(dtype, count, [&](std::int64_t) { return 0.5 + random() % 1000003 * 1e-6; });
        w->all_reduce(t, how);
        const Tensor all = make(dtype, count * n);
        w->all_gather(t, all);
        for (int q = 0; q < n; ++q)
          EXPECT_EQ(std::memcmp(all.slice(q * count, (q + 1) * count).data(), t.data(), t.nbytes()), 0)
              << name(how.op) << " of " << t.str() << ": ranks " << w->rank() << " and " << q << " differ";
      }
}

namespace {

// Where rank k's run of leaves begins: shared out evenly, one each and the rest to the last, or none to the first.
std::int64_t edge(std::int64_t leaves, int n, int skew, int k) {
  if (k >= n) return leaves;
  return skew == 0 ? leaves * k / n : skew == 1 ? std::min<std::int64_t>(k, leaves) : k > 0 ? leaves / 2 : 0;
}

// f(leaves, skew, a rank's part in elements).
template <class F>
void for_each_run(const F& f) {
  for (const std::int64_t leaves : {1, 2, 5, 12, 13, 24})
    for (int skew = 0; skew < 3; ++skew)
      for (std::int64_t part : {1, 37, 5003})
        if (part < 5000 || leaves == 12 || leaves == 13) f(leaves, skew, part);
}

template <class T>
Tensor leaf_of(std::int64_t l, std::int64_t count) {
  std::mt19937 random(static_cast<unsigned>(l * 31 + 5));
  return filled(dtype_of<T>::value, count, [&](std::int64_t) {
    return static_cast<float>(static_cast<std::int32_t>(random())) * (random() % 3 ? 1.0f : 1e-6f) / 3;
  });
}

template <class T>
void check_tree(const World& w) {
  const int n = w->size(), r = w->rank();
  for_each_run([&](std::int64_t leaves, int skew, std::int64_t part) {
    const std::int64_t count = part * n, bytes = sizeof(T);
    const auto add = [&](const Tensor& a, const Tensor& b) {
      for (std::int64_t i = 0; i < count; ++i) a.as<T>()[i] += b.as<T>()[i];
    };
    std::vector<Tensor> all;
    for (std::int64_t l = 0; l < leaves; ++l) all.push_back(leaf_of<T>(l, count));
    shard::tree_reduce(leaves, [&](std::int64_t a, std::int64_t b) { add(all[a], all[b]); });
    const std::int64_t first = edge(leaves, n, skew, r), last = edge(leaves, n, skew, r + 1);
    const auto own = [&] {
      std::vector<Tensor> nodes;
      shard::CarryStack stack(leaves, first);
      for (std::int64_t l = first; l < last; ++l) {
        nodes.push_back(leaf_of<T>(l, count));
        stack.push([&](int a, int b) {
          add(nodes[a], nodes[b]);
          nodes.pop_back();
        });
      }
      return nodes;
    };
    std::vector<Tensor> nodes = own();
    const DType dtype = dtype_of<T>::value;
    const Tensor out = make(dtype, count), share = make(dtype, part);
    w->reduce_scatter_tree(nodes, leaves, first, last, share);
    EXPECT_EQ(std::memcmp(share.data(), all[0].as<T>() + r * part, part * bytes), 0)
        << "scattered sum of " << leaves << " leaves, skew " << skew << ", rank " << r;
    nodes = own();
    const Tensor& to = nodes.empty() || part == 37 ? out : nodes[0];
    w->reduce_tree(nodes, leaves, first, last, to);
    EXPECT_EQ(std::memcmp(to.data(), all[0].data(), count * bytes), 0)
        << "sum of " << leaves << " leaves, skew " << skew << ", rank " << r;
  });
}

}  // namespace

// Leaves shared out unevenly, also none to a rank: the bits of one process that sums all leaves, so the same on any
// number of ranks.
void check_reduce_tree(const World& w) {
  check_tree<float>(w);
  check_tree<double>(w);
}

// 16-bit leaves: the tree in FP32, rounded once.
void check_reduce_tree_sixteen(const World& w) {
  const int n = w->size(), r = w->rank();
  for (DType dtype : {DType::bf16, DType::f16})
    for_each_run([&](std::int64_t leaves, int skew, std::int64_t part) {
      const std::int64_t count = part * n;
      std::vector<Tensor> all;
      std::vector<std::vector<float>> sums;
      for (std::int64_t l = 0; l < leaves; ++l) {
        std::mt19937 random(static_cast<unsigned>(l * 31 + 5));
        all.push_back(filled(dtype, count, [&](std::int64_t) { return (random() % 20001) * 0.01 - 100; }));
        std::vector<float>& sum = sums.emplace_back(count);
        for (std::int64_t i = 0; i < count; ++i) sum[i] = static_cast<float>(get(all[l], i));
      }
      shard::tree_reduce(leaves, [&](std::int64_t a, std::int64_t b) {
        for (std::int64_t i = 0; i < count; ++i) sums[a][i] += sums[b][i];
      });
      const std::int64_t first = edge(leaves, n, skew, r), last = edge(leaves, n, skew, r + 1);
      const std::vector<Tensor> nodes(all.begin() + first, all.begin() + last);
      const Tensor share = make(dtype, part), out = make(dtype, count);
      w->reduce_scatter_tree(nodes, leaves, first, last, share);
      expect_values(
          share, [&](std::int64_t i) { return sums[0][r * part + i]; }, "scattered sum of 16-bit leaves");
      w->reduce_tree(nodes, leaves, first, last, nodes.empty() ? out : nodes[0]);
      expect_values(
          nodes.empty() ? out : nodes[0], [&](std::int64_t i) { return sums[0][i]; }, "sum of 16-bit leaves");
    });
}

}  // namespace shoal::contract
