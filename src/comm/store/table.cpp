#include "comm/store/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace shoal::comm::store {
namespace {

// Far beyond any job, and small enough to be added to a time.
constexpr std::int64_t longest_wait_ms = std::int64_t{1000} * 3600 * 24 * 365;

Table::Clock::time_point deadline_of(Reader& in, Table::Clock::time_point now) {
  return now + std::chrono::milliseconds(std::clamp<std::int64_t>(in.i64(), 0, longest_wait_ms));
}

}  // namespace

void Table::handle(Client client, int rank, std::string_view request, Clock::time_point now) {
  Reader in(request);
  const Op op = static_cast<Op>(in.u8());
  if (op == Op::fail) {
    const std::string message = in.text();
    in.end();
    const bool first = fail(rank, message);
    return reply(client, std::move(Writer(Status::ok).u8(first)));
  }
  if (failure_) return reply(client, std::move(Writer(Status::failed).text(failure_->message)));
  switch (op) {
    case Op::set: {
      const std::string key = in.text();
      std::string value = in.text();
      in.end();
      if (!store(client, key, std::move(value))) return;
      reply(client, Writer(Status::ok));
      return changed(key);
    }
    case Op::get:
    case Op::wait: return wait(client, op, in, now);
    case Op::add: return add(client, in);
    case Op::compare_set: return compare_set(client, in);
    case Op::erase: {
      const std::string key = in.text();
      in.end();
      const auto found = values_.find(key);
      const bool there = found != values_.end();
      if (there) {
        stored_ -= key.size() + found->second.size();
        values_.erase(found);
      }
      return reply(client, std::move(Writer(Status::ok).u8(there)));
    }
    case Op::gather: return gather(client, rank, in, now);
    default: throw MalformedFrame(fmt::format("an operation of number {}", static_cast<int>(op)));
  }
}

void Table::refuse(Client client, const std::string& why) {
  reply(client, std::move(Writer(Status::refused).text(why)));
}

bool Table::store(Client client, const std::string& key, std::string value) {
  const auto found = values_.find(key);
  const std::size_t before = found == values_.end() ? 0 : key.size() + found->second.size();
  const std::size_t after = stored_ - before + key.size() + value.size();
  if (after > limits_.stored) {
    refuse(client,
           fmt::format("key {} with a value of {} bytes would make {} bytes in the store, which holds at "
                       "most {}",
                       key, value.size(), after, limits_.stored));
    return false;
  }
  stored_ = after;
  if (found == values_.end())
    values_.emplace(key, std::move(value));
  else
    found->second = std::move(value);
  return true;
}

void Table::wait(Client client, Op op, Reader& in, Clock::time_point now) {
  Waiter waiter{.op = op, .deadline = deadline_of(in, now), .keys = {}, .gather = {}};
  for (std::uint32_t n = in.count(4); n > 0; --n) waiter.keys.push_back(in.text());
  in.end();
  if (!advance(client, waiter)) waiters_.emplace(client, std::move(waiter));
}

void Table::gather(Client client, int rank, Reader& in, Clock::time_point now) {
  const std::string name = in.text();
  std::string value = in.text();
  Waiter waiter{.op = Op::gather, .deadline = deadline_of(in, now), .keys = {}, .gather = name};
  in.end();
  Gather& g = gathers_[name];
  g.values.resize(static_cast<std::size_t>(size_));
  auto& mine = g.values[static_cast<std::size_t>(rank)];
  if (mine)
    return refuse(client, fmt::format("rank {} takes part in all_gather {} a second time", rank, name));
  mine = std::move(value);
  waiters_.emplace(client, std::move(waiter));
  if (++g.arrived < g.values.size()) return;
  Writer all(Status::ok);
  for (const auto& v : g.values) all.text(*v);
  const std::string answer = all.take();
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    if (it->second.op != Op::gather || it->second.gather != name) {
      ++it;
      continue;
    }
    if (answer.size() > limits_.reply)
      refuse(it->first, fmt::format("the values of all ranks in all_gather {} have {} bytes, more than {}",
                                    name, answer.size(), limits_.reply));
    else
      replies_.emplace_back(it->first, answer);
    it = waiters_.erase(it);
  }
  gathers_.erase(name);
}

