// The replica check: what several ranks hold alike must be the same bits on all of them. A rank whose memory, kernel or
// collective went wrong is named before its weights are saved.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "shoal/core/error.hpp"
#include "shoal/core/hash.hpp"
#include "shoal/train/agree.hpp"
#include "train/hashes.hpp"
#include "train/host.hpp"
#include "train/trainer_impl.hpp"

namespace shoal::train {
namespace {

// "rank 2 has other bits than ranks 0, 1, 3": the largest group, the lowest of equals, is taken to be right.
std::string disagreement(const std::vector<std::int64_t>& by_rank) {
  std::map<std::int64_t, std::vector<int>> groups;
  for (std::size_t r = 0; r < by_rank.size(); ++r) groups[by_rank[r]].push_back(static_cast<int>(r));
  const std::vector<int>* most = nullptr;
  for (const auto& [hash, ranks] : groups)
    if (!most || ranks.size() > most->size() || (ranks.size() == most->size() && ranks[0] < (*most)[0]))
      most = &ranks;
  std::vector<int> others;
  for (std::size_t r = 0; r < by_rank.size(); ++r)
    if (by_rank[r] != by_rank[static_cast<std::size_t>((*most)[0])]) others.push_back(static_cast<int>(r));
  const auto named = [](const std::vector<int>& ranks) {
    return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
  };
  return fmt::format("{} {} other bits than {}", named(others), others.size() == 1 ? "has" : "have",
                     named(*most));
}

}  // namespace

void Trainer::Impl::check_replicas() {
  const auto& flat = engine->flat();
  if (comm->size() == 1) return;
  std::vector<std::string> names;
  std::vector<std::int64_t> hashes;
  const std::vector<shard::Range> all = {{0, flat.layout.numel}};
  const auto add_flat = [&](const std::string& what, const Tensor& t) {
    const std::vector<std::int64_t> more = segment_hashes(flat.layout, all, t, stream);
    for (std::size_t i = 0; i < more.size(); ++i) {
      const shard::Segment& s = flat.layout.segments[i];
      const nn::Parameter& p = *flat.parameters[static_cast<std::size_t>(s.tensor)];
      names.push_back(fmt::format("{} of {}{}", what, p.name,
                                  p.pieces() == 1 ? "" : fmt::format(" (piece {})", s.piece)));
      hashes.push_back(more[i]);
    }
  };
  add_flat("the value", flat.values);
  if (!flat.partitioned)
    for (const auto& [name, t] : optimizer->state()) {
      if (t.numel() == flat.layout.numel) {
        add_flat(fmt::format("the optimizer's {}", name), t);
      } else {
        const std::vector<std::uint8_t> bytes = bytes_of(stream, t);
        names.push_back(fmt::format("the optimizer's {}", name));
        hashes.push_back(static_cast<std::int64_t>(hash_bytes(bytes.data(), bytes.size(), 0)));
      }
    }
  names.emplace_back("the count of applied updates");
  hashes.push_back(optimizer->applied());

  const auto n = static_cast<std::int64_t>(hashes.size());
  const Tensor gathered = Tensor::empty({comm->size() * n}, DType::i64, stream);
  comm->all_gather(to_device(stream, hashes), gathered);
  const std::vector<std::int64_t> ranks = to_host<std::int64_t>(stream, gathered);
  for (std::int64_t i = 0; i < n; ++i) {
    std::vector<std::int64_t> by_rank;
    for (int r = 0; r < comm->size(); ++r) by_rank.push_back(ranks[static_cast<std::size_t>(r * n + i)]);
    if (std::adjacent_find(by_rank.begin(), by_rank.end(), std::not_equal_to<>()) == by_rank.end()) continue;
    together(*comm, stream, [&] {
      throw TrainError(fmt::format("step {}: replicas differ: {}: {}", batch,
                                   names[static_cast<std::size_t>(i)], disagreement(by_rank)));
    });
  }
}

}  // namespace shoal::train
