#include "comm/tuning.hpp"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>

#include "shoal/core/env.hpp"
#include "shoal/core/error.hpp"

namespace shoal::comm {
namespace {

struct Key {
  const char* name;
  std::int64_t Tuning::*value;
  std::int64_t least, most;
};
constexpr std::int64_t gib = std::int64_t{1} << 30;
constexpr Key keys[] = {{"local.inline_bytes", &Tuning::inline_bytes, 0, 4096},
                        {"local.stage_bytes", &Tuning::stage_bytes, 4096, gib},
                        {"local.whole_ranks", &Tuning::whole_ranks, 1, 1024},
                        {"local.stream_bytes", &Tuning::stream_bytes, 0, gib* gib / 2},
                        {"local.single_copy_bytes", &Tuning::single_copy_bytes, 0, gib* gib / 2},
                        {"local.single_copy_sum_bytes", &Tuning::single_copy_sum_bytes, 0, gib* gib / 2},
                        {"local.direct", &Tuning::direct, 0, 1}};

std::string trim(const std::string& s) {
  const auto first = s.find_first_not_of(" \t\r");
  return first == std::string::npos ? "" : s.substr(first, s.find_last_not_of(" \t\r") - first + 1);
}

void read_line(const std::string& file, int number, const std::string& line, Tuning& tuning) {
  const auto equals = line.find('=');
  const std::string name = trim(line.substr(0, equals));
  for (const Key& key : keys) {
    if (name != key.name) continue;
    const std::string text = equals == std::string::npos ? "" : trim(line.substr(equals + 1));
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < key.least || value > key.most)
      throw ConfigError(
          fmt::format("SHOAL_COMM_TUNING={}: line {}: {} = {}: expected a whole number from {} to {}", file,
                      number, name, text, key.least, key.most));
    tuning.*key.value = value;
    return;
  }
  std::string known, shown = line.substr(0, 60);
  for (char& c : shown)
    if (c < ' ' || c > '~') c = '?';
  for (const Key& key : keys) known += std::string(known.empty() ? "" : ", ") + key.name;
  throw ConfigError(
      fmt::format("SHOAL_COMM_TUNING={}: line {}: \"{}\" is no threshold (NAME = NUMBER, with {})", file,
                  number, shown, known));
}

}  // namespace

Tuning read_tuning() {
  Tuning tuning;
  const auto file = env::comm_tuning();
  if (!file) return tuning;
  std::ifstream in(*file);
  if (!in || std::filesystem::is_directory(*file))
    throw ConfigError(fmt::format("SHOAL_COMM_TUNING={}: the file cannot be read", *file));
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    line = trim(line.substr(0, line.find('#')));
    if (!line.empty()) read_line(*file, number, line, tuning);
  }
  tuning.stage_bytes = (tuning.stage_bytes + 4095) / 4096 * 4096;
  return tuning;
}

}  // namespace shoal::comm
