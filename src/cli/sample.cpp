// `shoal sample`: text from a run's final weights.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "shoal/checkpoint/weights.hpp"
#include "shoal/core/error.hpp"
#include "shoal/core/threads.hpp"
#include "shoal/models/model.hpp"
#include "shoal/train/job.hpp"

namespace shoal::cli {
namespace {

struct Arguments {
  std::string run, prompt;
  models::SampleOptions options;
};

std::vector<std::int32_t> tokens_of(const std::string& text, std::int64_t vocab) {
  std::vector<std::int32_t> ids;
  for (const char c : text) {
    const auto id = static_cast<unsigned char>(c);
    if (id >= vocab)
      throw ConfigError(
          fmt::format("--prompt: byte {} is not below the model's vocabulary of {}", id, vocab));
    ids.push_back(id);
  }
  return ids;
}

// CLI11 wraps a negative number round, and takes the largest for one that is too large.
std::string seed_text(const std::string& text) {
  std::uint64_t seed = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, seed);
  return error == std::errc() && at == end ? ""
                                           : fmt::format("{}: expected 0 to {}", text, ~std::uint64_t{0});
}

int sample(const Arguments& a) {
  const std::string job_file = a.run + "/job.toml", weights = a.run + "/model.safetensors";
  for (const std::string& file : {job_file, weights})
    if (!std::filesystem::exists(file))
      throw DataError(fmt::format("{}: not a finished run ({} is missing)", a.run, file));
  const train::Job job = train::load_job(job_file, {});
  models::ModelConfig config = job.model;
  config.tensor = job.reproducible.on ? job.reproducible.tensor : 1;
  config = config.resolved();
  if (config.vocab > 256)
    throw ConfigError(
        fmt::format("{}: its vocabulary of {} tokens is not bytes; only byte tokens can be shown as text",
                    a.run, config.vocab));
  const std::vector<std::int32_t> prompt = tokens_of(a.prompt.empty() ? "\n" : a.prompt, config.vocab);

  set_num_threads(hardware_threads());
  const Stream stream = Stream::create(Device{});
  const auto model = models::make_model(config);
  models::bind_parameters(*model, stream);
  const auto parameters = model->parameters();
  checkpoint::load_weights(weights, parameters);
  const auto ids = models::generate(*model, prompt, a.options, stream);
  std::string text = a.prompt;
  for (const std::int32_t id : ids) text += static_cast<char>(id);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
  return 0;
}

}  // namespace

void add_sample(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("sample", "Generate text from a run's final weights");
  auto a = std::make_shared<Arguments>();
  command->add_option("RUN_DIR", a->run, "the run directory")->required();
  command->add_option("--prompt", a->prompt, "text to continue, which is printed too; by default a new line");
  command->add_option("--count", a->options.count, "tokens to generate")->capture_default_str();
  command->add_option("--temperature", a->options.temperature, "0: always the most likely token")
      ->capture_default_str();
  command->add_option("--top-k", a->options.top_k, "draw from this many most likely tokens; 0: all")
      ->capture_default_str();
  command->add_option("--seed", a->options.seed, "of the draws")->capture_default_str()->check(seed_text);
  command->callback([&action, a] { action = [a] { return sample(*a); }; });
}

}  // namespace shoal::cli
