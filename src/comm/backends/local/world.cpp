#include "comm/backends/local/world.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "comm/backends/local/communicator.hpp"
#include "comm/backends/local/shared_allocator.hpp"
#include "comm/backends/local/single_copy.hpp"
#include "shoal/core/error.hpp"
#include "shoal/core/log.hpp"
#include "shoal/core/threads.hpp"

namespace shoal::comm::local {
namespace {

std::string link_of(const char* path) {
  char text[256];
  const ssize_t n = ::readlink(path, text, sizeof text);
  return n > 0 ? std::string(text, n) : "unknown";
}

// Throws what any rank found wrong, on all of them.
void agree(Rendezvous& meeting, const std::string& error) {
  const std::vector<std::string> errors = meeting.all_gather(error);
  for (int r = 0; r < meeting.size; ++r)
    if (!errors[r].empty()) throw DeviceError(fmt::format("rank {}: {}", r, errors[r]));
}

template <class F>
std::string error_of(const F& body) {
  try {
    body();
    return "";
  } catch (const std::exception& e) {
    return e.what();
  }
}

std::shared_ptr<Segment> share(Rendezvous& meeting, const Layout& layout, const std::string& name,
                               bool named) {
  std::shared_ptr<Segment> segment;
  SegmentKey key;
  std::string error;
  if (meeting.rank == 0)
    error = error_of([&] {
      segment = Block::make_segment(layout, name);
      key = segment->key(named);
    });
  agree(meeting, error);
  const std::string given =
      meeting.all_gather(std::string(reinterpret_cast<const char*>(&key), sizeof key))[0];
  if (given.size() != sizeof key) throw CommError("shared memory: ranks of another version");
  std::memcpy(&key, given.data(), sizeof key);
  if (meeting.rank != 0) error = error_of([&] { segment = Segment::open(key); });
  std::vector<std::string> errors = meeting.all_gather(error);
  for (const std::string& e : errors)
    if (!e.empty() && named) throw DeviceError(e);
  for (const std::string& e : errors)
    if (!e.empty()) return nullptr;
  if (meeting.rank == 0) segment->drop_name();
  return segment;
}

}  // namespace

Place own_place() {
  Place place;
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  utsname name{};
  ::uname(&name);
  struct stat shm {};
  ::stat("/dev/shm", &shm);
  place.host = fmt::format("{} {} {}", name.nodename, boot, shm.st_dev);
  place.processes = link_of("/proc/self/ns/pid");
  place.process = ::getpid();
  return place;
}

std::vector<Place> gather_places(Rendezvous& meeting) {
  const Place mine = own_place();
  std::vector<Place> places;
  for (const std::string& text :
       meeting.all_gather(fmt::format("{}\n{}\n{}", mine.host, mine.processes, mine.process))) {
    const auto first = text.find('\n'), second = text.find('\n', first + 1);
    if (second == std::string::npos) throw CommError("ranks of another version");
    places.push_back({text.substr(0, first), text.substr(first + 1, second - first - 1),
                      std::stoi(text.substr(second + 1))});
  }
  return places;
}

bool one_host(const std::vector<Place>& places) {
  for (const Place& p : places)
    if (p.host != places[0].host) return false;
  return true;
}

std::shared_ptr<Communicator> make_world(Rendezvous& meeting, const std::vector<Place>& places,
                                         const CommOptions& options, std::unique_ptr<Outside> outside,
                                         const std::string& name) {
  for (int r = 0; r < meeting.size; ++r)
    if (places[r].host != places[0].host)
      throw ConfigError(
          fmt::format("backend local: rank 0 is on {}, rank {} on {}: its ranks share one host's memory",
                      places[0].host, r, places[r].host));
  auto host = std::make_shared<Host>();
  host->processes = true;
  host->crowded = meeting.size > hardware_threads();
  std::vector<int> ids;
  for (const Place& p : places) {
    ids.push_back(p.process);
    host->named = host->named || p.processes != places[0].processes;
  }
  // Every rank takes rank 0's thresholds, so that all go the same way.
  host->tuning = read_tuning();
  const std::string tuning =
      meeting.all_gather(std::string(reinterpret_cast<const char*>(&host->tuning), sizeof(Tuning)))[0];
  if (tuning.size() != sizeof(Tuning)) throw CommError("ranks of another version");
  std::memcpy(&host->tuning, tuning.data(), sizeof(Tuning));
  if (!host->named) host->ranks = std::make_unique<Processes>(ids);
  const Layout layout(meeting.size, host->tuning.stage_bytes);
  std::shared_ptr<Segment> segment;
  if (!host->named) segment = share(meeting, layout, name, false);
  if (!segment) {
    host->named = true;
    segment = share(meeting, layout, name, true);
  }
  if (!host->named && host->tuning.direct) host->single_copy = try_single_copy(meeting, ids);
  host->outside = std::move(outside);
  const auto group =
      std::make_shared<Group>(Group::About{name, "local", options},
                              std::make_shared<Block>(layout, std::move(segment)), meeting.rank, host);
  log::debug(fmt::format("communicator {}: {} processes of this host, {}, which {}", name, meeting.size,
                         options.shared_buffers ? "shared buffers" : "private buffers",
                         host->single_copy ? "others can read" : "others cannot read"));
  return std::make_shared<LocalCommunicator>(group, make_allocator(group));
}

}  // namespace shoal::comm::local
