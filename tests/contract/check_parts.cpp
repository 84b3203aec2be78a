// The v forms that move data: unequal parts, some of them empty.
#include <numeric>

#include "contract/check_list.hpp"
#include "contract/values.hpp"

namespace shoal::contract {
namespace {

using Counts = Communicator::Counts;

// Element i of what belongs to, or comes from, rank q.
double value(int q, std::int64_t i) { return static_cast<double>((q * 31 + i * 7) % 127); }

// Every third part is empty.
Counts parts(int n, std::int64_t base) {
  Counts counts(n);
  for (int q = 0; q < n; ++q) counts[q] = q % 3 == 1 ? 0 : base + q;
  return counts;
}

std::int64_t begin_of(const Counts& counts, int q) {
  return std::accumulate(counts.begin(), counts.begin() + q, std::int64_t{0});
}

// All parts, one after another.
template <class F>
void fill_parts(const Tensor& t, const Counts& counts, const F& value_of) {
  for (int q = 0; q < static_cast<int>(counts.size()); ++q)
    fill(t.slice(begin_of(counts, q), begin_of(counts, q) + counts[q]),
         [&](std::int64_t i) { return value_of(q, i); });
}
template <class F>
void expect_parts(const Tensor& t, const Counts& counts, const F& value_of, const std::string& what) {
  for (int q = 0; q < static_cast<int>(counts.size()); ++q)
    expect_values(
        t.slice(begin_of(counts, q), begin_of(counts, q) + counts[q]),
        [&](std::int64_t i) { return value_of(q, i); }, what + ", part " + std::to_string(q));
}

template <class F>
void for_each_case(int n, const F& f) {
  int index = 0;
  for (DType dtype : all_dtypes) {
    for (std::int64_t base : counts_of(index, n)) f(dtype, base == big && n > 2 ? 20011 : base);
    ++index;
  }
}

}  // namespace

void check_all_gather_v(const World& w) {
  const int n = w->size(), r = w->rank();
  for_each_case(n, [&](DType dtype, std::int64_t base) {
    const Counts counts = parts(n, base);
    const std::int64_t begin = begin_of(counts, r), all = begin_of(counts, n);
    const Tensor in = filled(dtype, counts[r], [&](std::int64_t i) { return value(r, i); });
    const Tensor out = make(dtype, all), place = make(dtype, all);
    w->all_gather_v(in, out, counts);
    expect_parts(out, counts, value, "all_gather_v");
    copy(stream(), in, place.slice(begin, begin + counts[r]));
    w->all_gather_v(place.slice(begin, begin + counts[r]), place, counts);
    expect_parts(place, counts, value, "all_gather_v in place");
    copy(stream(), in, place.slice(0, counts[r]));
    w->all_gather_v(place.slice(0, counts[r]), place, counts);
    expect_parts(place, counts, value, "all_gather_v from the beginning");
  });
}

void check_gather_and_scatter_v(const World& w) {
  const int n = w->size(), r = w->rank();
  int root = 0;
  for_each_case(n, [&](DType dtype, std::int64_t base) {
    root = (root + 1) % n;
    const bool mine = r == root;
    const Counts counts = parts(n, base);
    const std::int64_t begin = begin_of(counts, r), all = begin_of(counts, n);
    const auto own = [&](std::int64_t i) { return value(r, i); };
    const Tensor part = filled(dtype, counts[r], own), whole = mine ? make(dtype, all) : Tensor();
    w->gather_v(part, whole, counts, root);
    if (mine) expect_parts(whole, counts, value, "gather_v");
    const Tensor back = filled(dtype, counts[r], [](std::int64_t) { return 99.0; });
    w->scatter_v(whole, back, counts, root);
    expect_values(back, own, "scatter_v");
    const Tensor home = mine ? whole.slice(begin, begin + counts[r]) : part;
    w->gather_v(home, whole, counts, root);
    if (mine) expect_parts(whole, counts, value, "gather_v in place");
    w->scatter_v(whole, home, counts, root);
    expect_values(home, own, "scatter_v in place");
  });
}

// Rank a sends b as many elements as no other pair, and some pairs nothing.
void check_all_to_all_v(const World& w) {
  const int n = w->size(), r = w->rank();
  for_each_case(n, [&](DType dtype, std::int64_t base) {
    const auto count = [&](int a, int b) { return (a + 2 * b) % 4 == 1 ? 0 : base + 3 * a + b; };
    const auto item = [](int a, int b, std::int64_t i) { return value(a + 5 * b, i); };
    Counts sent(n), received(n);
    for (int q = 0; q < n; ++q) {
      sent[q] = count(r, q);
      received[q] = count(q, r);
    }
    const Tensor in = make(dtype, begin_of(sent, n)), out = make(dtype, begin_of(received, n));
    const auto mine = [&](int q, std::int64_t i) { return item(r, q, i); };
    const auto theirs = [&](int q, std::int64_t i) { return item(q, r, i); };
    fill_parts(in, sent, mine);
    w->all_to_all_v(in, out, sent, received);
    expect_parts(out, received, theirs, "all_to_all_v");
    expect_parts(in, sent, mine, "the input of all_to_all_v");
    // In place, in a buffer that holds the longer of the two.
    const Tensor place = make(dtype, std::max(in.numel(), out.numel()));
    copy(stream(), in, place.slice(0, in.numel()));
    w->all_to_all_v(place.slice(0, in.numel()), place.slice(0, out.numel()), sent, received);
    expect_parts(place.slice(0, out.numel()), received, theirs, "all_to_all_v in place");
  });
}

}  // namespace shoal::contract
