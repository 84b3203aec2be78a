#include "shoal/comm/store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <mutex>

#include "comm/store/client.hpp"
#include "comm/store/server.hpp"
#include "shoal/core/error.hpp"

namespace shoal {
namespace {

using comm::store::Clock;
using comm::store::Op;
using comm::store::Reader;
using comm::store::Status;
using comm::store::Writer;

constexpr std::chrono::duration<double> longest{1e8};  // seconds; more would not fit a time
constexpr std::chrono::seconds grace{5};               // for the server's own answer that a wait was too long

Clock::duration clamped(Store::Seconds s) {
  return std::chrono::duration_cast<Clock::duration>(std::clamp(s, Store::Seconds(0), longest));
}

std::int64_t milliseconds(Store::Seconds s) {
  return std::chrono::ceil<std::chrono::milliseconds>(clamped(s)).count();
}

std::string list(const std::vector<std::string>& items) {
  constexpr std::size_t shown = 8;
  std::string text;
  for (std::size_t i = 0; i < items.size() && i < shown; ++i) text += (i ? ", " : "") + items[i];
  if (items.size() > shown) text += fmt::format(" and {} more", items.size() - shown);
  return text;
}

std::vector<std::string> texts(Reader& in, std::size_t n) {
  std::vector<std::string> values;
  while (values.size() < n) values.push_back(in.text());
  return values;
}

}  // namespace

struct Store::Impl {
  StoreOptions options;
  std::unique_ptr<comm::store::Server> server;  // outlives the connections
  comm::store::Address address;
  std::string where;
  std::mutex mutex;
  std::vector<comm::store::Client> idle;  // connections, for calls of several threads

