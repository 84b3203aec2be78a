// What is refused: by one rank before anything is sent, or by all of them when they differ.
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>

#include "contract/check_list.hpp"
#include "contract/values.hpp"
#include "shoal/core/error.hpp"

namespace shoal::contract {
namespace {

// body throws an Exception whose message holds all of `parts`.
template <class Exception, class F>
void expect_refused(const F& body, const std::vector<std::string>& parts) {
  try {
    body();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Exception& e) {
    for (const std::string& part : parts)
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos)
          << e.what() << "\n  does not name " << part;
  }
}

using Counts = Communicator::Counts;

// Each rank does `mine` on a copy of the communicator. All must throw CommError with one message, which names `parts`.
void expect_mismatch(const World& w, const std::function<void(const World&)>& mine,
                     const std::vector<std::string>& parts) {
  const World c = w->split(0, w->rank());
  char text[1024] = {};
  try {
    mine(c);
    ADD_FAILURE() << "rank " << w->rank() << ": nothing was thrown";
  } catch (const TimeoutError& e) {
    ADD_FAILURE() << "a timeout: " << e.what();
  } catch (const CommError& e) {
    std::strncpy(text, e.what(), sizeof text - 1);
    for (const std::string& part : parts)
      EXPECT_NE(std::string_view(text).find(part), std::string_view::npos)
          << text << "\n  does not name " << part;
  }
  EXPECT_THROW(c->barrier(), CommError) << "broken for good";
  const Tensor all = make(DType::u8, static_cast<std::int64_t>(sizeof text) * w->size());
  w->all_gather(Tensor::from_blob(text, {static_cast<std::int64_t>(sizeof text)}, DType::u8, {}), all);
  for (int q = 0; q < w->size(); ++q)
    EXPECT_STREQ(static_cast<const char*>(all.data()) + q * sizeof text, text)
        << "rank " << q << " against rank " << w->rank();
}

}  // namespace

// Refused before anything is sent, naming all values; and the communicator goes on.
void check_refusals(const World& w) {
  const int n = w->size(), r = w->rank();
  const std::string ranks = std::to_string(n);
  const Tensor three = make(DType::f32, 3), four = make(DType::f32, 4), ints = make(DType::i32, 3);
  expect_refused<ShapeError>([&] { w->all_reduce(three, four, {}); },
                             {"all_reduce", w->name(), "expected 3 elements of f32", "f32[4]"});
  expect_refused<ShapeError>([&] { w->all_reduce(three, ints, {}); }, {"f32", "i32[3]"});
  expect_refused<ShapeError>([&] { w->all_reduce(make(DType::u16, 3)); }, {"no arithmetic on u16"});
  expect_refused<ShapeError>([&] { w->all_reduce(Tensor()); }, {"undefined tensor"});
  const Tensor nine = make(DType::f32, 9);
  expect_refused<ShapeError>([&] { w->all_reduce(nine.slice(0, 6), nine.slice(2, 8), {}); }, {"overlap"});
  expect_refused<ShapeError>([&] { w->all_gather(three, make(DType::f32, 3 * n + 1)); },
                             {"expected " + std::to_string(3 * n), std::to_string(3 * n + 1)});
  expect_refused<ShapeError>([&] { w->reduce_scatter(make(DType::f32, 3 * n + 1), three); },
                             {"reduce_scatter"});
  expect_refused<ShapeError>([&] { w->gather(three, four, r); }, {"gather"});
  expect_refused<ShapeError>([&] { w->scatter(make(DType::f32, 3 * n + 1), three, r); }, {"scatter"});
  if (n > 1)
    expect_refused<ShapeError>([&] { w->all_to_all(make(DType::f32, n + 1), make(DType::f32, n + 1)); },
                               {ranks});
  expect_refused<ConfigError>([&] { w->broadcast(three, n); }, {"root " + ranks + " of " + ranks});
  expect_refused<ConfigError>([&] { w->gather(three, three, -1); }, {"root -1"});
  expect_refused<ConfigError>([&] { w->send(three, -1); }, {"peer -1"});
  for (DType dtype : {DType::i32, DType::i64, DType::u8})
    expect_refused<ConfigError>([&] { w->all_reduce(make(dtype, 3), ReduceOp::average); },
                                {"average", std::string(name(dtype))});
  expect_refused<ConfigError>([&] { w->all_reduce(ints, Reduction(ReduceOp::sum, 0.5)); }, {"0.5", "i32"});
  expect_refused<ConfigError>([&] { w->all_reduce(three, Reduction(ReduceOp::max, 0.5)); }, {"0.5", "max"});
  expect_refused<ConfigError>([&] { w->all_gather_v(three, three, Counts(n + 1, 3)); },
                              {"all_gather_v", std::to_string(n + 1) + " of them for " + ranks + " ranks"});
  Counts negative(n, 1);
  negative[0] = -2;
  expect_refused<ConfigError>([&] { w->all_gather_v(three, three, negative); }, {"-2"});
  expect_refused<ShapeError>([&] { w->all_gather_v(three, three, Counts(n, 4)); }, {"expected 4", "f32[3]"});
  expect_refused<ConfigError>([&] { w->all_to_all_v(three, three, Counts(n, 3), Counts(n, 4)); }, {"3", "4"});
  expect_refused<ConfigError>([&] { w->reduce_tree({three}, 2, 0, 3, three); }, {"3", "2"});
  expect_refused<ShapeError>([&] { w->reduce_tree({three, three}, 2, 0, 2, three); }, {"1 nodes", "got 2"});
  expect_refused<ShapeError>([&] { w->reduce_tree({ints}, 1, 0, 1, ints); }, {"i32"});
  const Tensor half = make(DType::bf16, 3);
  expect_refused<ShapeError>([&] { w->reduce_tree({half}, 2, 0, 2, half); },
                             {"2 nodes", "one by one", "got 1"});
  expect_refused<DeviceError>([&] { w->all_reduce_async(three, three, {}, Stream()); }, {"empty stream"});
  w->barrier();
}

