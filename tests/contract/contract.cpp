#include "contract/contract.hpp"

#include "contract/check_list.hpp"

namespace shoal::contract {

const std::vector<Check>& checks() {
  static const std::vector<Check> all = {
      {"all_reduce", check_all_reduce},
      {"reduce_scatter", check_reduce_scatter},
      {"reduce", check_reduce},
      {"prescaled", check_prescaled},
      {"sixteen_bit_sums", check_sixteen_bit_sums},
      {"bits_of_the_tree", check_bits_of_the_tree},
      {"same_bits", check_same_bits},
      {"reduce_tree", check_reduce_tree},
      {"reduce_tree_sixteen", check_reduce_tree_sixteen},
      {"all_gather", check_all_gather},
      {"broadcast", check_broadcast},
      {"gather_and_scatter", check_gather_and_scatter},
      {"all_to_all", check_all_to_all},
      {"reduce_scatter_v", check_reduce_scatter_v},
      {"all_gather_v", check_all_gather_v},
      {"gather_and_scatter_v", check_gather_and_scatter_v},
      {"all_to_all_v", check_all_to_all_v},
      {"send_recv", check_send_recv},
      {"pending_receive", check_pending_receive},
      {"messages_async", check_messages_async},
      {"async", check_async},
      {"every_async_form", check_every_async_form},
      {"stream_order", check_stream_order},
      {"many_communicators", check_many_communicators},
      {"group", check_group},
      {"group_of_messages", check_group_of_messages},
      {"barrier", check_barrier},
      {"split", check_split},
      {"refusals", check_refusals},
      {"mismatches", check_mismatches},
      {"allocator", check_allocator},
      {"algorithms", check_algorithms},
  };
  return all;
}

void Case::run(const World& world) const {
  if (!permuted) return check.run(world);
  const int r = world->rank();
  check.run(world->split(r % 3 == 1 ? 1 : 0, (5 * r + 3) % 7));
}

std::string Case::name() const {
  std::string text = check.name;
  if (ranks > 0) text += "_" + std::to_string(ranks);
  return permuted ? text + "_permuted" : text;
}

std::vector<Case> cases(const std::vector<int>& ranks) {
  std::vector<Case> all;
  for (int n : ranks)
    for (const Check& c : checks()) all.push_back({c, n, false});
  for (int n : ranks)
    if (n == 0 || n == 5)
      for (const Check& c : checks()) all.push_back({c, n, true});
  return all;
}

}  // namespace shoal::contract
