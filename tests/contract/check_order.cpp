#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
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
  const std::string whole = '+' + w->backend() + '+';
  EXPECT_NE(whole.find('+' + parity->backend() + '+'), std::string::npos) << parity->backend();
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

// Each asynchronous form does what its blocking form does, all of them under way at once.
void check_every_async_form(const World& w) {
  const int n = w->size(), r = w->rank(), root = n - 1;
  const Stream s = Stream::create({});
  const auto ramp = [&](std::int64_t count) {
    return filled(DType::f32, count, [&](std::int64_t i) { return 10.0 * r + i; });
  };
  const auto empty = [](std::int64_t count) {
    return filled(DType::f32, count, [](std::int64_t) { return 99.0; });
  };
  Communicator::Counts counts(n);
  std::int64_t all = 0;
  for (int q = 0; q < n; ++q) all += counts[q] = q % 3;
  const Communicator::Counts same(n, 2);
  const std::int64_t leaves = 2 * n, first = 2 * r;
  // Twice: blocking into `expected`, asynchronous into `got`; the first result of each is its input again.
  std::vector<Tensor> outs[2];
  for (int k = 0; k < 2; ++k) {
    std::vector<Tensor>& o = outs[k];
    for (std::int64_t c :
         {std::int64_t{6}, std::int64_t{3}, std::int64_t{4 * n}, std::int64_t{5}, std::int64_t{6},
          std::int64_t{4 * n}, std::int64_t{3}, std::int64_t{2 * n}, counts[r], all, all, counts[r],
          std::int64_t{2 * n}, std::int64_t{6}, std::int64_t{2}})
      o.push_back(empty(c));
    if (r == root) {
      fill(o[3], [](std::int64_t i) { return 7.0 + i; });
      fill(o[10], [](std::int64_t i) { return 0.5 * i; });
    }
    const Tensor whole = ramp(3 * n), four = ramp(4), v_whole = ramp(all), v_part = ramp(counts[r]),
                 two_n = ramp(2 * n);
    const std::vector<Tensor> nodes{ramp(6)}, scattered{ramp(2 * n)};
    if (k == 0) {
      w->all_reduce(ramp(6), o[0], ReduceOp::average);
      w->reduce_scatter(whole, o[1], ReduceOp::max);
      w->all_gather(four, o[2]);
      w->broadcast(o[3], root);
      w->reduce(ramp(6), o[4], root, Reduction(ReduceOp::sum, 0.5));
      w->gather(four, o[5], root);
      w->scatter(whole, o[6], root);
      w->all_to_all(two_n, o[7]);
      w->reduce_scatter_v(v_whole, o[8], counts);
      w->all_gather_v(v_part, o[9], counts);
      w->gather_v(v_part, o[10], counts, root);
      w->scatter_v(v_whole, o[11], counts, root);
      w->all_to_all_v(two_n, o[12], same, same);
      w->barrier();
      w->reduce_tree(nodes, leaves, first, first + 2, o[13]);
      w->reduce_scatter_tree(scattered, leaves, first, first + 2, o[14]);
      continue;
    }
    const std::vector<Work> works{
        w->all_reduce_async(ramp(6), o[0], ReduceOp::average, s),
        w->reduce_scatter_async(whole, o[1], ReduceOp::max, s),
        w->all_gather_async(four, o[2], s),
        w->broadcast_async(o[3], root, s),
        w->reduce_async(ramp(6), o[4], root, Reduction(ReduceOp::sum, 0.5), s),
        w->gather_async(four, o[5], root, s),
        w->scatter_async(whole, o[6], root, s),
        w->all_to_all_async(two_n, o[7], s),
        w->reduce_scatter_v_async(v_whole, o[8], counts, {}, s),
        w->all_gather_v_async(v_part, o[9], counts, s),
        w->gather_v_async(v_part, o[10], counts, root, s),
        w->scatter_v_async(v_whole, o[11], counts, root, s),
        w->all_to_all_v_async(two_n, o[12], same, same, s),
        w->barrier_async(s),
        w->reduce_tree_async(nodes, leaves, first, first + 2, o[13], s),
        w->reduce_scatter_tree_async(scattered, leaves, first, first + 2, o[14], s)};
    for (const Work& work : works) EXPECT_TRUE(work.wait_for(std::chrono::seconds(60)));
    for (const Work& work : works) work.synchronize();
  }
  for (std::size_t k = 0; k < outs[0].size(); ++k)
    expect_values(
        outs[1][k], [&](std::int64_t i) { return get(outs[0][k], i); },
        std::string("asynchronous form ").append(std::to_string(k)));
  expect_values(
      outs[0][3], [](std::int64_t i) { return 7.0 + i; }, "what was broadcast");
}