// With the checks on: whatever differs, all ranks throw the same words.
void check_mismatches(const World& w) {
  const char* checks = std::getenv("SHOAL_CHECK");
  const int n = w->size(), r = w->rank();
  if (n < 2 || (w->backend() != "local" && (!checks || std::string_view(checks) == "0"))) return;
  const bool odd = r == n - 1;  // the last rank does something else
  const auto t = [](std::int64_t count, DType dtype = DType::f32) {
    return filled(dtype, count, [](std::int64_t) { return 1.0; });
  };
  const std::string first = n == 2 ? "rank 0: " : "ranks 0, ", last = "rank " + std::to_string(n - 1) + ": ";
  expect_mismatch(
      w, [&](const World& c) { odd ? c->all_reduce(t(8)) : c->broadcast(t(8), 0); },
      {"different operations", first, last + "all_reduce of 8 f32 (sum)", "broadcast of 8 f32 from rank 0"});
  expect_mismatch(w, [&](const World& c) { c->all_reduce(odd ? t(16, DType::bf16) : t(8)); },
                  {"16 bf16", "8 f32"});
  expect_mismatch(w, [&](const World& c) { c->all_reduce(t(odd ? 409598 : 409600)); }, {"409600", "409598"});
  expect_mismatch(w, [&](const World& c) { c->broadcast(t(4), odd ? 1 : 0); },
                  {"from rank 0", "from rank 1"});
  expect_mismatch(w, [&](const World& c) { c->all_reduce(t(4), odd ? ReduceOp::max : ReduceOp::sum); },
                  {"(sum)", "(max)"});
  expect_mismatch(
      w, [&](const World& c) { c->all_reduce(t(4), odd ? Reduction(ReduceOp::sum, 1.0) : Reduction()); },
      {"(sum)", "(pre-scaled sum)"});
  Counts counts(n, 2);
  if (odd) std::swap(++counts[0], --counts[1]);
  expect_mismatch(w, [&](const World& c) { c->all_gather_v(t(counts[r]), t(2 * n), counts); },
                  {"all_gather_v", "(counts 2, 2", odd ? "(counts 1, 3" : "(counts 1, 3"});
  expect_mismatch(w,
                  [&](const World& c) {
                    odd ? c->all_gather(t(2), t(2 * n)) : c->all_gather_v(t(2), t(2 * n), Counts(n, 2));
                  },
                  {"all_gather of 2", "all_gather_v of " + std::to_string(2 * n)});
  expect_mismatch(  // the order: rank n - 1 has done the second first
      w,
      [&](const World& c) {
        c->barrier();
        odd ? c->gather(t(2), r == 0 ? t(2 * n) : Tensor(), 0) : c->barrier();
      },
      {"barrier (operation 1)", "gather of 2 f32 to rank 0 (operation 1)"});
  Counts sent(n, 1), received(n, 1);
  if (odd) sent[0] = 3;
  expect_mismatch(w, [&](const World& c) { c->all_to_all_v(t(odd ? n + 2 : n), t(n), sent, received); },
                  {"all_to_all_v of f32",
                   "rank " + std::to_string(n - 1) + " sends 3 elements to rank 0, which expects 1"});
  expect_mismatch(w, [&](const World& c) { c->reduce_tree({t(4)}, n + 1, r, r + 1, t(4)); },
                  {"the ranks hold " + std::to_string(n) + " of " + std::to_string(n + 1) + " leaves"});
  w->barrier();
}

}  // namespace shoal::contract
