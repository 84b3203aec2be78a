#include "shoal/train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "shoal/checkpoint/weights.hpp"
#include "shoal/core/env.hpp"
#include "shoal/core/error.hpp"
#include "shoal/core/log.hpp"
#include "shoal/core/threads.hpp"
#include "shoal/train/agree.hpp"
#include "train/host_check.hpp"
#include "train/trainer_impl.hpp"

namespace shoal::train {
namespace {

// Bytes of a token file up to which data.verify = "auto" reads all of it: two seconds of a usual disk.
constexpr std::int64_t verify_limit = std::int64_t{1} << 30;

}  // namespace
Trainer::Impl::Impl(const Job& given, std::shared_ptr<Communicator> c, TrainerOptions o)
    : job(given), comm(std::move(c)), options(std::move(o)) {
  const Device device = parse_device(given.train.device == "auto" ? "cpu" : given.train.device);
  allocator = make_caching_allocator(device);
  stream = Stream::create(device, allocator);
  std::optional<std::string> memory;  // a warning of this rank
  together(*comm, stream, [&] {
    const Place place = place_of(*comm);
    job = resolve(given, comm->size());
    if (job.train.threads == 0)
      job.train.threads = std::max(1, hardware_threads() / static_cast<int>(place.ranks));
    check_threads(place.ranks, job.train.threads, hardware_threads());
    set_num_threads(job.train.threads);
    if (job.data.train.empty())
      throw ConfigError("data.train is empty: expected a token file or a text file");
    data = data::open_split(job.data.train, job.data.val, job.data.split, job.model.seq, job.model.vocab,
                            !job.data.val.empty() || job.data.split < 1.0);
    if (place.first) verify_data();
    sampler.emplace(data->train.samples(), job.train.global_batch, job.data.seed);
    model = models::make_model(job.model);
    const HostMemory host = host_memory();
    static_cast<void>(check_memory(job, least_memory(job, *model), place.ranks, host));
    memory = check_memory(job, predict_memory(job, comm->size(), comm->rank()), place.ranks, host);
    if (!place.first) memory.reset();
  });
  compare_ranks(job, *data, *comm, stream);
  if (comm->rank() == 0)
    for (const std::string& line : warnings(job)) log::warn(line);
  if (memory) log::warn(*memory);
  if (!options.late_records) prepare_records();
  if (options.on_start && comm->rank() == 0)
    options.on_start(predict_memory(job, comm->size(), comm->rank()));

  types = types_of(job);
  engine = std::make_unique<parallel::BucketEngine>(model->parameters(), comm, bucket_options(job), stream);
  if (comm->rank() == 0) models::initialize(*model, job.train.seed, stream);
  engine->broadcast_parameters(0);
  together(*comm, stream, [&] { optimizer = optim::make_optimizer(job.optimizer, engine->flat(), stream); });
  scaler.emplace(job.scaler);
  outliers.emplace(job.outliers);
  if (job.ema.decay > 0) average.emplace(job.ema.decay, *optimizer, engine->flat(), stream);
  if (bits)
    bits->parameters(0, Phase::parameters, "initial value", engine->flat(), engine->flat().values, false,
                     stream);
}

// Of the whole files, whose headers are checked at every opening.
void Trainer::Impl::verify_data() const {
  const auto verify = [&](const data::TokenFile& file) {
    if (job.data.verify == "always" || (job.data.verify == "auto" && file.bytes() <= verify_limit))
      file.verify();
  };
  verify(data->train.file());
  if (data->val && !job.data.val.empty()) verify(data->val->file());
}

void Trainer::Impl::prepare_records() {
  if (!options.write_records) return;
  records_asked = true;
  const bool with_bits = env::check() == env::Check::bits;
  together(*comm, stream, [&] {
    if (comm->rank() != 0) return;
    records = std::make_unique<Records>(job, [this](const std::string& line) { notice(line); });
    if (with_bits) records->begin(true);  // the initial values are recorded
  });
  if (with_bits)
    together(*comm, stream, [&] { bits = std::make_unique<BitsRecorder>(job.run.dir, comm->rank()); });
}

void Trainer::Impl::notice(const std::string& line) const {
  if (options.on_notice)
    options.on_notice(line);
  else
    log::warn(line);
}

void Trainer::Impl::run() {
  if (options.write_records && options.late_records && !records_asked) prepare_records();
  const std::int64_t steps = job.train.steps, every = job.train.eval_every;
  while (batch < steps) {
    Metrics metrics = step();
    const bool due = batch == steps || (every > 0 && batch % every == 0);
    if (const std::int64_t n = job.train.check_replicas; n > 0 && (batch == steps || batch % n == 0))
      check_replicas();
    if (data->val && due) {
      metrics.val_loss = evaluate();
      if (average) metrics.val_loss_ema = evaluate_average();
    }
    if (records) records->write(metrics);
    if (options.on_step && comm->rank() == 0) options.on_step(metrics);
  }
  if (!options.write_records) return;
  together(*comm, stream, [&] {
    if (records) records->begin();  // of no steps
  });
  if (average) with_average([&] { save_weights(job.run.dir + "/model_ema.safetensors"); });
  save_weights(job.run.dir + "/model.safetensors");
  if (records) records->finish();
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
double Trainer::evaluate_average() { return impl_->evaluate_average(); }
bool Trainer::has_validation() const { return impl_->data->val.has_value(); }
void Trainer::run() { impl_->run(); }
void Trainer::save_weights(const std::string& path) { impl_->save_weights(path); }
models::LanguageModel& Trainer::model() { return *impl_->model; }
optim::Optimizer& Trainer::optimizer() { return *impl_->optimizer; }
parallel::BucketEngine& Trainer::engine() { return *impl_->engine; }
const Stream& Trainer::stream() const { return impl_->stream; }
std::int64_t Trainer::peak_bytes() const { return impl_->peak_bytes(); }

}  // namespace shoal::train
