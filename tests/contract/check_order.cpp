#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "contract/check_list.hpp"
#include "contract/values.hpp"
#include "shoal/core/error.hpp"

namespace shoal::contract {

// Many operations under way at once, whose tensors nobody but the communicator holds.
void check_async(const World& w) {
  const int n = w->size(), r = w->rank();
  const Stream s = Stream::create({});
  std::vector<Tensor> outs;
  std::vector<Work> works;
  for (int k = 0; k < 30; ++k) {
    const Tensor in = filled(DType::f32, 1000 + k, [&](std::int64_t i) { return r + k + i % 5; });
    outs.push_back(make(DType::f32, 1000 + k));
    works.push_back(w->all_reduce_async(in, outs.back(), ReduceOp::sum, s));
  }
  const Tensor blocking = filled(DType::i32, 3, [](std::int64_t) { return 1.0; });
  w->all_reduce(blocking);  // after what was given before it
  for (const Work& work : works) EXPECT_TRUE(work.is_completed());
  expect_values(
      blocking, [&](std::int64_t) { return n; }, "blocking after asynchronous");
  for (int k = 0; k < 30; ++k) {
    works[k].synchronize();
    expect_values(
        outs[k], [&](std::int64_t i) { return n * (n - 1) / 2 + n * (k + i % 5); }, "asynchronous");
  }
  const Tensor part = make(DType::f32, 7), all = make(DType::f32, 7 * n);
  const Tensor whole = filled(DType::f32, 7 * n, [](std::int64_t i) { return 1.0 * i; });
  const Work first = w->reduce_scatter_async(whole, part, ReduceOp::sum, s);
  const Work second = w->all_gather_async(part, all, s);  // reads what the first writes: one order
  const Work third = w->broadcast_async(whole, n - 1, s);
  second.synchronize();
  expect_values(
      all, [&](std::int64_t i) { return 1.0 * n * i; }, "all_gather after reduce_scatter");
  third.synchronize();
  first.synchronize();
  EXPECT_TRUE(Work().is_completed());
}

// A collective starts after the work on its stream; what follows Work::wait on a stream sees its result.
void check_stream_order(const World& w) {
  const int n = w->size();
  const Stream before = Stream::create({}), compute = Stream::create({}), after = Stream::create({});
  std::atomic<bool> go{false};
  std::thread blocker([&] {  // an idle stream runs its work in the caller: so `before` is busy from here on
    before.host_task([&] {
      while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  });
  Event opened = before.record();
  while (opened.query()) {
    std::this_thread::yield();
    opened = before.record();
  }
  const Tensor t = filled(DType::f32, 5000, [](std::int64_t) { return 0.0; });
  compute.wait(opened);
  compute.host_task([t] {
    for (std::int64_t i = 0; i < t.numel(); ++i) t.as<float>()[i] = 3.0f;
  });
  const Work work = w->all_reduce_async(t, t, ReduceOp::sum, compute);
  work.wait(after);
  const Tensor seen = make(DType::f32, 5000);
  copy(after, t, seen);
  EXPECT_FALSE(work.is_completed());
  go = true;
  after.synchronize();
  EXPECT_TRUE(work.is_completed());
  expect_values(
      seen, [&](std::int64_t) { return 3.0 * n; }, "work after Work::wait");
  work.wait(after);  // of a completed operation
  blocker.join();
}

void check_barrier(const World& w) {
  // Nobody passes round k before all have entered it: what was received shows how far the others are.
  for (int k = 0; k < 50; ++k) {
    w->barrier();
    const Tensor mine = filled(DType::i32, 1, [&](std::int64_t) { return k; }),
                 all = make(DType::i32, w->size());
    w->all_gather(mine, all);
    expect_values(
        all, [&](std::int64_t) { return k; }, "barrier");
  }
}

void check_split(const World& w) {
  const int n = w->size(), r = w->rank();
  const World parity = w->split(r % 2, -r);  // by descending rank
  const int members = (n + 1 - r % 2) / 2;
  ASSERT_EQ(parity->size(), members);
  EXPECT_EQ(parity->rank(), members - 1 - r / 2);
  EXPECT_TRUE(parity->name().ends_with("/" + std::to_string(r % 2))) << parity->name();
  // Of several backends, a part of the ranks may need one alone.
  EXPECT_NE(("+" + w->backend() + "+").find("+" + parity->backend() + "+"), std::string::npos)
      << parity->backend();
  const Tensor t = filled(DType::i32, 1000, [&](std::int64_t) { return r; });
  parity->all_reduce(t);
  int sum = 0;
  for (int q = r % 2; q < n; q += 2) sum += q;
  expect_values(
      t, [&](std::int64_t) { return sum; }, "all_reduce of a split");
  // A split of a split, and a rank that stays out.
  const World one = parity->split(parity->rank() == 0 ? 4 : -1, 0);
  EXPECT_EQ(one != nullptr, parity->rank() == 0);
  if (one) {
    EXPECT_EQ(one->size(), 1);
    one->barrier();
  }
  // Two communicators under way at once: the order is that of each alone.
  const Stream s = Stream::create({});
  const World same = w->split(0, r);
  EXPECT_EQ(same->rank(), r);
  const Tensor a = filled(DType::f32, 3000, [](std::int64_t) { return 1.0; });
  const Tensor b = filled(DType::f32, 3000, [](std::int64_t) { return 2.0; });
  const World& first = r % 2 ? w : same;
  const World& second = r % 2 ? same : w;
  const Work x = first->all_reduce_async(r % 2 ? a : b, r % 2 ? a : b, ReduceOp::sum, s);
  second->all_reduce(r % 2 ? b : a);
  x.synchronize();
  expect_values(
      a, [&](std::int64_t) { return n; }, "all_reduce of the whole");
  expect_values(
      b, [&](std::int64_t) { return 2.0 * n; }, "all_reduce of its copy");
}

// Refused before anything is sent, and the communicator goes on.
void check_wrong_shapes(const World& w) {
  const int n = w->size();
  const Tensor three = make(DType::f32, 3), four = make(DType::f32, 4), ints = make(DType::i32, 3);
  EXPECT_THROW(w->all_reduce(three, four, ReduceOp::sum), ShapeError);
  EXPECT_THROW(w->all_reduce(three, ints, ReduceOp::sum), ShapeError);
  EXPECT_THROW(w->all_reduce(make(DType::u16, 3)), ShapeError);
  EXPECT_THROW(w->all_reduce(Tensor()), ShapeError);
  EXPECT_THROW(w->all_reduce(make(DType::f32, 9).slice(0, 6), make(DType::f32, 7), ReduceOp::sum),
               ShapeError);
  const Tensor nine = make(DType::f32, 9);
  EXPECT_THROW(w->all_reduce(nine.slice(0, 6), nine.slice(2, 8), ReduceOp::sum), ShapeError);
  EXPECT_THROW(w->all_gather(three, make(DType::f32, 3 * n + 1)), ShapeError);
  EXPECT_THROW(w->reduce_scatter(make(DType::f32, 3 * n + 1), three), ShapeError);
  EXPECT_THROW(w->broadcast(three, n), ConfigError);
  EXPECT_THROW(w->send(three, -1), ConfigError);
  EXPECT_THROW(w->reduce_tree({three}, 2, 0, 3, three), ConfigError);
  EXPECT_THROW(w->reduce_tree({three, three}, 2, 0, 2, three), ShapeError);
  EXPECT_THROW(w->reduce_tree({ints}, 1, 0, 1, ints), ShapeError);
  EXPECT_THROW(w->all_reduce_async(three, three, ReduceOp::sum, Stream()), DeviceError);
  w->barrier();
}

void check_allocator(const World& w) {
  const Tensor t = Tensor::empty({1000}, DType::f32, w->allocator());
  for (int i = 0; i < 1000; ++i) t.as<float>()[i] = 1.0f;
  w->all_reduce(t);
  expect_values(
      t, [&](std::int64_t) { return w->size(); }, "all_reduce of allocator() memory");
}

}  // namespace shoal::contract