  std::string prefix() const {
    return fmt::format("rank {} of {}: store at {}", options.rank, options.size, where);
  }
  comm::store::Client take(Clock::time_point deadline) {
    {
      std::lock_guard lock(mutex);
      if (!idle.empty()) {
        comm::store::Client c = std::move(idle.back());
        idle.pop_back();
        return c;
      }
    }
    return {address, options, deadline};
  }
  // The reply's fields, after its status was seen to be ok. `what` is for messages; missing() says what a wait lacked.
  std::string call(const std::string& what, std::string request, std::optional<Seconds> wait,
                   const std::function<std::string(const std::vector<std::string>&)>& missing = {});
};

std::string Store::Impl::call(const std::string& what, std::string request, std::optional<Seconds> wait,
                              const std::function<std::string(const std::vector<std::string>&)>& missing) {
  if (request.size() > options.limits.frame)
    throw ConfigError(fmt::format("{}: {}: a request of {} bytes; at most {} are accepted", prefix(), what,
                                  request.size(), options.limits.frame));
  const auto deadline = Clock::now() + clamped(wait.value_or(options.timeout)) + grace;
  std::string reply;
  try {
    comm::store::Client c = take(deadline);
    reply = c.call(request, deadline);
    std::lock_guard lock(mutex);
    idle.push_back(std::move(c));
  } catch (const comm::store::Disconnected& e) {
    throw CommError(fmt::format("{}: {}: the connection to its server broke: {}", prefix(), what, e.what()));
  } catch (const TimeoutError& e) {
    throw TimeoutError(fmt::format("{}: {}: {}", prefix(), what, e.what()));
  }
  try {
    Reader in(reply);
    switch (static_cast<Status>(in.u8())) {
      case Status::ok: return reply.substr(1);
      case Status::failed: throw CommError(fmt::format("{}: {}: {}", prefix(), what, in.text()));
      case Status::refused: throw ConfigError(fmt::format("{}: {}: refused: {}", prefix(), what, in.text()));
      case Status::timeout: {
        const auto items = texts(in, in.count(4));
        throw TimeoutError(fmt::format("{}: {}: {} within {:g} s", prefix(), what,
                                       missing ? missing(items) : "no answer",
                                       wait.value_or(options.timeout).count()));
      }
    }
    throw comm::store::MalformedFrame("an unknown status");
  } catch (const comm::store::MalformedFrame& e) {
    throw CommError(fmt::format("{}: {}: a malformed answer: {}", prefix(), what, e.what()));
  }
}

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Store::~Store() {
  impl_->idle.clear();
  impl_->server.reset();
}

std::shared_ptr<Store> Store::connect(const StoreOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->where = options.address;
  try {
    if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
      throw ConfigError("the rank is not in [0, size)");
    if (!(options.timeout.count() > 0))
      throw ConfigError(fmt::format("a timeout of {} s: expected more than 0", options.timeout.count()));
    impl->address = comm::store::Address::parse(options.address);
    if (options.rank == 0 && options.serve) {
      impl->server =
          std::make_unique<comm::store::Server>(impl->address, options.token, options.size, options.limits);
      impl->address = impl->server->address();
      impl->where = impl->address.text();
    } else if (!impl->address.is_local() && impl->address.port == 0) {
      throw ConfigError("port 0 is for rank 0 alone, which then says what it found");
    }
    if (options.token.empty() && !comm::store::on_loopback(impl->address))
      throw ConfigError(
          "it can be reached from other hosts, so the job needs a secret: set SHOAL_TOKEN or "
          "SHOAL_TOKEN_FILE on all ranks");
    impl->idle.emplace_back(impl->address, impl->options, Clock::now() + clamped(options.timeout));
  } catch (const ConfigError& e) {
    throw ConfigError(impl->prefix() + ": " + e.what());
  } catch (const TimeoutError& e) {
    throw TimeoutError(
        fmt::format("{}: {}; waited {:g} s", impl->prefix(), e.what(), options.timeout.count()));
  }
  return std::shared_ptr<Store>(new Store(std::move(impl)));
}

int Store::rank() const { return impl_->options.rank; }
int Store::size() const { return impl_->options.size; }
const std::string& Store::address() const { return impl_->where; }

void Store::set(const std::string& key, const std::string& value) {
  impl_->call("set " + key, std::move(Writer(Op::set).text(key).text(value)).take(), {});
}

std::string Store::get(const std::string& key, std::optional<Seconds> timeout) {
  return get(std::vector<std::string>{key}, timeout).front();
}

std::vector<std::string> Store::get(const std::vector<std::string>& keys, std::optional<Seconds> timeout) {
  Writer w(Op::get);
  w.i64(milliseconds(timeout.value_or(impl_->options.timeout))).u32(static_cast<std::uint32_t>(keys.size()));
  for (const std::string& key : keys) w.text(key);
  const std::string reply = impl_->call("get " + list(keys), w.take(), timeout,
                                        [](const auto& missing) { return list(missing) + " not set"; });
  Reader in(reply);
  return texts(in, keys.size());
}

void Store::wait(const std::vector<std::string>& keys, std::optional<Seconds> timeout) {
  Writer w(Op::wait);
  w.i64(milliseconds(timeout.value_or(impl_->options.timeout))).u32(static_cast<std::uint32_t>(keys.size()));
  for (const std::string& key : keys) w.text(key);
  impl_->call("wait " + list(keys), w.take(), timeout,
              [](const auto& missing) { return list(missing) + " not set"; });
}

std::int64_t Store::add(const std::string& key, std::int64_t amount) {
  const std::string reply =
      impl_->call("add " + key, std::move(Writer(Op::add).text(key).i64(amount)).take(), {});
  return Reader(reply).i64();
}

bool Store::compare_set(const std::string& key, const std::optional<std::string>& expected,
                        const std::string& desired) {
  Writer w(Op::compare_set);
  w.text(key).u8(expected.has_value()).text(expected.value_or("")).text(desired);
  const std::string reply = impl_->call("compare_set " + key, w.take(), {});
  return Reader(reply).u8() != 0;
}

bool Store::erase(const std::string& key) {
  const std::string reply = impl_->call("erase " + key, std::move(Writer(Op::erase).text(key)).take(), {});
  return Reader(reply).u8() != 0;
}

std::vector<std::string> Store::all_gather(const std::string& name, const std::string& mine,
                                           std::optional<Seconds> timeout) {
  Writer w(Op::gather);
  w.text(name).text(mine).i64(milliseconds(timeout.value_or(impl_->options.timeout)));
  const std::string reply =
      impl_->call("all_gather " + name, w.take(), timeout, [](const std::vector<std::string>& missing) {
        return fmt::format("rank{} {} {} not arrived", missing.size() == 1 ? "" : "s", list(missing),
                           missing.size() == 1 ? "has" : "have");
      });
  Reader in(reply);
  return texts(in, static_cast<std::size_t>(size()));
}

bool Store::fail(const std::string& message) noexcept {
  try {
    const std::string reply = impl_->call(
        "fail", std::move(Writer(Op::fail).text(message.substr(0, impl_->options.limits.frame / 2))).take(),
        {});
    return Reader(reply).u8() != 0;
  } catch (const std::exception&) {
    return false;  // nobody is there to be told
  }
}

}  // namespace shoal
