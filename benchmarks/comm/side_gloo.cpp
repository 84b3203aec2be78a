// gloo over TCP on the loopback interface: the transport it has between the ranks of a host.
#include "sides.hpp"

#ifndef COMPARE_GLOO

namespace compare {
struct Gloo::Connections {};
Gloo::Gloo(int, int, const std::string&) {}
Gloo::~Gloo() = default;
void Gloo::add(std::vector<Side>&, const Problem&, const Memory&) const {}
}  // namespace compare

#else

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

namespace compare {
namespace {

void sum(void* c, const void* a, const void* b, std::size_t n) { gloo::sum<float>(c, a, b, n); }

void set_buffers(auto& options, const Problem& p, float* in, float* out) {
  options.setInput(in, static_cast<std::size_t>(p.in_count()));
  options.setOutput(out, static_cast<std::size_t>(p.out_count()));
}

}  // namespace

struct Gloo::Connections {
  std::shared_ptr<gloo::transport::Device> device;
  std::shared_ptr<gloo::rendezvous::Context> context;
};

Gloo::Gloo(int rank, int ranks, const std::string& folder) : connections_(std::make_unique<Connections>()) {
  gloo::transport::tcp::attr attributes("127.0.0.1");
  connections_->device = gloo::transport::tcp::CreateDevice(attributes);
  connections_->context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  gloo::rendezvous::FileStore store(folder);
  connections_->context->connectFullMesh(store, connections_->device);
}
Gloo::~Gloo() = default;

void Gloo::add(std::vector<Side>& sides, const Problem& p, const Memory& own) const {
  const std::shared_ptr<gloo::Context> context = connections_->context;
  const auto add = [&](const char* name, auto call) {
    sides.push_back({name, &own, [&own, p, call](std::int64_t i) { call(own.in(p, i), own.out(p, i)); }});
  };
  // The older algorithms are made once for their buffers and keep some of their own: four sets in turn.
  const auto add_class = [&](const char* name, auto make) {
    auto made = std::make_shared<std::vector<std::shared_ptr<gloo::Algorithm> > >();
    const std::int64_t sets = std::min<std::int64_t>(4, Memory::buffers(p));
    for (std::int64_t i = 0; i < sets; ++i) made->push_back(make(own.out(p, i)));
    sides.push_back({name, &own,
                     [made, sets](std::int64_t i) { (*made)[static_cast<std::size_t>(i % sets)]->run(); },
                     false});
  };
  using Algorithm = gloo::AllreduceOptions::Algorithm;
  if (p.op == "all_reduce") {
    const auto modern = [=](Algorithm algorithm) {
      return [=](float* in, float* out) {
        gloo::AllreduceOptions options(context);
        set_buffers(options, p, in, out);
        options.setReduceFunction(sum);
        options.setAlgorithm(algorithm);
        gloo::allreduce(options);
      };
    };
    add("gloo ring", modern(Algorithm::RING));
    add("gloo bcube", modern(Algorithm::BCUBE));
    add_class("gloo halving", [&](float* buffer) {
      return std::make_shared<gloo::AllreduceHalvingDoubling<float> >(context, std::vector<float*>{buffer},
                                                                      static_cast<int>(p.count()));
    });
  } else if (p.op == "reduce_scatter") {
    add_class("gloo halving", [&](float* buffer) {
      return std::make_shared<gloo::ReduceScatterHalvingDoubling<float> >(
          context, std::vector<float*>{buffer}, static_cast<int>(p.part() * p.ranks),
          std::vector<int>(static_cast<std::size_t>(p.ranks), static_cast<int>(p.part())));
    });
  } else if (p.op == "reduce") {
    add("gloo", [=](float* in, float* out) {
      gloo::ReduceOptions options(context);
      set_buffers(options, p, in, out);
      options.setReduceFunction(sum);
      options.setRoot(0);
      gloo::reduce(options);
    });
  } else if (p.op == "all_gather") {
    add("gloo", [=](float* in, float* out) {
      gloo::AllgatherOptions options(context);
      set_buffers(options, p, in, out);
      gloo::allgather(options);
    });
  } else if (p.op == "broadcast") {
    add("gloo", [=](float*, float* out) {
      gloo::BroadcastOptions options(context);
      options.setOutput(out, static_cast<std::size_t>(p.count()));
      options.setRoot(0);
      gloo::broadcast(options);
    });
  } else {
    add("gloo", [=](float* in, float* out) {
      gloo::AlltoallOptions options(context);
      set_buffers(options, p, in, out);
      gloo::alltoall(options);
    });
  }
}

}  // namespace compare
#endif
