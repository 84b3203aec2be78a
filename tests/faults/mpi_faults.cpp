// One failure under mpirun, named by the argument; tests/faults/mpi_faults.sh looks at how the job ends.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"

namespace shoal {
namespace {

Tensor zeros(std::int64_t n) {
  const Tensor t = Tensor::empty({n}, DType::f32, default_allocator({}));
  std::memset(t.data(), 0, t.nbytes());
  return t;
}

// Every rank must throw Exception with a message that contains text; then the job ends well.
template <class Exception, class F>
int expect(const char* text, const F& body) {
  try {
    body();
  } catch (const Exception& e) {
    if (std::string(e.what()).find(text) != std::string::npos) return 0;
    std::fprintf(stderr, "unexpected message: %s\n", e.what());
    return 3;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "unexpected class: %s\n", e.what());
    return 4;
  }
  std::fprintf(stderr, "nothing was thrown\n");
  return 5;
}

int run(const std::string& mode) {
  const auto w = make_world();
  const int r = w->rank();
  w->barrier();
  if (mode == "throw") {
    if (r == 1) throw TrainError("loss is NaN at step 7");
    const auto part = w->split(0, r);
    part->all_reduce(zeros(10));
  } else if (mode == "throw_async") {
    const Stream s = Stream::create({});
    const Work work = w->all_reduce_async(zeros(10), zeros(10), ReduceOp::sum, s);
    if (r == 1) throw TrainError("loss is NaN at step 7");
    work.synchronize();
    w->barrier();
  } else if (mode == "leave") {  // as a script does that ends after an exception of its own
    if (r == 1) return 7;
    w->all_reduce(zeros(10));
  } else if (mode == "stuck") {
    if (r == 1) std::this_thread::sleep_for(std::chrono::seconds(3));
    const int status = expect<TimeoutError>(
        "communicator world: all_reduce of 10 f32 (sum) (operation 1): rank 1 had not arrived after 1 s",
        [&] { w->all_reduce(zeros(10)); });
    return status ? status : expect<TimeoutError>("rank 1 had not arrived", [&] { w->split(0, r); });
  } else if (mode == "mismatch") {
    return expect<CommError>(
        "communicator world: ranks called different operations: ranks 0, 2: all_reduce of 10 f32 (sum) "
        "(operation "
        "1); rank 1: all_reduce of 9 f32 (sum) (operation 1)",
        [&] { w->all_reduce(zeros(r == 1 ? 9 : 10)); });
  } else if (mode == "message") {
    if (r == 0) w->send(zeros(5), 1);
    return expect<CommError>("rank 1: recv of 6 f32 from rank 0: rank 0 sends 5 f32", [&] {
      if (r == 1) w->recv(zeros(6), 0);
      w->barrier();
    });
  } else if (mode == "abort") {
    return expect<CommError>("communicator world: aborted by rank 2: enough", [&] {
      w->barrier();  // a slower rank may still be making its world, where the abort would end it too
      if (r == 2) w->abort("enough");
      w->barrier();
    });
  }
  return 0;
}

}  // namespace
}  // namespace shoal

int main(int, char** argv) {
  try {
    return shoal::run(argv[1]);
  } catch (const std::exception& e) {
    return shoal::end_failed_job(e.what());
  }
}
