#include <thread>

#include "contract/check_list.hpp"
#include "contract/values.hpp"

namespace shoal::contract {
namespace {

constexpr DType all_dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32,
                                DType::i64, DType::u8,  DType::u16, DType::u32};

double value(int r, std::int64_t i) { return static_cast<double>((r * 31 + i * 7) % 127); }

}  // namespace

void check_all_gather(const World& w) {
  const int n = w->size(), r = w->rank();
  for (DType dtype : all_dtypes)
    for (std::int64_t count : counts) {
      const auto mine = [&](std::int64_t i) { return value(r, i); };
      const auto all = [&](std::int64_t i) { return value(static_cast<int>(i / count), i % count); };
      const Tensor in = filled(dtype, count, mine), out = make(dtype, count * n);
      w->all_gather(in, out);
      expect_values(out, all, "all_gather");
      const Tensor place = make(dtype, count * n);
      copy(stream(), in, place.slice(r * count, (r + 1) * count));
      w->all_gather(place.slice(r * count, (r + 1) * count), place);
      expect_values(place, all, "all_gather in place");
      copy(stream(), in, place.slice(0, count));
      w->all_gather(place.slice(0, count), place);
      expect_values(place, all, "all_gather from the first part");
    }
}

void check_broadcast(const World& w) {
  for (int root = 0; root < w->size(); ++root)
    for (DType dtype : all_dtypes)
      for (std::int64_t count : counts) {
        const Tensor t = filled(dtype, count, [&](std::int64_t i) { return value(w->rank(), i); });
        w->broadcast(t, root);
        expect_values(
            t, [&](std::int64_t i) { return value(root, i); }, "broadcast");
      }
}

void check_all_to_all(const World& w) {
  const int n = w->size(), r = w->rank();
  for (DType dtype : all_dtypes)
    for (std::int64_t count : counts) {
      if (count > 1000) count = 20011;
      // What rank a sends to rank b.
      const auto item = [](int a, int b, std::int64_t i) {
        return static_cast<double>((a * 31 + b * 17 + i) % 127);
      };
      const auto sent = [&](std::int64_t i) { return item(r, static_cast<int>(i / count), i % count); };
      const auto got = [&](std::int64_t i) { return item(static_cast<int>(i / count), r, i % count); };
      const Tensor in = filled(dtype, count * n, sent), out = make(dtype, count * n);
      w->all_to_all(in, out);
      expect_values(out, got, "all_to_all");
      w->all_to_all(in, in);
      expect_values(in, got, "all_to_all in place");
    }
}

// Round a ring, in order, small and large and empty; and to itself.
void check_send_recv(const World& w) {
  const int n = w->size(), r = w->rank(), next = (r + 1) % n, before = (r + n - 1) % n;
  for (DType dtype : {DType::f32, DType::bf16, DType::u8})
    for (std::int64_t count : counts) {
      const Tensor out = filled(dtype, count, [&](std::int64_t i) { return value(r, i); }),
                   in = make(dtype, count);
      if (r % 2 == 0) w->send(out, next);
      w->recv(in, before);
      if (r % 2 == 1) w->send(out, next);
      expect_values(
          in, [&](std::int64_t i) { return value(before, i); }, "recv");
    }
  const Tensor a = filled(DType::i32, 3, [](std::int64_t i) { return 10.0 + i; });
  const Tensor b = filled(DType::i32, 50000, [](std::int64_t i) { return 20.0 + i; });
  w->send(a, r);
  w->send(b, r);
  const Tensor x = make(DType::i32, 3), y = make(DType::i32, 50000);
  w->recv(x, r);
  w->recv(y, r);
  expect_values(
      x, [](std::int64_t i) { return 10.0 + i; }, "first message to itself");
  expect_values(
      y, [](std::int64_t i) { return 20.0 + i; }, "second message to itself");
}

// While a receive waits in one thread, collectives and messages between others go on; only then is it served.
void check_pending_receive(const World& w) {
  if (w->size() < 2) return;
  const Tensor late = make(DType::f32, 1000);
  std::thread waiting;
  if (w->rank() == 0) waiting = std::thread([&] { w->recv(late, 1); });
  for (int i = 0; i < 20; ++i) {
    const Tensor t = filled(DType::f32, 10, [](std::int64_t) { return 1.0; });
    w->all_reduce(t);
    expect_values(
        t, [&](std::int64_t) { return w->size(); }, "all_reduce beside a pending receive");
  }
  const Tensor other = filled(DType::f32, 4, [](std::int64_t) { return 5.0; });
  if (w->rank() == 0) w->send(other, 1);
  if (w->rank() == 1) w->recv(other, 0);
  if (w->rank() == 1) w->send(filled(DType::f32, 1000, [](std::int64_t i) { return 1.0 * i; }), 0);
  if (waiting.joinable()) {
    waiting.join();
    expect_values(
        late, [](std::int64_t i) { return 1.0 * i; }, "the late message");
  }
}

}  // namespace shoal::contract
