#include "optim/same_list.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "shoal/core/error.hpp"
#include "shoal/core/hash.hpp"

namespace shoal::optim {
namespace {

template <class T>
Tensor host(std::vector<T>& v) {
  return Tensor::from_blob(v.data(), {static_cast<std::int64_t>(v.size())}, dtype_of<T>::value, Device{});
}

// The list of rank `root`, on every rank.
std::vector<std::string> list_of(Communicator& comm, int root, const std::string& mine) {
  std::vector<std::int64_t> length = {static_cast<std::int64_t>(mine.size())};
  comm.broadcast(host(length), root);
  std::vector<std::uint8_t> text(mine.begin(), mine.end());
  text.resize(static_cast<std::size_t>(length[0]));
  comm.broadcast(host(text), root);
  std::vector<std::string> lines;
  std::string line;
  for (const std::uint8_t c : text) {
    if (c == '\n')
      lines.push_back(std::exchange(line, {}));
    else
      line += static_cast<char>(c);
  }
  return lines;
}

}  // namespace

void require_same_list(Communicator& comm, const std::vector<std::string>& list, const std::string& what) {
  if (comm.size() == 1) return;
  std::string text;
  for (const std::string& line : list) text += line + '\n';
  std::vector<std::int64_t> mine = {static_cast<std::int64_t>(hash_bytes(text.data(), text.size(), 0))},
                            all(static_cast<std::size_t>(comm.size()));
  comm.all_gather(host(mine), host(all));
  const auto other = std::find_if(all.begin(), all.end(), [&](std::int64_t h) { return h != all[0]; });
  if (other == all.end()) return;
  const int rank = static_cast<int>(other - all.begin());
  const std::vector<std::string> first = list_of(comm, 0, text), second = list_of(comm, rank, text);
  std::size_t i = 0;
  while (i < std::min(first.size(), second.size()) && first[i] == second[i]) ++i;
  const auto entry = [&](const std::vector<std::string>& l) {
    return i < l.size() ? l[i] : std::string("nothing more");
  };
  throw ConfigError(fmt::format("ranks have different {}: number {} is {} on rank 0 and {} on rank {}", what,
                                i, entry(first), entry(second), rank));
}

}  // namespace shoal::optim