// A thread for each of several communicators, with operations under way on all of them at once.
void check_many_communicators(const World& w) {
  const int n = w->size(), r = w->rank();
  constexpr int communicators = 3;
  std::vector<World> all;
  for (int k = 0; k < communicators; ++k) all.push_back(w->split(0, k % 2 ? -r : r));
  // All buffers live to the end: memory that goes from one thread to another by way of another rank's allocator is
  // ordered by that rank alone, which ThreadSanitizer does not see where ranks are processes.
  struct Buffers {
    Tensor a = make(DType::f32, 70001), b, got, m = make(DType::i64, 3), heard = make(DType::i64, 3);
  };
  std::vector<Buffers> buffers(communicators);
  for (Buffers& own : buffers) own.b = make(DType::i32, n), own.got = make(DType::i32, n);
  const Tensor t = make(DType::f32, 5);
  std::vector<std::future<void>> threads;
  for (int k = 0; k < communicators; ++k)
    threads.push_back(std::async(std::launch::async, [&, k] {
      const World& c = all[k];
      const int me = c->rank();
      const Stream s = Stream::create({});
      const auto& [whole, b, got, m, heard] = buffers[k];
      for (int round = 0; round < 12; ++round) {
        const Tensor a = round % 4 == 3 ? whole : whole.slice(0, 9 + k);
        fill(a, [&](std::int64_t i) { return me + i % 3; });
        fill(b, [&](std::int64_t i) { return 100 * me + i; });
        fill(m, [&](std::int64_t) { return me; });
        const Work work = c->all_reduce_async(a, a, ReduceOp::sum, s);
        const Work hears = c->recv_async(heard, (me + n - 1) % n, s);
        c->send(m, (me + 1) % n);
        c->all_to_all(b, got);
        work.synchronize();
        hears.synchronize();
        expect_values(
            a, [&](std::int64_t i) { return n * (n - 1) / 2 + n * (i % 3); }, "all_reduce in a thread");
        expect_values(
            got, [&](std::int64_t i) { return 100 * i + me; }, "all_to_all in a thread");
        expect_all(heard, (me + n - 1) % n, "a message in a thread");
      }
    }));
  for (int round = 0; round < 20; ++round) {  // and the one they came from
    fill(t, [](std::int64_t) { return 1.0; });
    w->all_reduce(t);
    expect_all(t, n, "all_reduce beside the threads");
  }
  for (std::future<void>& thread : threads) thread.get();
}

// Blocking forms return at once and are done at the end; nested groups end with the outermost; Work waits for the end.
void check_group(const World& w) {
  const int n = w->size();
  const Stream s = Stream::create({});
  const Tensor a = filled(DType::f32, 100, [](std::int64_t) { return 1.0; });
  const Tensor b = filled(DType::f32, 100, [](std::int64_t) { return 2.0; });
  const Tensor c = filled(DType::f32, 100, [](std::int64_t) { return 3.0; });
  w->group_start();
  w->all_reduce(a);
  w->group_start();
  const Work work = w->all_reduce_async(b, b, ReduceOp::sum, s);
  w->group_end();
  w->all_reduce(c);
  w->barrier();
  expect_all(a, 1, "all_reduce before its group ends");
  EXPECT_FALSE(work.is_completed());
  EXPECT_THROW(work.synchronize(), CommError);
  EXPECT_THROW(w->split(0, 0), CommError);
  EXPECT_THROW(w->all_reduce(make(DType::f32, 3), make(DType::f32, 4), {}), ShapeError);
  // The group is this thread's: another one's operations are not of it, and the group has not begun any.
  Tensor other = filled(DType::i32, 5, [](std::int64_t) { return 1.0; });
  std::async(std::launch::async, [&] { w->all_reduce(other); }).get();
  expect_all(other, n, "all_reduce of another thread");
  w->group_end();
  expect_all(a, n, "all_reduce of a group");
  expect_all(c, 3 * n, "second blocking all_reduce of a group");
  work.synchronize();
  expect_all(b, 2 * n, "asynchronous all_reduce of a group");

  w->group_start();
  w->all_reduce(a);
  const Work dropped = w->all_reduce_async(a, a, ReduceOp::sum, s);
  w->group_cancel();
  EXPECT_THROW(dropped.synchronize(), CommError);
  w->group_cancel();  // nothing to cancel
  w->group_start();
  w->group_end();  // an empty one
  EXPECT_THROW(w->group_end(), CommError);
  w->barrier();
  expect_all(a, n, "a cancelled all_reduce");
}

void check_allocator(const World& w) {
  const Tensor t = Tensor::empty({1000}, DType::f32, w->allocator());
  fill(t, [](std::int64_t) { return 1.0; });
  w->all_reduce(t);
  expect_all(t, w->size(), "all_reduce of allocator() memory");
}

void check_algorithms(const World& w) {
  const bool several =
      w->backend().find('+') != std::string::npos;  // they name each other's in their own words
  for (const char* operation :
       {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "gather", "scatter",
        "all_to_all", "all_gather_v", "send", "recv", "barrier", "reduce_tree", "reduce_scatter_tree"})
    for (const std::int64_t nbytes : {0, 4, 1 << 20}) {
      const std::string algorithm = w->describe_algorithm(operation, nbytes);
      EXPECT_TRUE(several ? !algorithm.empty() : algorithm.starts_with(w->backend() + " "))
          << operation << ": " << algorithm;
    }
  EXPECT_THROW(w->describe_algorithm("all_shuffle", 4), ConfigError);
}

}  // namespace shoal::contract
