// Learning-rate schedules, and a data-parallel step over a model of the caller's.
#include <fmt/format.h>
#include <pybind11/stl.h>

#include <cstring>

#include "bindings/array.hpp"
#include "bindings/bindings.hpp"
#include "bindings/model.hpp"
#include "shoal/core/error.hpp"
#include "shoal/optim/optimizer.hpp"
#include "shoal/optim/schedule.hpp"
#include "shoal/parallel/data/bucket_engine.hpp"

namespace shoal::python {
namespace {

// One data shard and one microbatch a rank; the model's parameters live in the engine from here on.
class DataParallel {
 public:
  DataParallel(std::shared_ptr<Model> model, std::shared_ptr<Communicator> comm, int zero,
               const optim::OptimizerConfig& config)
      : model_(std::move(model)), comm_(std::move(comm)) {
    std::vector<Tensor> values;
    for (const nn::Parameter* p : model_->model->parameters()) values.push_back(p->value);
    parallel::BucketOptions options;
    options.zero = zero;
    engine_ =
        std::make_unique<parallel::BucketEngine>(model_->model->parameters(), comm_, options, model_->stream);
    std::size_t i = 0;
    for (const nn::Parameter* p : model_->model->parameters()) copy(model_->stream, values[i++], p->value);
    model_->stream.synchronize();
    engine_->broadcast_parameters();
    optimizer_ = optim::make_optimizer(config, engine_->flat(), model_->stream);
  }

  // (mean loss over all ranks' valid tokens, gradient norm before clipping)
  std::pair<double, double> step(const Tensor& tokens, const Tensor& targets, double lr, double clip) {
    nn::Microbatch mb = model_->microbatch(tokens, &targets, true);
    double sums[2] = {static_cast<double>(model_->valid(targets)), 0.0};
    const Tensor count = Tensor::from_blob(&sums[0], {1}, DType::f64, Device{});
    comm_->all_reduce(count);
    if (sums[0] > 0) mb.loss_scale_over_count = static_cast<float>(1.0 / sums[0]);
    mb.batch = batch_++;
    mb.first_sample = comm_->rank() * mb.samples;
    engine_->begin_step();
    mb.sink = engine_->sink(0, true);
    sums[1] = forward_backward(*model_, tokens, targets, mb);
    engine_->end_shard(0);
    engine_->finish();
    comm_->all_reduce(Tensor::from_blob(&sums[1], {1}, DType::f64, Device{}));
    const double norm = optim::grad_norm(engine_->flat(), model_->stream);
    optimizer_->step(model_->stream, lr, optim::clip_factor(norm, clip));
    engine_->publish();
    model_->stream.synchronize();
    return {sums[0] > 0 ? sums[1] / sums[0] : 0.0, norm};
  }
  std::int64_t applied() const { return optimizer_->applied(); }

 private:
  std::shared_ptr<Model> model_;
  std::shared_ptr<Communicator> comm_;
  std::unique_ptr<parallel::BucketEngine> engine_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::uint64_t batch_ = 0;
};

}  // namespace

void bind_optim(py::module_& m) {
  m.def(
      "learning_rate",
      [](std::int64_t update, const std::string& type, double lr, double min_lr, std::int64_t warmup,
         std::int64_t steps, double decay_fraction) {
        optim::ScheduleConfig c;
        c.type = type;
        c.lr = lr;
        c.min_lr = min_lr;
        c.warmup = warmup;
        c.steps = steps;
        c.decay_fraction = decay_fraction;
        optim::check(c);
        return optim::learning_rate(c, update);
      },
      py::arg("update"), py::kw_only(), py::arg("type") = "cosine", py::arg("lr") = 1e-3,
      py::arg("min_lr") = 0.0, py::arg("warmup") = 0, py::arg("steps"), py::arg("decay_fraction") = 0.1);
  m.def("clip_factor", &optim::clip_factor, py::arg("norm"), py::arg("max_norm"));

  py::class_<DataParallel>(m, "DataParallel")
      .def(py::init([](std::shared_ptr<Model> model, std::shared_ptr<Communicator> comm, int zero,
                       const std::string& optimizer, std::pair<double, double> betas, double eps,
                       double momentum, double weight_decay) {
             if (!comm) throw ConfigError("DataParallel needs a communicator");
             optim::OptimizerConfig c;
             c.type = optimizer;
             c.beta1 = betas.first;
             c.beta2 = betas.second;
             c.eps = eps;
             c.momentum = momentum;
             c.weight_decay = weight_decay;
             py::gil_scoped_release release;
             return std::make_unique<DataParallel>(std::move(model), std::move(comm), zero, c);
           }),
           py::arg("model"), py::arg("group"), py::kw_only(), py::arg("zero") = 0,
           py::arg("optimizer") = "adamw", py::arg("betas") = std::pair(0.9, 0.999), py::arg("eps") = 1e-8,
           py::arg("momentum") = 0.9, py::arg("weight_decay") = 0.1)
      .def_property_readonly("applied", &DataParallel::applied)
      .def(
          "step",
          [](DataParallel& d, const py::object& tokens, const py::object& targets, double lr, double clip) {
            const Tensor x = import_array(tokens, "tokens", false),
                         y = import_array(targets, "targets", false);
            py::gil_scoped_release release;
            return d.step(x, y, lr, clip);
          },
          py::arg("tokens"), py::arg("targets"), py::arg("lr"), py::arg("clip") = 1.0);
}

}  // namespace shoal::python
