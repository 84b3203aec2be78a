// Ctrl-C while the GIL is released. Python's signal handler only notes the signal; a wait for other ranks asks for it now
// and then (set_interrupt_hook), ends on all ranks when there is one, and the KeyboardInterrupt is raised here.
#pragma once
#include <pybind11/pybind11.h>

#include "shoal/core/error.hpp"

namespace shoal::python {

namespace py = pybind11;

void install_interrupt_hook();  // once, at import
bool interrupt_seen();          // asks now; true from then on until the error is raised
// Raises what a signal's handler raised, when interrupt_seen() has found one. Needs the GIL.
void raise_interrupt();

// f() without the GIL. An interrupt it was ended by is raised in place of the CommError that it caused.
template <class F>
auto waiting(const F& f) {
  try {
    py::gil_scoped_release release;
    return f();
  } catch (const CommError&) {
    raise_interrupt();
    throw;
  }
}

}  // namespace shoal::python
