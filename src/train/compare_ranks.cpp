// Ranks that do not run the same thing are found at the start, not in a sum.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "shoal/core/build_info.hpp"
#include "shoal/core/cpu_info.hpp"
#include "shoal/core/error.hpp"
#include "shoal/core/hash.hpp"
#include "shoal/train/agree.hpp"
#include "train/host.hpp"
#include "train/trainer_impl.hpp"

namespace shoal::train {
namespace {

constexpr std::size_t width = 16384;  // bytes of a rank's text, which may hold three paths

// Every rank learns rank 0's text; throws on all ranks where one differs.
void compare(Communicator& comm, const Stream& stream, const std::string& text, const std::string& what) {
  std::vector<std::uint8_t> bytes(width, 0);
  std::copy_n(text.begin(), std::min(text.size(), width), bytes.begin());
  const Tensor t = to_device(stream, bytes);
  comm.broadcast(t, 0);
  bytes = to_host<std::uint8_t>(stream, t);
  const std::string first(bytes.begin(), std::find(bytes.begin(), bytes.end(), 0));
  together(comm, stream, [&] {
    if (first == text.substr(0, width)) return;
    std::size_t at = 0;  // the line in which they differ
    for (std::size_t i = 0; i < std::min(first.size(), text.size()) && first[i] == text[i]; ++i)
      if (text[i] == '\n') at = i + 1;
    throw ConfigError(fmt::format("{} differs between ranks: \"{}\" here, \"{}\" on rank 0", what,
                                  text.substr(at, text.find('\n', at) - at),
                                  first.substr(at, first.find('\n', at) - at)));
  });
}

// What is cheap to know of a file that every host opens for itself: of text its size and a look at both ends.
std::string describe(const data::TokenFile& file) {
  const std::int64_t n = std::min<std::int64_t>(file.tokens(), 4096);
  std::vector<std::int32_t> ends(static_cast<std::size_t>(2 * n));
  file.read(0, n, ends.data());
  file.read(file.tokens() - n, n, ends.data() + n);
  return fmt::format("{} tokens of {}, checksum {}, hash of both ends {}", file.tokens(), name(file.dtype()),
                     hex(file.checksum()), hex(hash_bytes(ends.data(), ends.size() * sizeof(ends[0]))));
}

}  // namespace

void compare_ranks(const Job& job, const data::DataSplit& data, Communicator& comm, const Stream& stream) {
  Job shared = job;
  shared.train.threads = 0;  // hosts may have different numbers of cores
  compare(comm, stream, to_toml(shared), "the job");
  compare(comm, stream, describe(data.train.file()), "the content of data.train");
  if (data.val) compare(comm, stream, describe(data.val->file()), "the content of the validation data");
  if (job.reproducible.on)
    compare(comm, stream, fmt::format("shoal {}\n{}\n{}", version(), build_description(), name(isa())),
            "the build");
}

}  // namespace shoal::train
