#include "shoal/train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "shoal/checkpoint/weights.hpp"
#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/env.hpp"
#include "shoal/core/error.hpp"
#include "shoal/core/threads.hpp"
#include "shoal/train/agree.hpp"
#include "train/trainer_impl.hpp"

namespace shoal::train {
namespace {

int ranks_of_this_host(const Communicator& comm) {
  if (comm.backend() == "mpi") return std::max(1, launch_info().local_size);
  return comm.size();  // the ranks are threads of this process
}

}  // namespace

Trainer::Impl::Impl(const Job& given, std::shared_ptr<Communicator> c, TrainerOptions o)
    : job(given), comm(std::move(c)), options(std::move(o)) {
  const Device device = parse_device(given.train.device == "auto" ? "cpu" : given.train.device);
  allocator = make_caching_allocator(device);
  stream = Stream::create(device, allocator);
  together(*comm, stream, [&] {
    job = resolve(given, comm->size());
    if (job.train.threads == 0)
      job.train.threads = std::max(1, hardware_threads() / ranks_of_this_host(*comm));
    set_num_threads(job.train.threads);
    if (job.data.train.empty())
      throw ConfigError("data.train is empty: expected a token file or a text file");
    data = data::open_split(job.data.train, job.data.val, job.data.split, job.model.seq, job.model.vocab,
                            !job.data.val.empty() || job.data.split < 1.0);
    sampler.emplace(data->train.samples(), job.train.global_batch, job.data.seed);
    model = models::make_model(job.model);
  });
  compare_ranks(job, *data, *comm, stream);
  prepare_records();
  if (options.on_start && comm->rank() == 0)
    options.on_start(predict_memory(job, comm->size(), comm->rank()));

  parallel::BucketOptions buckets;
  buckets.zero = job.parallel.zero;
  buckets.reproducible = job.reproducible.on;
  buckets.data_shards = job.reproducible.on ? job.reproducible.data : 0;
  engine = std::make_unique<parallel::BucketEngine>(model->parameters(), comm, buckets, stream);
  if (comm->rank() == 0) models::initialize(*model, job.train.seed, stream);
  engine->broadcast_parameters(0);
  together(*comm, stream, [&] { optimizer = optim::make_optimizer(job.optimizer, engine->flat(), stream); });
  if (bits)
    bits->parameters(0, Phase::parameters, "initial value", engine->flat(), engine->flat().values, false,
                     stream);
}

void Trainer::Impl::prepare_records() {
  if (!options.write_records) return;
  const bool with_bits = env::check() == env::Check::bits;
  together(*comm, stream, [&] {
    if (comm->rank() == 0) records = std::make_unique<Records>(job, with_bits);
  });
  if (with_bits)
    together(*comm, stream, [&] { bits = std::make_unique<BitsRecorder>(job.run.dir, comm->rank()); });
}

void Trainer::Impl::run() {
  const std::int64_t steps = job.train.steps, every = job.train.eval_every;
  while (batch < steps) {
    Metrics metrics = step();
    const bool due = batch == steps || (every > 0 && batch % every == 0);
    if (data->val && due) metrics.val_loss = evaluate();
    if (records) records->write(metrics);
    if (options.on_step && comm->rank() == 0) options.on_step(metrics);
  }
  if (options.write_records) save_weights(job.run.dir + "/model.safetensors");
}

void Trainer::Impl::save_weights(const std::string& path) {
  stream.synchronize();
  together(*comm, stream, [&] {
    if (comm->rank() != 0) return;
    const auto parameters = model->parameters();
    checkpoint::save_weights(path, parameters, {{"step", fmt::format("{}", batch)}});
  });
}

std::int64_t Trainer::Impl::peak_bytes() const {
  std::int64_t peak = allocator->stats().peak;
  if (const auto shared = comm->allocator(); shared != allocator) peak += shared->stats().peak;
  return peak;
}

Trainer::Trainer(const Job& job, std::shared_ptr<Communicator> comm, TrainerOptions options)
    : impl_(std::make_unique<Impl>(job, std::move(comm), std::move(options))) {}
Trainer::~Trainer() = default;

const Job& Trainer::job() const { return impl_->job; }
Metrics Trainer::step() { return impl_->step(); }
double Trainer::evaluate() { return impl_->evaluate(); }
bool Trainer::has_validation() const { return impl_->data->val.has_value(); }
void Trainer::run() { impl_->run(); }
void Trainer::save_weights(const std::string& path) { impl_->save_weights(path); }
models::LanguageModel& Trainer::model() { return *impl_->model; }
parallel::BucketEngine& Trainer::engine() { return *impl_->engine; }
const Stream& Trainer::stream() const { return impl_->stream; }
std::int64_t Trainer::peak_bytes() const { return impl_->peak_bytes(); }

}  // namespace shoal::train
