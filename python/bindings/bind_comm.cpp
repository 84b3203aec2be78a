// Communicators and how they are made. Their operations are in bind_collectives.cpp, module-level conveniences (init,
// rank, all_reduce, ...) in shoal/comm.py.
#include <fmt/format.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <unistd.h>

#include <future>
#include <mutex>

#include "bindings/bindings.hpp"
#include "bindings/comm.hpp"
#include "bindings/interrupt.hpp"
#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"
#include "shoal/core/threads.hpp"

namespace shoal::python {
namespace {

using py::gil_scoped_release;

CommOptions comm_options(std::optional<double> timeout) {
  CommOptions options;
  if (timeout) options.timeout = std::chrono::duration<double>(*timeout);
  return options;
}

// A communicator's destructor waits for what is under way, which may need the GIL to let go of arrays. In a child of the
// process (os.fork, multiprocessing) nothing is under way, and nobody is there to end it: it is left alone.
Comm guarded(Comm c) {
  if (!c) return c;
  Communicator* p = c.get();
  return Comm(p, [c = std::move(c), process = ::getpid()](Communicator*) mutable {
    if (process != ::getpid()) {
      new Comm(std::move(c));
      return;
    }
    if (!PyGILState_Check()) return c.reset();
    gil_scoped_release release;
    c.reset();
  });
}

// How often a wait that is no wait for other ranks looks for an interrupt.
constexpr std::chrono::milliseconds look{50};

void wait(const PyWork& w) {
  waiting([&] {
    while (!w.work.wait_for(look))
      if (interrupt_seen()) {
        w.comm->abort("interrupted while waiting");
        break;
      }
    w.work.synchronize();
  });
}

// The ranks' threads cannot be interrupted while they compute; their next operation fails.
void run_local_interruptibly(int ranks, const std::function<void(Comm)>& body, const CommOptions& options) {
  std::mutex mutex;
  std::vector<std::weak_ptr<Communicator>> worlds;
  const auto with_world = [&](const Comm& given) {
    const Comm c = guarded(given);
    {
      std::lock_guard lock(mutex);
      worlds.push_back(c);
    }
    body(c);
  };
  const int threads = num_threads();
  const auto run = [&] {
    set_num_threads(threads);
    run_local(ranks, with_world, options);
  };
  bool interrupted = false;
  std::exception_ptr error;
  {
    gil_scoped_release release;  // each rank's thread takes the lock when it calls body
    auto done = std::async(std::launch::async, run);
    while (done.wait_for(look) != std::future_status::ready) {
      if (!interrupt_seen()) continue;
      interrupted = true;
      std::lock_guard lock(mutex);
      for (const auto& world : worlds)
        if (const Comm c = world.lock()) c->abort("interrupted");
    }
    try {
      done.get();
    } catch (...) {
      error = std::current_exception();
    }
  }
  if (interrupted) raise_interrupt();
  if (error) std::rethrow_exception(error);
}

}  // namespace

void bind_comm(py::module_& m) {
  install_interrupt_hook();
  py::class_<PyWork>(m, "Work").def("wait", &wait).def("is_completed", [](const PyWork& w) {
    return w.work.is_completed();
  });

  py::class_<Communicator, Comm> cls(m, "Communicator");
  cls.def_property_readonly("rank", &Communicator::rank)
      .def_property_readonly("size", &Communicator::size)
      .def_property_readonly("name", &Communicator::name)
      .def_property_readonly("backend", &Communicator::backend)
      .def(
          "split",
          [](Communicator& c, int color, int key) {
            return guarded(waiting([&] { return c.split(color, key); }));
          },
          py::arg("color"), py::arg("key") = 0)
      .def("abort", &Communicator::abort, py::arg("reason"), py::call_guard<gil_scoped_release>())
      .def("group_start", &Communicator::group_start)
      .def("group_end", [](Communicator& c) { waiting([&] { c.group_end(); }); })
      .def("group_cancel", &Communicator::group_cancel)
      .def(
          "describe_algorithm",
          [](const Communicator& c, const std::string& operation, std::int64_t nbytes, bool direct) {
            return c.describe_algorithm(operation, nbytes, direct);
          },
          py::arg("operation"), py::arg("nbytes"), py::arg("direct") = false)
      .def("__repr__", [](const Communicator& c) {
        return fmt::format("<shoal.comm.Communicator {}: rank {} of {}, {}>", c.name(), c.rank(), c.size(),
                           c.backend());
      });
  bind_collectives(cls);

  m.def(
      "make_world",
      [](const std::string& backend, std::optional<double> timeout) {
        return guarded(make_world({backend, comm_options(timeout)}));
      },
      py::arg("backend") = "auto", py::arg("timeout") = py::none(), py::call_guard<gil_scoped_release>());
  m.def(
      "make_self", [](std::optional<double> timeout) { return guarded(make_self(comm_options(timeout))); },
      py::arg("timeout") = py::none());
  m.def(
      "adopt_mpi",
      [](int communicator, std::optional<double> timeout) {
        return guarded(adopt_mpi(communicator, comm_options(timeout)));
      },
      py::arg("communicator"), py::arg("timeout") = py::none(), py::call_guard<gil_scoped_release>());
  m.def(
      "run_local",
      [](int ranks, const std::function<void(Comm)>& body, std::optional<double> timeout) {
        run_local_interruptibly(ranks, body, comm_options(timeout));
      },
      py::arg("ranks"), py::arg("body"), py::arg("timeout") = py::none());
  m.def("end_failed_job", &end_failed_job, py::arg("message"), py::call_guard<gil_scoped_release>());
  m.def("local_rank", [] { return launch_info().local_rank; });
  m.def("comm_backends", [] {
    py::dict backends;
    for (const BackendInfo& b : comm_backends())
      backends[b.name.c_str()] = py::make_tuple(b.available, b.detail);
    return backends;
  });
}

}  // namespace shoal::python
