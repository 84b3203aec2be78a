#pragma once
#include "contract/contract.hpp"

namespace shoal::contract {

void check_all_reduce(const World& w);  // check_reductions.cpp
void check_reduce_scatter(const World& w);
void check_reduce(const World& w);
void check_prescaled(const World& w);
void check_reduce_scatter_v(const World& w);
void check_sixteen_bit_sums(const World& w);  // check_bits.cpp
void check_bits_of_the_tree(const World& w);
void check_same_bits(const World& w);
void check_reduce_tree(const World& w);
void check_reduce_tree_sixteen(const World& w);
void check_all_gather(const World& w);  // check_moves.cpp
void check_broadcast(const World& w);
void check_gather_and_scatter(const World& w);
void check_all_to_all(const World& w);
void check_all_gather_v(const World& w);  // check_parts.cpp
void check_gather_and_scatter_v(const World& w);
void check_all_to_all_v(const World& w);
void check_send_recv(const World& w);  // check_messages.cpp
void check_pending_receive(const World& w);
void check_messages_async(const World& w);
void check_group_of_messages(const World& w);
void check_async(const World& w);  // check_order.cpp
void check_every_async_form(const World& w);
void check_stream_order(const World& w);
void check_many_communicators(const World& w);
void check_group(const World& w);
void check_barrier(const World& w);
void check_split(const World& w);
void check_refusals(const World& w);  // check_refusals.cpp
void check_mismatches(const World& w);
void check_allocator(const World& w);
void check_algorithms(const World& w);

}  // namespace shoal::contract
