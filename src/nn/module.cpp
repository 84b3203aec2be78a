#include "shoal/nn/module.hpp"

#include <set>

namespace shoal::nn {
namespace {

std::int64_t count(const Saved& saved, std::set<const void*>& seen) {
  std::int64_t n = 0;
  for (const Tensor& t : saved.tensors)
    if (t.defined() && seen.insert(t.data()).second) n += t.nbytes();
  for (const Saved& child : saved.children) n += count(child, seen);
  return n;
}

}  // namespace

std::int64_t Saved::nbytes() const {
  std::set<const void*> seen;
  return count(*this, seen);
}

}  // namespace shoal::nn
