// `shoal data pack` and `shoal data show`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "shoal/core/error.hpp"
#include "shoal/core/hash.hpp"
#include "shoal/core/text.hpp"
#include "shoal/data/pack.hpp"
#include "shoal/data/token_file.hpp"

namespace shoal::cli {
namespace {

struct PackArguments {
  std::string output, dtype;
  std::vector<std::string> inputs;
  data::PackOptions options;
};

int pack(PackArguments arguments) {
  if (arguments.dtype == "u16") arguments.options.dtype = DType::u16;
  if (arguments.dtype == "u32") arguments.options.dtype = DType::u32;
  const data::PackReport report = data::pack(arguments.output, arguments.inputs, arguments.options);
  fmt::print("{}: {} of {} from {}{}, checksum {}\n", arguments.output, text::count(report.tokens, "token"),
             name(report.dtype), text::count(report.files, "file"),
             report.skipped_links > 0
                 ? fmt::format(" ({} skipped)", text::count(report.skipped_links, "symbolic link"))
                 : "",
             hex(report.checksum));
  return 0;
}

int show(const std::string& path) {
  const data::TokenFile file = data::open_tokens(path);
  file.verify();
  fmt::print("file      {}\n", path);
  fmt::print("kind      {}\n", file.is_packed() ? "packed tokens" : "text, bytes as tokens");
  fmt::print("tokens    {}\n", file.tokens());
  fmt::print("type      {}\n", name(file.dtype()));
  fmt::print("vocab     {}\n", file.vocab());
  if (file.is_packed()) fmt::print("checksum  {} (verified)\n", hex(file.checksum()));
  std::vector<std::int32_t> first(static_cast<std::size_t>(std::min<std::int64_t>(16, file.tokens())));
  file.read(0, static_cast<std::int64_t>(first.size()), first.data());
  fmt::print("first     {}{}\n", fmt::join(first, " "),
             static_cast<std::int64_t>(first.size()) < file.tokens() ? " ..." : "");
  return 0;
}

}  // namespace

void add_data(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("data", "Make and look at token files");
  command->require_subcommand(1);

  auto* packer =
      command->add_subcommand("pack", "Pack text or source files into a token file, bytes as tokens");
  auto arguments = std::make_shared<PackArguments>();
  packer->add_option("OUT", arguments->output, "the token file to write")->required();
  packer->add_option("INPUT", arguments->inputs, "files, folders and globs, in this order")->required();
  packer->add_option("--suffix", arguments->options.suffixes,
                     "of folders, take only files that end in this (.py)");
  packer->add_option("--vocab", arguments->options.vocab, "token ids are below this")->capture_default_str();
  packer->add_option("--dtype", arguments->dtype, "type of a token; by default by the vocabulary")
      ->check(CLI::IsMember({"u16", "u32"}));
  packer->callback([&action, arguments] { action = [arguments] { return pack(*arguments); }; });

  auto* shower = command->add_subcommand("show", "What a token file holds; its checksum is verified");
  auto file = std::make_shared<std::string>();
  shower->add_option("FILE", *file, "a token file or text")->required();
  shower->callback([&action, file] { action = [file] { return show(*file); }; });
}

}  // namespace shoal::cli
