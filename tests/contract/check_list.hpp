#pragma once
#include "contract/contract.hpp"

namespace shoal::contract {

void check_all_reduce(const World& w);  // check_reductions.cpp
void check_reduce_scatter(const World& w);
void check_reduce(const World& w);
void check_sixteen_bit_sums(const World& w);
void check_bits_of_the_tree(const World& w);
void check_reduce_tree(const World& w);
void check_all_gather(const World& w);  // check_moves.cpp
void check_broadcast(const World& w);
void check_all_to_all(const World& w);
void check_send_recv(const World& w);
void check_pending_receive(const World& w);
void check_async(const World& w);  // check_order.cpp
void check_stream_order(const World& w);
void check_barrier(const World& w);
void check_split(const World& w);
void check_wrong_shapes(const World& w);
void check_allocator(const World& w);

}  // namespace shoal::contract
