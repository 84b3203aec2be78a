// Keys and values as text: what is accepted, what was given, and the checks that compare the two.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "shoal/core/error.hpp"
#include "train/job_keys.hpp"

namespace shoal::train {
namespace {

int edit_distance(const std::string& a, const std::string& b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

// Shortest text that reads back to the same bits, and that TOML takes for a float.
std::string float_text(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", x);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string quoted(const std::string& s) {
  std::string out = "\"";
  for (const char c : s) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04X}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string type_text(models::ModelType t) { return t == models::ModelType::gpt ? "\"gpt\"" : "\"llama\""; }

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

Ref ref(const Key& key, const Job& job) { return key.ref(const_cast<Job&>(job)); }  // only read through

std::string number(double x) {
  return x == std::floor(x) && std::abs(x) < 1e15 ? fmt::format("{:.0f}", x) : float_text(x);
}

// ", at least 1", ", above 0 and at most 1", ""
std::string range_text(const Key& key) {
  std::vector<std::string> parts;
  if (std::isfinite(key.min))
    parts.push_back(fmt::format("{} {}", key.above_min ? "above" : "at least", number(key.min)));
  if (std::isfinite(key.max) && key.max < 1e15)
    parts.push_back(fmt::format("{} {}", key.below_max ? "below" : "at most", number(key.max)));
  return parts.empty() ? "" : ", " + fmt::format("{}", fmt::join(parts, " and "));
}

bool in_range(const Key& key, double x) {
  return (key.above_min ? x > key.min : x >= key.min) && (key.below_max ? x < key.max : x <= key.max);
}

}  // namespace

const Key* find_key(const std::string& name) {
  for (const Key& key : job_keys())
    if (name == key.name) return &key;
  return nullptr;
}

bool is_section(const std::string& name) {
  return std::ranges::any_of(job_keys(), [&](const Key& key) { return section(key) == name; });
}

std::string hint(const std::string& name) {
  std::vector<std::string> sections, keys;  // keys: of the section `name`
  for (const Key& key : job_keys()) {
    if (sections.empty() || sections.back() != section(key)) sections.push_back(section(key));
    if (section(key) == name) keys.push_back(leaf(key));
  }
  if (!keys.empty()) return fmt::format(": it is a section, with the keys {}", fmt::join(keys, ", "));
  const auto distance = [&](const Key& key) {
    // A right name in the wrong section is nearer than any misspelling of two letters.
    return std::min(edit_distance(name, key.name), 1 + edit_distance(last_part(name), leaf(key)));
  };
  const std::string given = name.substr(0, name.find('.'));
  const bool wrong_section = given != name && !is_section(given);
  return fmt::format(
      "{}: the nearest known key is {}",
      wrong_section ? fmt::format(": there is no section {}, only {}", given, fmt::join(sections, ", ")) : "",
      std::ranges::min_element(job_keys(), {}, distance)->name);
}

std::string section_hint(const std::string& name) {
  std::vector<std::string> sections;
  for (const Key& key : job_keys())
    if (sections.empty() || sections.back() != section(key)) sections.push_back(section(key));
  return fmt::format(
      ": the nearest is {}, of {}",
      *std::ranges::min_element(sections, {}, [&](const std::string& s) { return edit_distance(name, s); }),
      fmt::join(sections, ", "));
}

std::string section(const Key& key) { return std::string(key.name, std::strchr(key.name, '.')); }
std::string leaf(const Key& key) { return last_part(key.name); }

std::string accepts(const Key& key) {
  std::string choices;
  for (const std::string& choice : key.choices) choices += (choices.empty() ? "" : ", ") + quoted(choice);
  if (key.or_path) choices += fmt::format(", or the path {}", key.or_path);
  Job job;
  return std::visit(
      Overloaded{
          [](bool*) { return std::string("true or false"); },
          [&](std::string*) { return choices.empty() ? std::string("a string") : "one of " + choices; },
          [&](models::ModelType*) { return "one of " + choices; },
          [&](double*) { return "a number" + range_text(key); },
          [&](Betas) { return "two numbers in brackets, each" + range_text(key).substr(1); },
          [](std::vector<optim::ParameterGroup>*) { return std::string("an array of tables"); },
          [&](auto*) { return "an integer" + range_text(key); }},
      key.ref(job));
}

std::string value_text(const Key& key, const Job& job) {
  return std::visit(
      Overloaded{
          [](const bool* v) { return std::string(*v ? "true" : "false"); },
          [](const double* v) { return float_text(*v); }, [](const std::string* v) { return quoted(*v); },
          [](const models::ModelType* v) { return type_text(*v); },
          [](const Betas& v) { return fmt::format("[{}, {}]", float_text(*v.first), float_text(*v.second)); },
          [](const std::vector<optim::ParameterGroup>* v) { return groups_text(*v); },
          [](const auto* v) { return fmt::format("{}", *v); }},
      ref(key, job));
}

void check_value(const Key& key, const Job& job) {
  const auto is_path = [&](const std::string& v) {
    return key.or_path && (v.find('/') != std::string::npos || v.ends_with(".csv"));
  };
  const bool good = std::visit(
      Overloaded{
          [](const bool*) { return true; }, [](const models::ModelType*) { return true; },
          [&](const std::string* v) {
            return key.choices.empty() || std::ranges::find(key.choices, *v) != key.choices.end() ||
                   is_path(*v);
          },
          [&](const double* v) { return std::isfinite(*v) && in_range(key, *v); },
          [&](const Betas& v) { return in_range(key, *v.first) && in_range(key, *v.second); },
          [](const std::vector<optim::ParameterGroup>*) { return true; },  // read so, or checked by optim
          [&](const auto* v) { return in_range(key, static_cast<double>(*v)); }},
      ref(key, job));
  if (!good)
    throw ConfigError(fmt::format("{} = {}: expected {}", key.name, value_text(key, job), accepts(key)));
}

void check_built(const Key& key, const Job& job) {
  if (key.built.empty()) return;
  const std::string value = value_text(key, job);
  if (std::ranges::find(key.built, value) != key.built.end()) return;
  throw ConfigError(fmt::format("{} = {} is not built yet; this release has {}", key.name, value,
                                fmt::join(key.built, ", ")));
}

std::string to_toml(const Job& job) {
  std::string out, current;
  for (const Key& key : job_keys()) {
    if (section(key) != current) {
      current = section(key);
      out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", current);
    }
    out += fmt::format("{} = {}\n", leaf(key), value_text(key, job));
  }
  return out;
}

std::string job_reference() {
  const Job defaults;
  std::string out =
      "# The job file\n\n"
      "Every key of a job, as `shoal train JOB.toml key=value ...` takes it. The file may be left out and "
      "every key "
      "given on the\ncommand line: values are in TOML syntax, and a bare word is a string. Unknown keys, "
      "wrong types "
      "and sizes that do not divide\nare refused before any work. A value marked \"later\" is accepted by "
      "the format "
      "and refused by this release.\n\n"
      "This page is printed by `shoal train --keys`.\n";
  std::string current;
  for (const Key& key : job_keys()) {
    if (section(key) != current) {
      current = section(key);
      out += fmt::format("\n## [{}]\n\n| key | default | accepted | meaning |\n|---|---|---|---|\n", current);
    }
    const std::string later =
        key.built.empty() ? "" : fmt::format(" (now: {}; others later)", fmt::join(key.built, ", "));
    out += fmt::format("| `{}` | `{}` | {}{} | {} |\n", leaf(key), value_text(key, defaults), accepts(key),
                       later, key.doc);
  }
  return out;
}

}  // namespace shoal::train
