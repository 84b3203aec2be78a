#include "shoal/ops/cast.hpp"

#include <cstring>

#include "kernels/cpu/cast.hpp"
#include "ops/dispatch.hpp"

namespace shoal::ops {
namespace {

void check(DType from, DType to) {
  if (!is_training_type(from) || !is_training_type(to))
    throw ShapeError(fmt::format("cast from {} to {}: only f32, f16 and bf16", name(from), name(to)));
}

}  // namespace

void cast(DType from_type, const void* from, DType to_type, void* to, std::int64_t count) {
  if (count < 0) throw ShapeError(fmt::format("cast of {} elements", count));
  if (count == 0) return;
  if (from_type == to_type) {
    std::memcpy(to, from, static_cast<std::size_t>(count * size_of(from_type)));
    return;
  }
  check(from_type, to_type);
  SHOAL_PICK(cast)(storage_code(from_type), from, storage_code(to_type), to, count);
}

void convert(const Stream& stream, const Tensor& from, const Tensor& to) {
  check(from.dtype(), to.dtype());
  if (!from.defined() || !to.defined() || from.numel() != to.numel())
    throw ShapeError(fmt::format("convert: from {} to {}: expected as many elements", from.str(), to.str()));
  from.require_dense();
  to.require_dense();
  launch(stream, [=] {
    SHOAL_PICK(convert)
    (storage_code(from.dtype()), from.data(), storage_code(to.dtype()), to.data(), to.numel());
  });
}

void round_stochastic(const Stream& stream, const Tensor& x, const RandomKey& key, std::uint64_t first,
                      const Tensor& y) {
  const kernels::Storage type = storage_of("round_stochastic", "y", y);
  if (!x.defined() || x.dtype() != DType::f32 || type == kernels::Storage::f32 || x.numel() != y.numel())
    throw ShapeError(
        fmt::format("round_stochastic: from {} to {}: expected f32 and as many elements of bf16 or f16",
                    x.str(), y.str()));
  x.require_dense();
  y.require_dense();
  const auto counter = key.counter(0);
  const auto k = key.key();
  launch(stream, [=, args = kernels::RandomArgs{k[0], k[1], counter[1], counter[2], counter[3]}] {
    SHOAL_PICK(round_stochastic)(x.as<float>(), type, y.data(), x.numel(), args, first);
  });
}

}  // namespace shoal::ops
