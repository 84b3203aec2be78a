#include "shoal/data/pack.hpp"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "data/token_header.hpp"
#include "shoal/core/error.hpp"
#include "shoal/data/token_file.hpp"

namespace shoal::data {
namespace {

namespace fs = std::filesystem;

class Collector {
 public:
  Collector(const PackOptions& options, PackReport& report) : options_(options), report_(report) {}

  void add_input(const std::string& input) {
    std::error_code error;
    const fs::file_status status = fs::status(input, error);
    if (!fs::exists(status) && input.find_first_of("*?[") != std::string::npos) {
      for (const std::string& match : expand(input)) add_path(match, fs::status(match, error), input);
    } else {
      add_path(input, status, input);
    }
  }

  std::vector<std::string> files;

 private:
  void add_path(const std::string& path, const fs::file_status& status, const std::string& input) {
    if (!fs::exists(status)) throw DataError(fmt::format("{}: no such file or folder", path));
    if (fs::is_directory(status)) return add_folder(path, input);
    if (!fs::is_regular_file(status))
      throw DataError(fmt::format("{}: not a regular file or a folder", path));
    add_file(path, input);
  }

  void add_folder(const std::string& folder, const std::string& input) {
    std::vector<std::string> found;
    std::string at = folder;  // for the message of a failed step
    try {
      for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
        at = entry.path().string();
        if (entry.is_symlink()) {
          std::error_code dangling;
          if (wanted(at) || entry.is_directory(dangling)) ++report_.skipped_links;
        } else if (wanted(at) && entry.is_regular_file()) {
          found.push_back(at);
        }
      }
    } catch (const fs::filesystem_error& e) {
      throw DataError(
          fmt::format("{}: the folder cannot be read (at {}): {}", folder, at, e.code().message()));
    }
    if (found.empty())
      throw DataError(options_.suffixes.empty() ? fmt::format("{}: the folder has no files", folder)
                                                : fmt::format("{}: the folder has no files named *{}", folder,
                                                              fmt::join(options_.suffixes, ", *")));
    std::sort(found.begin(), found.end());
    for (const std::string& path : found) add_file(path, input);
  }

  void add_file(const std::string& path, const std::string& input) {
    const auto [it, is_new] = seen_.emplace(fs::weakly_canonical(path).string(), input);
    if (!is_new)
      throw DataError(fmt::format("{}: reached twice, by the inputs {} and {}", path, it->second, input));
    files.push_back(path);
  }

  bool wanted(const std::string& path) const {
    return options_.suffixes.empty() || std::any_of(options_.suffixes.begin(), options_.suffixes.end(),
                                                    [&](const std::string& s) { return path.ends_with(s); });
  }

  static std::vector<std::string> expand(const std::string& pattern) {
    glob_t result{};
    const int rc = ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_ERR, nullptr, &result);
    std::vector<std::string> paths(result.gl_pathv, result.gl_pathv + result.gl_pathc);
    ::globfree(&result);
    if (rc == GLOB_NOMATCH) throw DataError(fmt::format("{}: matches no file", pattern));
    if (rc != 0) throw DataError(fmt::format("{}: a folder of the pattern cannot be read", pattern));
    std::sort(paths.begin(), paths.end());
    return paths;
  }

  const PackOptions& options_;
  PackReport& report_;
  std::map<std::string, std::string> seen_;  // canonical path, the input that reached it
};

// Appends the bytes of one document; `last` is the last byte written so far, or -1.
void append_document(TokenWriter& writer, const std::string& path, std::vector<std::uint8_t>& block,
                     int& last) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) throw DataError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  for (bool start = true; in; start = false) {
    in.read(reinterpret_cast<char*>(block.data()), static_cast<std::streamsize>(block.size()));
    const auto n = static_cast<std::size_t>(in.gcount());
    if (in.bad()) throw DataError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
    if (n == 0) break;
    if (start && n >= sizeof(magic) && std::memcmp(block.data(), magic, sizeof(magic)) == 0)
      throw DataError(fmt::format("{}: is a token file already", path));
    const std::uint8_t newline = '\n';
    try {
      if (start && last >= 0 && last != newline) writer.append(std::span(&newline, 1));
      writer.append(std::span<const std::uint8_t>(block.data(), n));
    } catch (const DataError& e) {
      throw DataError(fmt::format("{} (packing {})", e.what(), path));
    }
    last = block[n - 1];
  }
}

}  // namespace

PackReport pack(const std::string& output, const std::vector<std::string>& inputs,
                const PackOptions& options) {
  if (inputs.empty()) throw DataError(fmt::format("{}: nothing to pack: no inputs were given", output));
  PackReport report;
  Collector collector(options, report);
  for (const std::string& input : inputs) collector.add_input(input);
  const fs::path target = fs::weakly_canonical(output);
  for (const std::string& path : collector.files)
    if (fs::weakly_canonical(path) == target)
      throw DataError(fmt::format("{}: is both the output and an input", output));

  TokenWriter writer(output, options.vocab, options.dtype);
  std::vector<std::uint8_t> block(1 << 20);
  int last = -1;
  for (const std::string& path : collector.files) append_document(writer, path, block, last);
  writer.finish();
  report.files = static_cast<std::int64_t>(collector.files.size());
  report.tokens = writer.tokens();
  report.dtype = writer.dtype();
  report.checksum = writer.checksum();
  return report;
}

}  // namespace shoal::data
