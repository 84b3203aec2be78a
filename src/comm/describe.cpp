// Operations in words.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/request.hpp"
#include "shoal/core/error.hpp"

namespace shoal::comm {

const char* name(Kind kind) {
  static constexpr const char* names[kinds] = {
      "all_reduce", "reduce_scatter", "all_gather",          "broadcast", "reduce",
      "gather",     "scatter",        "all_to_all",          "barrier",   "send",
      "recv",       "reduce_tree",    "reduce_scatter_tree", "split"};
  return names[static_cast<int>(kind)];
}

Kind kind_of(std::string_view operation) {
  std::string_view plain = operation;
  if (plain.ends_with("_v")) plain.remove_suffix(2);
  for (int k = 0; k < kinds; ++k)
    if (plain == name(static_cast<Kind>(k))) return static_cast<Kind>(k);
  std::string all;
  for (int k = 0; k < kinds; ++k) all += fmt::format("{}{}", k ? ", " : "", name(static_cast<Kind>(k)));
  throw ConfigError(fmt::format("no operation \"{}\": there are {}", operation, all));
}

std::string describe(const Operation& op) {
  if (op.is(Kind::barrier) || op.is(Kind::split)) return name(op.kind);
  if (op.is(Kind::all_to_all) && op.v()) return fmt::format("all_to_all_v of {}", shoal::name(op.dtype));
  std::string text =
      fmt::format("{}{} of {} {}", name(op.kind), op.v() ? "_v" : "", op.count, shoal::name(op.dtype));
  if (op.reduces())
    text += fmt::format(" ({}{})", op.reduce.scaled ? "pre-scaled " : "", shoal::name(op.reduce.op));
  if (op.is(Kind::broadcast) || op.is(Kind::recv) || op.is(Kind::scatter))
    text += fmt::format(" from rank {}", op.root);
  if (op.is(Kind::reduce) || op.is(Kind::send) || op.is(Kind::gather))
    text += fmt::format(" to rank {}", op.root);
  if (op.v()) text += fmt::format(" (counts {})", fmt::join(op.counts, ", "));
  if (op.leaves > 0) text += fmt::format(" over {} leaves", op.leaves);
  return text;
}

}  // namespace shoal::comm
