#include "shoal/train/diff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <vector>

#include "shoal/core/error.hpp"
#include "shoal/core/text.hpp"

namespace shoal::train {
namespace {

namespace fs = std::filesystem;

struct Record {
  std::int64_t step, phase, sample, seq, piece;
  std::string kind, layer, hash;
  auto key() const { return std::tie(step, phase, sample, seq); }

  std::string str() const {
    std::string s = fmt::format("step {}, {}", step, kind);
    if (!layer.empty()) s += fmt::format(" of {}, piece {}", layer, piece);
    if (phase == 0) s += fmt::format(", samples from {}", sample);
    return s;
  }
};

std::vector<nlohmann::json> read_lines(const fs::path& path) {
  std::ifstream in(path);
  if (!in) throw DataError(fmt::format("{}: cannot be read", path.string()));
  std::vector<nlohmann::json> lines;
  std::string text;
  while (std::getline(in, text)) {
    try {
      lines.push_back(nlohmann::json::parse(text));
    } catch (const nlohmann::json::exception& e) {
      throw DataError(fmt::format("{}:{}: not a JSON line: {}", path.string(), lines.size() + 1, e.what()));
    }
  }
  return lines;
}

// The records of all ranks in order of computation; empty where the run has none.
std::vector<Record> read_bits(const fs::path& run) {
  std::vector<Record> records;
  if (!fs::is_directory(run / "bits")) return records;
  for (const auto& entry : fs::directory_iterator(run / "bits")) {
    for (const auto& j : read_lines(entry.path())) {
      try {
        records.push_back({j.at("step"), j.at("phase"), j.at("sample"), j.at("seq"), j.at("piece"),
                           j.at("kind"), j.at("layer"), j.at("hash")});
      } catch (const nlohmann::json::exception& e) {
        throw DataError(fmt::format("{}: not a record: {}", entry.path().string(), e.what()));
      }
    }
  }
  std::ranges::sort(records, {}, &Record::key);
  return records;
}

std::optional<std::string> diff_bits(const std::vector<Record>& a, const std::vector<Record>& b) {
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i >= b.size() || (i < a.size() && a[i].key() < b[i].key()))
      return a[i].str() + ": only in the first run";
    if (i >= a.size() || b[i].key() < a[i].key()) return b[i].str() + ": only in the second run";
    if (a[i].kind != b[i].kind || a[i].layer != b[i].layer || a[i].piece != b[i].piece)
      return fmt::format("{} in the first run, {} in the second", a[i].str(), b[i].str());
    if (a[i].hash != b[i].hash) return fmt::format("{}: {} and {}", a[i].str(), a[i].hash, b[i].hash);
  }
  return std::nullopt;
}

std::optional<std::string> diff_metrics(const fs::path& a, const fs::path& b) {
  const auto x = read_lines(a / "metrics.jsonl"), y = read_lines(b / "metrics.jsonl");
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    for (const char* key : {"step", "loss", "grad_norm", "lr", "tokens", "val_loss"}) {
      const auto vx = x[i].value(key, nlohmann::json()), vy = y[i].value(key, nlohmann::json());
      if (vx != vy)
        return fmt::format("metrics.jsonl line {} (step {}): {} {} and {}", i + 1,
                           x[i].value("step", nlohmann::json()).dump(), key, vx.dump(), vy.dump());
    }
  }
  if (x.size() != y.size())
    return fmt::format("metrics.jsonl: {} and {}", text::count(static_cast<std::int64_t>(x.size()), "step"),
                       text::count(static_cast<std::int64_t>(y.size()), "step"));
  return std::nullopt;
}

std::optional<std::string> diff_weights(const fs::path& a, const fs::path& b) {
  const fs::path x = a / "model.safetensors", y = b / "model.safetensors";
  if (fs::exists(x) != fs::exists(y))
    return fmt::format("model.safetensors: only in the {} run", fs::exists(x) ? "first" : "second");
  if (!fs::exists(x)) return std::nullopt;
  std::ifstream fx(x, std::ios::binary), fy(y, std::ios::binary);
  if (!std::equal(std::istreambuf_iterator<char>(fx), {}, std::istreambuf_iterator<char>(fy), {}))
    return "the final weights (model.safetensors) differ";
  return std::nullopt;
}

}  // namespace

RunDiff diff_runs(const std::string& a, const std::string& b) {
  for (const std::string& run : {a, b}) {
    if (!fs::exists(fs::path(run) / "metrics.jsonl"))
      throw DataError(fmt::format("{}: not a run (it has no metrics.jsonl)", run));
  }
  const auto x = read_bits(a), y = read_bits(b);
  const bool bits = !x.empty() && !y.empty();
  std::optional<std::string> found;
  if (bits) found = diff_bits(x, y);
  if (!found) found = diff_metrics(a, b);
  if (!found) found = diff_weights(a, b);
  const std::string basis =
      bits ? fmt::format("{} tensors compared", x.size())
           : "metrics and final weights compared; runs made with SHOAL_CHECK=bits name the tensor";
  if (found) return {false, fmt::format("first difference: {}{}", *found, bits ? "" : " (" + basis + ")")};
  return {true, fmt::format("the same ({})", basis)};
}

}  // namespace shoal::train
