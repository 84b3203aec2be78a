#include "bindings/interrupt.hpp"

#include <chrono>

#include "shoal/comm/communicator.hpp"

namespace shoal::python {
namespace {

// Only the main thread runs signal handlers, so only it uses these.
unsigned long main_thread = 0;
PyObject *kept_type = nullptr, *kept_value = nullptr, *kept_trace = nullptr;

}  // namespace

// Asking costs the GIL, which other threads may hold for long: at most every 20 ms.
bool interrupt_seen() {
  using Clock = std::chrono::steady_clock;
  static Clock::time_point asked{};
  if (PyThread_get_thread_ident() != main_thread) return false;
  if (kept_type) return true;
  const auto now = Clock::now();
  if (now - asked < std::chrono::milliseconds(20)) return false;
  asked = now;
  py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() == 0) return false;
  PyErr_Fetch(&kept_type, &kept_value, &kept_trace);
  return true;
}

void raise_interrupt() {
  if (PyThread_get_thread_ident() != main_thread || !kept_type) return;
  PyErr_Restore(kept_type, kept_value, kept_trace);
  kept_type = kept_value = kept_trace = nullptr;
  throw py::error_already_set();
}

void install_interrupt_hook() {
  main_thread = py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>();
  set_interrupt_hook(&interrupt_seen);
}

}  // namespace shoal::python
