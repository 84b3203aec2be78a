// Reading: a TOML file, then overrides, through the key list.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "shoal/core/error.hpp"
#include "shoal/core/text.hpp"
#include "train/job_check.hpp"
#include "train/job_groups.hpp"
#include "train/job_keys.hpp"

namespace shoal::train {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

std::string value_text(const toml::node& node) {
  if (node.is_floating_point()) return text::number(*node.value<double>());  // toml++ prints 17 digits
  if (const toml::array* array = node.as_array()) {
    std::vector<std::string> items;
    for (const toml::node& item : *array) items.push_back(value_text(item));
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
  std::ostringstream out;
  node.visit([&](const auto& n) { out << n; });
  return out.str();
}

// One value from one source: `where` is "job.toml:3: " or "" for the command line.
void set(Job& job, const std::string& name, const toml::node& node, const std::string& where) {
  const Key* key = find_key(name);
  if (!key) {
    if (node.is_table() && name.find('.') == std::string::npos)
      throw ConfigError(fmt::format("{}unknown section [{}]{}", where, name, section_hint(name)));
    throw ConfigError(
        fmt::format("{}unknown key {} (value {}){}", where, name, value_text(node), hint(name)));
  }
  const auto wrong = [&]() -> ConfigError {
    return ConfigError(fmt::format("{}{} = {}: expected {}", where, name, value_text(node), accepts(*key)));
  };
  const auto number = [&](const toml::node& n) -> double {
    if (!n.is_number()) throw wrong();
    return *n.value<double>();
  };
  std::visit(Overloaded{[&](bool* v) {
                          if (!node.is_boolean()) throw wrong();
                          *v = *node.value<bool>();
                        },
                        [&](std::string* v) {
                          if (!node.is_string()) throw wrong();
                          *v = *node.value<std::string>();
                        },
                        [&](models::ModelType* v) {
                          const auto s = node.is_string() ? *node.value<std::string>() : std::string();
                          if (s != "gpt" && s != "llama") throw wrong();
                          *v = s == "gpt" ? models::ModelType::gpt : models::ModelType::llama;
                        },
                        [&](double* v) { *v = number(node); },
                        [&](Betas v) {
                          const toml::array* a = node.as_array();
                          if (!a || a->size() != 2) throw wrong();
                          *v.first = number((*a)[0]);
                          *v.second = number((*a)[1]);
                        },
                        [&](std::vector<optim::ParameterGroup>* v) {
                          const toml::array* a = node.as_array();
                          if (!a) throw wrong();
                          *v = groups_of(*a, where);
                        },
                        [&](auto* v) {
                          if (!node.is_integer()) throw wrong();
                          const std::int64_t i = *node.value<std::int64_t>();
                          using T = std::remove_pointer_t<decltype(v)>;
                          if (!std::in_range<T>(i)) throw wrong();
                          *v = static_cast<T>(i);
                        }},
             key->ref(job));
  try {
    check_value(*key, job);
  } catch (const ConfigError& e) {
    throw ConfigError(where + e.what());
  }
}

void read_table(Job& job, const toml::table& table, const std::string& prefix, const std::string& path,
                bool& tie_given) {
  for (const auto& [k, node] : table) {
    const std::string name = prefix.empty() ? std::string(k.str()) : prefix + "." + std::string(k.str());
    const std::string where = fmt::format("{}:{}: ", path, node.source().begin.line);
    if (const toml::table* inner = node.as_table(); inner && !find_key(name)) {
      if (!is_section(name) && inner->empty()) set(job, name, node, where);  // throws: unknown
      read_table(job, *inner, name, path, tie_given);
    } else {
      set(job, name, node, where);
      tie_given = tie_given || name == "model.tie_embeddings";
    }
  }
}

void read_override(Job& job, const std::string& item, bool& tie_given) {
  const auto equals = item.find('=');
  if (equals == std::string::npos || equals == 0)
    throw ConfigError(fmt::format("\"{}\" is neither a job file nor key=value", item));
  const auto trim = [](std::string s) {
    const auto first = s.find_first_not_of(" \t");
    return first == std::string::npos ? std::string()
                                      : s.substr(first, s.find_last_not_of(" \t") - first + 1);
  };
  const std::string name = trim(item.substr(0, equals)), value = trim(item.substr(equals + 1));
  toml::table table;
  // Text that begins like a string, array or table must be one; any other text that is not TOML is a bare
  // word.
  const bool must_parse =
      !value.empty() && std::string_view("\"'[{").find(value[0]) != std::string_view::npos;
  try {
    if (value.find('\n') == std::string::npos) table = toml::parse("v = " + value);
  } catch (const toml::parse_error& e) {
    if (must_parse) throw ConfigError(fmt::format("{} = {}: not TOML: {}", name, value, e.description()));
  }
  if (!table.contains("v")) table.insert_or_assign("v", value);
  set(job, name, *table.get("v"), "");
  tie_given = tie_given || name == "model.tie_embeddings";
}

}  // namespace

Job load_job(const std::string& path, const std::vector<std::string>& overrides) {
  Job job;
  bool tie_given = false;
  if (!path.empty()) {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw ConfigError(fmt::format("job file {}: {}", path, std::strerror(errno)));
    if (std::filesystem::is_directory(path))  // opens, and reads as if it were empty
      throw ConfigError(fmt::format("job file {}: is a directory", path));
    std::ostringstream content;
    content << in.rdbuf();
    if (in.bad()) throw ConfigError(fmt::format("job file {}: cannot be read", path));
    try {
      read_table(job, toml::parse(content.str(), path), "", path, tie_given);
    } catch (const toml::parse_error& e) {
      throw ConfigError(fmt::format("{}:{}:{}: not TOML: {}", path, e.source().begin.line,
                                    e.source().begin.column, e.description()));
    }
  }
  for (const std::string& item : overrides) read_override(job, item, tie_given);
  if (!tie_given && job.model.type == models::ModelType::llama) job.model.tie_embeddings = false;
  check_job(job);
  return job;
}

}  // namespace shoal::train
