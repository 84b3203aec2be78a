// The operations of a communicator over arrays, each in two forms: name(...), and name_async(...), which returns a Work.
#include <fmt/format.h>
#include <pybind11/stl.h>

#include "bindings/array.hpp"
#include "bindings/bindings.hpp"
#include "bindings/comm.hpp"
#include "bindings/interrupt.hpp"

namespace shoal::python {
namespace {

using Object = const py::object&;
using Text = const std::string&;
using Counts = Communicator::Counts;
using Scale = std::optional<double>;
// An operation whose arguments are ready: blocking for null, else asynchronous on that stream.
using Call = std::function<Work(const Stream*)>;

Reduction reduction(Text op, Scale scale) {
  const ReduceOp how = reduce_op(op);
  return scale ? Reduction(how, *scale) : Reduction(how);
}

// What only one rank reads or writes: elsewhere whatever is given is left alone.
Tensor import_where(bool used, Object array, const char* what, bool written) {
  return used ? import_array(array, what, written) : Tensor();
}

// Asynchronous operations start at once: the host's arrays are ready when Python hands them over.
const Stream& now() {
  static const Stream stream = Stream::create(Device{});
  return stream;
}

template <class... Args, class... Extra>
void def(py::class_<Communicator, Comm>& cls, const std::string& name, Call (*make)(const Comm&, Args...),
         const Extra&... extra) {
  cls.def(
      name.c_str(),
      [make](const Comm& c, Args... args) {
        const Call call = make(c, args...);
        waiting([&] { call(nullptr); });
      },
      extra...);
  cls.def((name + "_async").c_str(),
          [make](const Comm& c, Args... args) {
            const Call call = make(c, args...);
            return PyWork{waiting([&] { return call(&now()); }), c};
          },
          extra...);
}

// Both forms from one expression: call(f, args...) is (c->f)(args...) or (c->f_async)(args..., stream).
#define SHOAL_CALL(form, ...)                       \
  Call([=](const Stream* s) {                       \
    if (s) return c->form##_async(__VA_ARGS__, *s); \
    c->form(__VA_ARGS__);                           \
    return Work();                                  \
  })

void bind_reductions(py::class_<Communicator, Comm>& cls) {
  const auto op = py::arg("op") = "sum";
  const auto prescale = py::arg("prescale") = py::none();
  def(
      cls, "all_reduce",
      +[](const Comm& c, Object t, Text op, Scale scale) {
        const Tensor x = import_array(t, "all_reduce", true);
        return SHOAL_CALL(all_reduce, x, x, reduction(op, scale));
      },
      py::arg("t"), op, prescale);
  def(
      cls, "reduce_scatter",
      +[](const Comm& c, Object in, Object out, Text op, Scale scale) {
        const Tensor x = import_array(in, "reduce_scatter input", false);
        const Tensor y = import_array(out, "reduce_scatter output", true);
        return SHOAL_CALL(reduce_scatter, x, y, reduction(op, scale));
      },
      py::arg("input"), py::arg("output"), op, prescale);
  def(
      cls, "reduce_scatter_v",
      +[](const Comm& c, Object in, Object out, const Counts& counts, Text op, Scale scale) {
        const Tensor x = import_array(in, "reduce_scatter_v input", false);
        const Tensor y = import_array(out, "reduce_scatter_v output", true);
        return SHOAL_CALL(reduce_scatter_v, x, y, counts, reduction(op, scale));
      },
      py::arg("input"), py::arg("output"), py::arg("counts"), op, prescale);
  def(
      cls, "reduce",
      +[](const Comm& c, Object in, Object out, int root, Text op, Scale scale) {
        const Tensor x = import_array(in, "reduce input", false);
        const Tensor y = import_where(c->rank() == root, out, "reduce output", true);
        return SHOAL_CALL(reduce, x, y, root, reduction(op, scale));
      },
      py::arg("input"), py::arg("output"), py::arg("root") = 0, op, prescale);
}

void bind_moves(py::class_<Communicator, Comm>& cls) {
  const auto in_arg = py::arg("input"), out_arg = py::arg("output"), counts_arg = py::arg("counts");
  const auto root_arg = py::arg("root") = 0;
  def(
      cls, "all_gather",
      +[](const Comm& c, Object in, Object out) {
        const Tensor x = import_array(in, "all_gather input", false);
        const Tensor y = import_array(out, "all_gather output", true);
        return SHOAL_CALL(all_gather, x, y);
      },
      in_arg, out_arg);
  def(
      cls, "all_gather_v",
      +[](const Comm& c, Object in, Object out, const Counts& counts) {
        const Tensor x = import_array(in, "all_gather_v input", false);
        const Tensor y = import_array(out, "all_gather_v output", true);
        return SHOAL_CALL(all_gather_v, x, y, counts);
      },
      in_arg, out_arg, counts_arg);
  def(
      cls, "broadcast",
      +[](const Comm& c, Object t, int root) {
        const Tensor x = import_array(t, "broadcast", c->rank() != root);
        return SHOAL_CALL(broadcast, x, root);
      },
      py::arg("t"), root_arg);
  def(
      cls, "gather",
      +[](const Comm& c, Object in, Object out, int root) {
        const Tensor x = import_array(in, "gather input", false);
        const Tensor y = import_where(c->rank() == root, out, "gather output", true);
        return SHOAL_CALL(gather, x, y, root);
      },
      in_arg, out_arg, root_arg);
  def(
      cls, "gather_v",
      +[](const Comm& c, Object in, Object out, const Counts& counts, int root) {
        const Tensor x = import_array(in, "gather_v input", false);
        const Tensor y = import_where(c->rank() == root, out, "gather_v output", true);
        return SHOAL_CALL(gather_v, x, y, counts, root);
      },
      in_arg, out_arg, counts_arg, root_arg);
  def(
      cls, "scatter",
      +[](const Comm& c, Object in, Object out, int root) {
        const Tensor x = import_where(c->rank() == root, in, "scatter input", false);
        const Tensor y = import_array(out, "scatter output", true);
        return SHOAL_CALL(scatter, x, y, root);
      },
      in_arg, out_arg, root_arg);
  def(
      cls, "scatter_v",
      +[](const Comm& c, Object in, Object out, const Counts& counts, int root) {
        const Tensor x = import_where(c->rank() == root, in, "scatter_v input", false);
        const Tensor y = import_array(out, "scatter_v output", true);
        return SHOAL_CALL(scatter_v, x, y, counts, root);
      },
      in_arg, out_arg, counts_arg, root_arg);
  def(
      cls, "all_to_all",
      +[](const Comm& c, Object in, Object out) {
        const Tensor x = import_array(in, "all_to_all input", false);
        const Tensor y = import_array(out, "all_to_all output", true);
        return SHOAL_CALL(all_to_all, x, y);
      },
      in_arg, out_arg);
  def(
      cls, "all_to_all_v",
      +[](const Comm& c, Object in, Object out, const Counts& sent, const Counts& received) {
        const Tensor x = import_array(in, "all_to_all_v input", false);
        const Tensor y = import_array(out, "all_to_all_v output", true);
        return SHOAL_CALL(all_to_all_v, x, y, sent, received);
      },
      in_arg, out_arg, py::arg("send_counts"), py::arg("recv_counts"));
  def(
      cls, "send",
      +[](const Comm& c, Object t, int peer) {
        const Tensor x = import_array(t, "send", false);
        return SHOAL_CALL(send, x, peer);
      },
      py::arg("t"), py::arg("peer"));
  def(
      cls, "recv",
      +[](const Comm& c, Object t, int peer) {
        const Tensor x = import_array(t, "recv", true);
        return SHOAL_CALL(recv, x, peer);
      },
      py::arg("t"), py::arg("peer"));
  def(
      cls, "barrier", +[](const Comm& c) {
        return Call([=](const Stream* s) {
          if (s) return c->barrier_async(*s);
          c->barrier();
          return Work();
        });
      });
}

}  // namespace

ReduceOp reduce_op(const std::string& op) {
  for (ReduceOp candidate :
       {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max, ReduceOp::product})
    if (name(candidate) == op) return candidate;
  if (op == "avg" || op == "mean") return ReduceOp::average;
  if (op == "prod") return ReduceOp::product;
  throw ConfigError(
      fmt::format("op = \"{}\": expected sum, average (or avg, mean), min, max or product (or prod)", op));
}

void bind_collectives(py::class_<Communicator, Comm>& cls) {
  bind_reductions(cls);
  bind_moves(cls);
}

}  // namespace shoal::python
