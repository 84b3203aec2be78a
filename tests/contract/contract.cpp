#include "contract/contract.hpp"

#include "contract/check_list.hpp"

namespace shoal::contract {

const std::vector<Check>& checks() {
  static const std::vector<Check> all = {
      {"all_reduce", check_all_reduce},
      {"reduce_scatter", check_reduce_scatter},
      {"reduce", check_reduce},
      {"sixteen_bit_sums", check_sixteen_bit_sums},
      {"bits_of_the_tree", check_bits_of_the_tree},
      {"reduce_tree", check_reduce_tree},
      {"all_gather", check_all_gather},
      {"broadcast", check_broadcast},
      {"all_to_all", check_all_to_all},
      {"send_recv", check_send_recv},
      {"pending_receive", check_pending_receive},
      {"async", check_async},
      {"stream_order", check_stream_order},
      {"barrier", check_barrier},
      {"split", check_split},
      {"wrong_shapes", check_wrong_shapes},
      {"allocator", check_allocator},
  };
  return all;
}

std::vector<Case> cases(const std::vector<int>& ranks) {
  std::vector<Case> all;
  for (int n : ranks)
    for (const Check& c : checks()) all.push_back({c, n});
  return all;
}

}  // namespace shoal::contract
