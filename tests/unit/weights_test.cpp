#include "shoal/checkpoint/weights.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "shoal/core/error.hpp"
#include "support/expect_message.hpp"
#include "support/temp_dir.hpp"

namespace shoal::checkpoint {
namespace {

using shard::Placement;
using test::TempDir;

// Parameters with memory of their own; every stored element is `fill` at first.
struct Model {
  std::vector<std::unique_ptr<nn::Parameter>> owned;
  std::vector<nn::Parameter*> list;

  nn::Parameter& add(const std::string& name, Placement placement, float fill = 0) {
    auto p = std::make_unique<nn::Parameter>();
    p->name = name;
    p->placement = std::move(placement);
    p->shape = {static_cast<std::int64_t>(p->placement.pieces.size()), p->placement.piece_numel};
    p->value = Tensor::empty(p->shape, DType::f32, default_allocator({}));
    for (std::int64_t i = 0; i < p->numel(); ++i) p->value.as<float>()[i] = fill;
    list.push_back(p.get());
    owned.push_back(std::move(p));
    return *list.back();
  }
  std::vector<float> stored(int i) const {
    const float* v = list[i]->value.as<float>();
    return {v, v + list[i]->numel()};
  }
};

// The same logical tensors (embedding [5, 2], q [4, 2], k [2, 2], out [2, 4]) in `pieces` pieces.
Model model_of(std::int64_t pieces, float fill) {
  Model m;
  m.add("embedding", Placement::rows("embedding", {5, 2}, pieces, (5 + pieces - 1) / pieces * pieces), fill);
  m.add("qk", Placement::fused_rows({{"q", {4, 2}}, {"k", {2, 2}}}, pieces), fill);
  m.add("out", Placement::columns("out", {2, 4}, pieces), fill);
  return m;
}

TEST(Weights, FilesDoNotDependOnTheLayout) {
  const TempDir dir;
  const Model one = model_of(1, 0), two = model_of(2, -1);
  for (nn::Parameter* p : one.list)
    for (std::int64_t i = 0; i < p->numel(); ++i) p->value.as<float>()[i] = static_cast<float>(100 + i);
  save_weights(dir / "one", one.list, {{"config", "x"}});
  EXPECT_EQ(load_weights(dir / "one", two.list), (Metadata{{"config", "x"}}));
  EXPECT_EQ(two.stored(0),
            (std::vector<float>{100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 0, 0}));  // padding 0
  EXPECT_EQ(two.stored(1), (std::vector<float>{100, 101, 102, 103, 108, 109, 104, 105, 106, 107, 110, 111}));
  EXPECT_EQ(two.stored(2), (std::vector<float>{100, 101, 104, 105, 102, 103, 106, 107}));
  save_weights(dir / "two", two.list, {{"config", "x"}});
  EXPECT_EQ(test::read_file(dir / "one"), test::read_file(dir / "two"));
  const SafetensorsFile f(dir / "two");
  EXPECT_EQ(f.at("embedding").shape, (Shape{5, 2}));
  float q[8];
  std::memcpy(q, f.bytes(f.at("q")).data(), sizeof(q));
  EXPECT_EQ(std::vector<float>(q, q + 8), (std::vector<float>{100, 101, 102, 103, 104, 105, 106, 107}));
}

TEST(Weights, WhatDoesNotFitIsNamedAndNothingIsChanged) {
  const TempDir dir;
  save_weights(dir / "w", model_of(1, 7).list);
  Model other;
  other.add("out", Placement::whole("out", {4, 2}), 1);
  other.add("q", Placement::whole("q", {4, 2}), 1);
  other.add("head", Placement::whole("head", {3}), 1);
  EXPECT_MESSAGE(load_weights(dir / "w", other.list), CheckpointError,
                 "w: the weights do not fit the model; missing: head; not expected: embedding, k; "
                 "different: out (expected f32[4, 2], found f32[2, 4])");
  EXPECT_EQ(other.stored(1), std::vector<float>(8, 1));
  const double v[3] = {};
  const NamedArray arrays[] = {{{"head", DType::f64, {3}}, v}};
  write_safetensors(dir / "d", arrays);
  Model head;
  head.add("head", Placement::whole("head", {3}));
  EXPECT_MESSAGE(load_weights(dir / "d", head.list), CheckpointError, "head (expected f32[3], found f64[3])");
  Model many;
  for (int i = 0; i < 10; ++i) many.add("p", Placement::whole(fmt::format("p{}", i), {1}));
  EXPECT_MESSAGE(load_weights(dir / "d", many.list), CheckpointError,
                 "missing: p0, p1, p2, p3, p4, p5, p6, p7 and 2 more");
}

TEST(Weights, ParametersThatCannotBeSavedAreNamed) {
  const TempDir dir;
  Model m;
  nn::Parameter& p = m.add("w", Placement::rows("w", {4, 2}, 2));
  p.placement.pieces.pop_back();  // as a rank of two would hold
  p.value = p.value.slice(0, 1);
  EXPECT_MESSAGE(save_weights(dir / "x", m.list), CheckpointError,
                 "tensor w: this rank holds 4 of its 8 elements");
  p.value = p.value.slice(0, 0);
  EXPECT_MESSAGE(save_weights(dir / "x", m.list), CheckpointError,
                 "parameter w: its placement has 1 pieces of 4 elements, its value is f32[0, 4] on cpu");
  p.value = {};
  EXPECT_MESSAGE(save_weights(dir / "x", m.list), CheckpointError,
                 "parameter w: expected an f32, bf16 or f16 value on cpu, found undefined");
  Model twice;
  twice.add("a", Placement::whole("same", {1}));
  twice.add("b", Placement::whole("same", {1}));
  EXPECT_MESSAGE(save_weights(dir / "x", twice.list), CheckpointError, "two tensors named same");
  EXPECT_EQ(dir.entries(), 0);
}

}  // namespace
}  // namespace shoal::checkpoint
