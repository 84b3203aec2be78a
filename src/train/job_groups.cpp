#include "train/job_groups.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "shoal/core/error.hpp"
#include "shoal/core/text.hpp"
#include "train/job_keys.hpp"

namespace shoal::train {
namespace {

constexpr std::array<std::string_view, 5> kinds = {"matrix", "embedding", "norm", "bias", "head"};

// One entry of a rule: reads it, or throws naming what it takes.
struct Entry {
  std::string name;  // "optimizer.groups[0].dims"
  const toml::node& node;
  const std::string& where;

  [[noreturn]] void wrong(const std::string& expected) const {
    throw ConfigError(fmt::format("{}{}: expected {}", where, name, expected));
  }
  double number(const toml::node& n, const char* expected) const {
    if (!n.is_number()) wrong(expected);
    return *n.value<double>();
  }
  double number() const { return number(node, "a number"); }
  std::string text() const {
    if (!node.is_string()) wrong("a string");
    return *node.value<std::string>();
  }
  std::vector<nn::ParameterKind> kinds_of() const {
    std::vector<nn::ParameterKind> list;
    const toml::array* a = node.as_array();
    const std::string expected = fmt::format("an array of {}", fmt::join(kinds, ", "));
    if (!a) wrong(expected);
    for (const toml::node& n : *a) {
      const auto name = n.value<std::string>();
      const auto at = name ? std::find(kinds.begin(), kinds.end(), *name) : kinds.end();
      if (at == kinds.end()) wrong(expected);
      list.push_back(static_cast<nn::ParameterKind>(at - kinds.begin()));
    }
    return list;
  }
};

void read(optim::ParameterGroup& g, const std::string& key, const Entry& e) {
  if (key == "name") {
    g.name = e.text();
  } else if (key == "pattern") {
    g.pattern = e.text();
  } else if (key == "kinds") {
    g.kinds = e.kinds_of();
  } else if (key == "dims") {
    if (!e.node.is_integer() || (*e.node.value<std::int64_t>() != 1 && *e.node.value<std::int64_t>() != 2))
      e.wrong("1 (vectors) or 2 (matrices)");
    g.dims = *e.node.value<int>();
  } else if (key == "tied") {
    if (!e.node.is_boolean()) e.wrong("true or false");
    g.tied = *e.node.value<bool>();
  } else if (key == "lr_scale") {
    g.lr_scale = e.number();
  } else if (key == "weight_decay") {
    g.weight_decay = e.number();
  } else if (key == "betas") {
    const toml::array* a = e.node.as_array();
    if (!a || a->size() != 2) e.wrong("two numbers in brackets");
    g.beta1 = e.number((*a)[0], "two numbers in brackets");
    g.beta2 = e.number((*a)[1], "two numbers in brackets");
  } else if (key == "muon") {
    if (!e.node.is_boolean()) e.wrong("true or false");
    g.muon = *e.node.value<bool>();
  } else if (key == "eps") {
    g.eps = e.number();
  } else if (key == "momentum") {
    g.momentum = e.number();
  } else {
    throw ConfigError(
        fmt::format("{}unknown key {}: a rule has name, pattern, kinds, dims, tied, lr_scale, weight_decay, "
                    "betas, eps, momentum, muon",
                    e.where, e.name));
  }
}

std::string quoted(const std::string& s) {
  std::string out = "\"";
  for (const char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

// As TOML reads a float, and to the same bits.
std::string number_text(double x) {
  std::string text = fmt::format("{}", x);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::vector<optim::ParameterGroup> groups_of(const toml::array& array, const std::string& where) {
  std::vector<optim::ParameterGroup> groups;
  for (std::size_t i = 0; i < array.size(); ++i) {
    const toml::table* table = array[i].as_table();
    if (!table)
      throw ConfigError(
          fmt::format("{}optimizer.groups[{}]: expected a table, as in "
                      "[{{pattern = \"*.bias\", lr_scale = 2.0}}]",
                      where, i));
    optim::ParameterGroup g;
    for (const auto& [key, node] : *table) {
      const std::string name(key.str());
      read(g, name, {fmt::format("optimizer.groups[{}].{}", i, name), node, where});
    }
    groups.push_back(std::move(g));
  }
  return groups;
}

std::string groups_text(const std::vector<optim::ParameterGroup>& groups) {
  std::vector<std::string> rules;
  for (const optim::ParameterGroup& g : groups) {
    std::vector<std::string> entries;
    const auto add = [&](const char* key, const std::string& value) {
      entries.push_back(fmt::format("{} = {}", key, value));
    };
    if (!g.name.empty()) add("name", quoted(g.name));
    if (!g.pattern.empty()) add("pattern", quoted(g.pattern));
    if (!g.kinds.empty()) {
      std::vector<std::string> names;
      for (const nn::ParameterKind k : g.kinds)
        names.push_back(fmt::format("\"{}\"", kinds[static_cast<std::size_t>(k)]));
      add("kinds", fmt::format("[{}]", fmt::join(names, ", ")));
    }
    if (g.dims != 0) add("dims", fmt::format("{}", g.dims));
    if (g.tied) add("tied", *g.tied ? "true" : "false");
    for (const auto& [key, value] : {std::pair{"lr_scale", g.lr_scale}, {"weight_decay", g.weight_decay}})
      if (value) add(key, number_text(*value));
    if (g.beta1 && g.beta2)
      add("betas", fmt::format("[{}, {}]", number_text(*g.beta1), number_text(*g.beta2)));
    for (const auto& [key, value] : {std::pair{"eps", g.eps}, {"momentum", g.momentum}})
      if (value) add(key, number_text(*value));
    if (g.muon) add("muon", *g.muon ? "true" : "false");
    rules.push_back(fmt::format("{{{}}}", fmt::join(entries, ", ")));
  }
  return fmt::format("[{}]", fmt::join(rules, ", "));
}

}  // namespace shoal::train
