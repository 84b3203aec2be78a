// Where ranks meet: a small table of keys and values that one process serves and all ranks share. It is for
// addresses, names and counts, not for data: values are bytes of at most StoreLimits::frame.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace shoal {

struct LaunchInfo;

// What the serving side allows. Only tests have a reason for other values.
struct StoreLimits {
  std::size_t frame = std::size_t{1} << 20;   // bytes of a request: key and value
  std::size_t reply = std::size_t{1} << 28;   // bytes of an answer, which may hold the values of all ranks
  std::size_t stored = std::size_t{1} << 28;  // bytes of all keys and values together
  int pending = 64;  // connections that have not shown the token; the oldest one gives way
  int per_rank = 8;  // connections of a rank that have
  std::chrono::duration<double> handshake{5.0};  // for showing the token
};

inline constexpr std::size_t shortest_token = 16, longest_token = 64;  // bytes

struct StoreOptions {
  // "host:port", "[ipv6]:port", or "unix:@name" for an abstract socket of this host. A host name may stand for
  // several addresses: rank 0 listens on each of them (and on nothing else), the others try them in turn.
  // Port 0 on rank 0: any free one, which address() tells.
  std::string address;
  int rank = 0, size = 1;
  bool serve = true;  // rank 0 serves; false where another process does (`shoal run`)
  // The job's secret, shortest_token to longest_token bytes, compared before anything else is read. Empty: only
  // on loopback or a Unix socket, and only processes of the same user are let in.
  std::string token;
  std::chrono::duration<double> timeout{300.0};  // of connecting, and of every call that is given no other
  StoreLimits limits;
};

// Calls may come from any thread; one that waits delays no other. Errors: ConfigError for options that make no
// sense, TimeoutError for what did not come in time (naming it), CommError when the serving process is gone, a
// rank was lost or fail() was called. Messages name address and rank.
class Store {
 public:
  using Seconds = std::chrono::duration<double>;
  // Returns when this rank is connected.
  static std::shared_ptr<Store> connect(const StoreOptions& options);
  // Says goodbye. On rank 0, calls of other ranks that wait are answered first if that takes no more than
  // some seconds; then the table is gone.
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  int rank() const;
  int size() const;
  const std::string& address() const;

  void set(const std::string& key, const std::string& value);
  std::string get(const std::string& key, std::optional<Seconds> timeout = {});  // waits until it is set
  std::vector<std::string> get(const std::vector<std::string>& keys, std::optional<Seconds> timeout = {});
  void wait(const std::vector<std::string>& keys, std::optional<Seconds> timeout = {});
  // Adds to a counter, which starts at 0, and returns the sum. The counter is a value: decimal text.
  std::int64_t add(const std::string& key, std::int64_t amount);
  // Sets `desired` if the value is `expected` (none: if there is no value). True when it did.
  bool compare_set(const std::string& key, const std::optional<std::string>& expected,
                   const std::string& desired);
  bool erase(const std::string& key);  // true when there was a value
  // Every rank gives a value and gets those of all, by rank. Collective under one name; the name may be used
  // again afterwards. TimeoutError names the ranks that have not arrived.
  std::vector<std::string> all_gather(const std::string& name, const std::string& mine,
                                      std::optional<Seconds> timeout = {});
  // Tells the serving process that this rank failed: calls of all ranks, also those that wait, throw CommError with
  // the message from then on. The first failure wins; true when this is it.
  bool fail(const std::string& message) noexcept;

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The job's secret: SHOAL_TOKEN, or the content of the file SHOAL_TOKEN_FILE (without a newline at its end), which only
// its owner may be able to read. Empty where neither is set. Throws ConfigError.
std::string store_token();
// 32 random hexadecimal digits.
std::string make_store_token();

// How ranks that were started with RANK and WORLD_SIZE meet: SHOAL_STORE (of `shoal run`), or MASTER_ADDR and
// MASTER_PORT, and store_token(). Throws ConfigError naming what is missing.
StoreOptions store_options(const LaunchInfo& launch, std::chrono::duration<double> timeout);

}  // namespace shoal
