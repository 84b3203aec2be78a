#include "shoal/core/tensor.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "shoal/core/error.hpp"
#include "support/expect_message.hpp"

namespace shoal {
namespace {

using Ints = std::vector<std::int32_t>;

struct Buffer {
  explicit Buffer(std::int64_t n) : memory(n) { std::iota(memory.begin(), memory.end(), 0); }
  Tensor tensor() { return Tensor::from_blob(memory.data(), {std::ssize(memory)}, DType::i32, {}); }
  Ints memory;
};

class Tensors : public testing::Test {
 protected:
  Stream stream = Stream::create({});
};

TEST_F(Tensors, EntriesMayLieApart) {
  Buffer b(20);
  const Tensor t = b.tensor().view({3, 2, 2}, 7);
  EXPECT_FALSE(t.is_dense());
  EXPECT_EQ(t.leading_stride(), 7);
  EXPECT_EQ(t.numel(), 12);
  EXPECT_EQ(t.nbytes(), 48);
  EXPECT_EQ(t.str(), "i32[3, 2, 2] (stride 7) on cpu");
  EXPECT_EQ(t.base<std::int32_t>(), b.memory.data());
  const Tensor row = t.select(2);
  EXPECT_TRUE(row.is_dense());
  EXPECT_EQ(row.shape(), (Shape{2, 2}));
  EXPECT_EQ(row.as<std::int32_t>(), b.memory.data() + 14);
  const Tensor last = t.slice(1, 3);
  EXPECT_FALSE(last.is_dense());
  EXPECT_EQ(last.leading_stride(), 7);
  EXPECT_EQ(last.select(1).as<std::int32_t>(), b.memory.data() + 14);
  EXPECT_TRUE(t.slice(1, 2).is_dense());  // one entry has no gaps
  EXPECT_EQ(t.slice(1, 2).flat().as<std::int32_t>(), b.memory.data() + 7);
  EXPECT_TRUE(t.slice(3, 3).is_dense());
}

TEST_F(Tensors, WhatHasNoGapsIsDense) {
  Buffer b(12);
  EXPECT_EQ(b.tensor().view({3, 4}).leading_stride(), 4);
  EXPECT_TRUE(b.tensor().view({3, 4}, 4).is_dense());
  EXPECT_EQ(b.tensor().view({3, 4}, 4).str(), "i32[3, 4] on cpu");
  EXPECT_TRUE(b.tensor().view({1, 4}, 12).is_dense());
  EXPECT_EQ(b.tensor().view({0, 4}, 50).numel(), 0);
  EXPECT_EQ(b.tensor().view({3, 0}, 0).numel(), 0);
}

TEST_F(Tensors, WhatNeedsADenseTensorRefusesOthers) {
  Buffer b(20);
  const Tensor t = b.tensor().view({3, 2}, 7);
  EXPECT_MESSAGE(
      t.as<std::int32_t>(), ShapeError,
      "expected a tensor without gaps, got i32[3, 2] (stride 7) on cpu: its entries of dimension 0 "
      "are 2 elements long and begin 7 apart");
  EXPECT_MESSAGE(t.flat(), ShapeError, "without gaps");
  EXPECT_MESSAGE(t.view({2, 3}), ShapeError, "without gaps");
  EXPECT_MESSAGE(t.view({2, 2}, 3), ShapeError, "without gaps");
  EXPECT_MESSAGE(t.as<float>(), ShapeError, "expected dtype f32");
}

TEST_F(Tensors, StridedViewsStayInside) {
  Buffer b(20);
  const Tensor flat = b.tensor();
  EXPECT_EQ(flat.view({3, 6}, 7).select(2).as<std::int32_t>()[5], 19);  // to the last element
  EXPECT_MESSAGE(flat.view({3, 7}, 7), ShapeError, "shape [3, 7] and stride 7 of a tensor i32[20]");
  EXPECT_MESSAGE(flat.view({3, 4}, 3), ShapeError, "shape [3, 4] and stride 3");
  EXPECT_MESSAGE(flat.view(Shape{}, 1), ShapeError, "shape [] and stride 1");
}

TEST_F(Tensors, CopiesGoAroundGaps) {
  Buffer a(20), b(20), c(20);
  const Tensor from = a.tensor().view({3, 4}, 6);
  Ints want = c.memory;
  copy(stream, from, c.tensor().slice(0, 12));  // to a dense one
  for (int i = 0; i < 12; ++i) want[i] = i / 4 * 6 + i % 4;
  EXPECT_EQ(c.memory, want);

  Ints target(23, -1);  // to another shape with other gaps
  const Tensor to = Tensor::from_blob(target.data(), {23}, DType::i32, {}).view({4, 3}, 5);
  copy(stream, from, to);
  want.assign(23, -1);
  for (int i = 0; i < 12; ++i) want[i / 3 * 5 + i % 3] = i / 4 * 6 + i % 4;
  EXPECT_EQ(target, want);

  copy(stream, c.tensor().slice(0, 12), b.tensor().view({3, 4}, 6));  // and back
  EXPECT_EQ(b.memory, a.memory);
  copy(stream, from, from);
  EXPECT_EQ(a.memory, b.memory);
  EXPECT_MESSAGE(copy(stream, from, c.tensor()), ShapeError, "copy of a tensor i32[3, 4] (stride 6) on cpu");
}

TEST_F(Tensors, ZerosLeaveGapsAlone) {
  Buffer a(20);
  Ints want = a.memory;
  fill_zero(stream, a.tensor().view({3, 4}, 6));
  for (int i = 0; i < 12; ++i) want[i / 4 * 6 + i % 4] = 0;
  EXPECT_EQ(a.memory, want);
  fill_zero(stream, a.tensor());
  EXPECT_EQ(a.memory, Ints(20, 0));
}

}  // namespace
}  // namespace shoal
