#include "sides.hpp"

namespace compare {
namespace {

using shoal::Communicator;
using shoal::DType;
using shoal::Tensor;

Tensor view(float* p, std::int64_t count, DType dtype = DType::f32) {
  return Tensor::from_blob(p, {count}, dtype, {});
}

void run(const Problem& p, Communicator& c, const Memory& m, std::int64_t i) {
  const Tensor in = view(m.in(p, i), p.in_count()), out = view(m.out(p, i), p.out_count());
  if (p.op == "all_reduce") return c.all_reduce(in, out, shoal::ReduceOp::sum);
  if (p.op == "reduce") return c.reduce(in, out, 0);
  if (p.op == "reduce_scatter") return c.reduce_scatter(in, out);
  if (p.op == "all_gather") return c.all_gather(in, out);
  if (p.op == "broadcast") return c.broadcast(out, 0);
  c.all_to_all(in, out);
}

}  // namespace

void add_shoal(std::vector<Side>& sides, const Problem& p, Communicator& c, const Memory& shared,
               const Memory& own) {
  sides.push_back({"direct", &shared, [&, p](std::int64_t i) { run(p, c, shared, i); }});
  sides.push_back({"private", &own, [&, p](std::int64_t i) { run(p, c, own, i); }});
  if (p.op != "all_reduce" && p.op != "reduce_scatter") return;
  const bool whole = p.op == "all_reduce";
  // The ordered sum, one leaf a rank.
  sides.push_back({"direct ordered", &shared, [&, p, whole](std::int64_t i) {
                     const Tensor leaf = view(shared.in(p, i), p.in_count()),
                                  out = view(shared.out(p, i), p.out_count());
                     if (whole)
                       c.reduce_tree({leaf}, p.ranks, p.rank, p.rank + 1, out);
                     else
                       c.reduce_scatter_tree({leaf}, p.ranks, p.rank, p.rank + 1, out);
                   }});
  // As many elements of half the size.
  sides.push_back({"direct bf16", &shared,
                   [&, p, whole](std::int64_t i) {
                     const Tensor in = view(shared.in(p, i), p.in_count(), DType::bf16);
                     const Tensor out = view(shared.out(p, i), p.out_count(), DType::bf16);
                     if (whole)
                       c.all_reduce(in, out, shoal::ReduceOp::sum);
                     else
                       c.reduce_scatter(in, out);
                   },
                   false});
}

}  // namespace compare