void Table::add(Client client, Reader& in) {
  const std::string key = in.text();
  const std::int64_t amount = in.i64();
  in.end();
  std::int64_t value = 0;
  if (const auto found = values_.find(key); found != values_.end()) {
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      return refuse(client,
                    fmt::format("add to {}: its value of {} bytes is no whole number", key, text.size()));
  }
  if (__builtin_add_overflow(value, amount, &value))
    return refuse(client, fmt::format("add to {}: the sum does not fit 64 bits", key));
  if (!store(client, key, fmt::format("{}", value))) return;
  reply(client, std::move(Writer(Status::ok).i64(value)));
  changed(key);
}

void Table::compare_set(Client client, Reader& in) {
  const std::string key = in.text();
  const bool expects_one = in.u8() != 0;
  const std::string expected = in.text();
  std::string desired = in.text();
  in.end();
  const auto found = values_.find(key);
  const bool there = found != values_.end();
  if (there != expects_one || (there && found->second != expected))
    return reply(client, std::move(Writer(Status::ok).u8(0)));
  if (!store(client, key, std::move(desired))) return;
  reply(client, std::move(Writer(Status::ok).u8(1)));
  changed(key);
}

void Table::changed(const std::string& key) {
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    Waiter& w = it->second;
    const bool concerned = w.op != Op::gather && w.keys[w.missing] == key;
    it = concerned && advance(it->first, w) ? waiters_.erase(it) : std::next(it);
  }
}

bool Table::advance(Client client, Waiter& waiter) {
  std::size_t bytes = 0;
  for (waiter.missing = 0; waiter.missing < waiter.keys.size(); ++waiter.missing) {
    const auto found = values_.find(waiter.keys[waiter.missing]);
    if (found == values_.end()) return false;
    bytes += found->second.size() + 4;
  }
  if (waiter.op == Op::wait) {
    reply(client, Writer(Status::ok));
  } else if (bytes > limits_.reply) {
    refuse(client, fmt::format("get: values of {} bytes together, more than {}", bytes, limits_.reply));
  } else {
    Writer all(Status::ok);
    for (const std::string& key : waiter.keys) all.text(values_.find(key)->second);
    reply(client, std::move(all));
  }
  return true;
}

void Table::drop(Client client) { waiters_.erase(client); }

bool Table::fail(int rank, const std::string& message) {
  if (failure_) return false;
  failure_ = Failure{rank, message};
  for (const auto& [client, waiter] : waiters_)
    reply(client, std::move(Writer(Status::failed).text(message)));
  waiters_.clear();
  return true;
}

std::string Table::timed_out(const Waiter& waiter) const {
  Writer w(Status::timeout);
  std::vector<std::string> missing;
  if (waiter.op == Op::gather) {
    const Gather& g = gathers_.at(waiter.gather);
    for (std::size_t r = 0; r < g.values.size(); ++r)
      if (!g.values[r]) missing.push_back(fmt::format("{}", r));
  } else {
    for (const std::string& key : waiter.keys)
      if (!values_.count(key)) missing.push_back(key);
  }
  w.u32(static_cast<std::uint32_t>(missing.size()));
  for (const std::string& m : missing) w.text(m);
  return w.take();
}

void Table::expire(Clock::time_point now) {
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    if (it->second.deadline > now) {
      ++it;
      continue;
    }
    replies_.emplace_back(it->first, timed_out(it->second));
    it = waiters_.erase(it);
  }
}

std::optional<Table::Clock::time_point> Table::next_deadline() const {
  std::optional<Clock::time_point> first;
  for (const auto& [client, waiter] : waiters_)
    if (!first || waiter.deadline < *first) first = waiter.deadline;
  return first;
}

}  // namespace shoal::comm::store
