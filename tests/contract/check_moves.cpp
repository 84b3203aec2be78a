#include "contract/check_list.hpp"
#include "contract/values.hpp"

namespace shoal::contract {
namespace {

double value(int r, std::int64_t i) { return static_cast<double>((r * 31 + i * 7) % 127); }

// f(dtype, count): every dtype with every count.
template <class F>
void for_each_case(int n, const F& f) {
  int index = 0;
  for (DType dtype : all_dtypes) {
    for (std::int64_t count : counts_of(index, n)) f(dtype, count);
    ++index;
  }
}

}  // namespace

void check_all_gather(const World& w) {
  const int n = w->size(), r = w->rank();
  for_each_case(n, [&](DType dtype, std::int64_t count) {
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
  });
}

void check_broadcast(const World& w) {
  int root = 0;
  for_each_case(w->size(), [&](DType dtype, std::int64_t count) {
    root = (root + 1) % w->size();
    const Tensor t = filled(dtype, count, [&](std::int64_t i) { return value(w->rank(), i); });
    w->broadcast(t, root);
    expect_values(
        t, [&](std::int64_t i) { return value(root, i); }, "broadcast");
  });
}

// From and to every root, with tensors of their own and in place; what a rank has no use for is undefined.
void check_gather_and_scatter(const World& w) {
  const int n = w->size(), r = w->rank();
  int root = 0;
  for_each_case(n, [&](DType dtype, std::int64_t count) {
    root = (root + 1) % n;
    const bool mine = r == root;
    const auto own = [&](std::int64_t i) { return value(r, i); };
    const auto all = [&](std::int64_t i) { return value(static_cast<int>(i / count), i % count); };
    const Tensor part = filled(dtype, count, own), whole = mine ? make(dtype, count * n) : Tensor();
    w->gather(part, whole, root);
    if (mine) expect_values(whole, all, "gather");
    expect_values(part, own, "the input of gather");

    const Tensor back = filled(dtype, count, [](std::int64_t) { return 99.0; });
    w->scatter(whole, back, root);
    expect_values(back, own, "scatter");

    const Tensor place = mine ? filled(dtype, count * n, [](std::int64_t) { return 99.0; }) : Tensor();
    for (const std::int64_t at : {r * count, std::int64_t{0}}) {  // its own part, and one that is another's
      if (mine) copy(stream(), part, place.slice(at, at + count));
      w->gather(mine ? place.slice(at, at + count) : part, place, root);
      if (mine) expect_values(place, all, "gather in place");
      w->scatter(place, mine ? place.slice(at, at + count) : back, root);
      expect_values(mine ? place.slice(at, at + count) : back, own, "scatter in place");
    }
  });
}

void check_all_to_all(const World& w) {
  const int n = w->size(), r = w->rank();
  for_each_case(n, [&](DType dtype, std::int64_t count) {
    if (count == big && n > 2) count = 20011;
    // What rank a sends to rank b.
    const auto item = [](int a, int b, std::int64_t i) {
      return static_cast<double>((a * 31 + b * 17 + i) % 127);
    };
    const auto sent = [&](std::int64_t i) { return item(r, static_cast<int>(i / count), i % count); };
    const auto got = [&](std::int64_t i) { return item(static_cast<int>(i / count), r, i % count); };
    const Tensor in = filled(dtype, count * n, sent), out = make(dtype, count * n);
    w->all_to_all(in, out);
    expect_values(out, got, "all_to_all");
    expect_values(in, sent, "the input of all_to_all");
    w->all_to_all(in, in);
    expect_values(in, got, "all_to_all in place");
  });
}

}  // namespace shoal::contract
