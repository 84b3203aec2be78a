// Errors that all ranks throw alike.
#pragma once
#include <functional>

#include "shoal/comm/communicator.hpp"
#include "shoal/core/stream.hpp"

namespace shoal::train {

// Mixed into the exceptions that together() throws: every rank threw the same one, so one of them is enough
// to show. Found by dynamic_cast.
struct Agreed {
  virtual ~Agreed() = default;
};

// Runs `local` on every rank (it must not communicate). Where it throws on any rank, all ranks throw the
// error of the lowest such rank, of the same class and with the same message, which begins with "rank r: "
// when some ranks did not fail. Collective.
void together(Communicator& comm, const Stream& stream, const std::function<void()>& local);

}  // namespace shoal::train
