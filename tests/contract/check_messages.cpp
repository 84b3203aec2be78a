#include <future>

#include "contract/check_list.hpp"
#include "contract/values.hpp"

namespace shoal::contract {
namespace {

double value(int r, std::int64_t i) { return static_cast<double>((r * 31 + i * 7) % 127); }

}  // namespace

// Round a ring, in order, small and large and empty; and to itself.
void check_send_recv(const World& w) {
  const int n = w->size(), r = w->rank(), next = (r + 1) % n, before = (r + n - 1) % n;
  for (DType dtype : all_dtypes)
    for (std::int64_t count : counts_of(static_cast<int>(dtype), n)) {
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
  std::future<void> waiting;
  if (w->rank() == 0) waiting = std::async(std::launch::async, [&] { w->recv(late, 1); });
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
  if (waiting.valid()) {
    waiting.get();
    expect_values(
        late, [](std::int64_t i) { return 1.0 * i; }, "the late message");
  }
}

// Receives before sends, several under way with the same peer: they match in the order they were given.
void check_messages_async(const World& w) {
  const int n = w->size(), r = w->rank(), next = (r + 1) % n, before = (r + n - 1) % n;
  const Stream s = Stream::create({});
  constexpr int messages = 6;
  std::vector<Tensor> got;
  std::vector<Work> works;
  const auto count = [](int k) { return k % 2 ? 50021 : 7 + k; };
  for (int k = 0; k < messages; ++k) {
    got.push_back(make(DType::f32, count(k)));
    works.push_back(w->recv_async(got.back(), before, s));
  }
  const Tensor beside = filled(DType::f32, 10, [](std::int64_t) { return 1.0; });
  w->all_reduce(beside);
  expect_all(beside, n, "all_reduce beside pending receives");
  for (int k = 0; k < messages; ++k) {
    const Tensor t = filled(DType::f32, count(k), [&](std::int64_t i) { return value(r + k, i); });
    works.push_back(w->send_async(t, next, s));
  }
  const Tensor last = filled(DType::i32, 3, [&](std::int64_t) { return r; });
  auto sender = std::async(std::launch::async, [&] { w->send(last, next); });  // behind what is under way
  const Tensor final = make(DType::i32, 3);
  w->recv(final, before);
  sender.get();
  expect_all(final, before, "the last message");
  for (const Work& work : works) work.synchronize();
  for (int k = 0; k < messages; ++k)
    expect_values(
        got[k], [&](std::int64_t i) { return value(before + k, i); }, "message " + std::to_string(k));
}

// Everybody to everybody, each rank in an order of its own, with blocking forms: only a group can do that.
void check_group_of_messages(const World& w) {
  const int n = w->size(), r = w->rank();
  for (std::int64_t count : {0, 5, 50021}) {
    for (int collectives = 0; collectives < 2; ++collectives) {
      std::vector<Tensor> in(n), out(n);
      const Tensor sum = filled(DType::i32, 4, [](std::int64_t) { return 1.0; });
      w->group_start();
      if (collectives && r % 2) w->all_reduce(sum);
      for (int i = 0; i < n; ++i) {
        const int q = r % 2 ? (r + i) % n : (r + n - i) % n;
        in[q] = make(DType::f32, count);
        out[q] = filled(DType::f32, count, [&](std::int64_t k) { return value(r + 3 * q, k); });
        if (r % 2) w->send(out[q], q);
        w->recv(in[q], q);
        if (r % 2 == 0) w->send(out[q], q);
      }
      if (collectives && r % 2 == 0) w->all_reduce(sum);
      w->group_end();
      for (int q = 0; q < n; ++q)
        expect_values(
            in[q], [&](std::int64_t k) { return value(q + 3 * r, k); }, "message of a group");
      expect_all(sum, collectives ? n : 1, "all_reduce of a group");
    }
  }
}

}  // namespace shoal::contract
