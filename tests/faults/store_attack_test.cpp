// Strangers at the Store's port: none is heard, none stops the server or delays a rank.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "shoal/core/error.hpp"
#include "support/expect_message.hpp"
#include "support/store.hpp"

namespace shoal {
namespace {

constexpr int patience_ms = 30000;  // for what must happen, however slow the machine is

// A connection of the test's own, to a store at 127.0.0.1.
class Raw {
 public:
  explicit Raw(const std::string& address) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.find(':') + 1))));
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&in), sizeof in) != 0)
      ADD_FAILURE() << "connect: " << std::strerror(errno);
  }
  ~Raw() { ::close(fd_); }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  void send(const std::string& bytes) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    static_cast<void>(n);  // the server may have closed already
  }
  void half_close() { ::shutdown(fd_, SHUT_WR); }
  std::string read(std::size_t size) {
    std::string bytes;
    char c;
    while (bytes.size() < size && next(&c)) bytes.push_back(c);
    return bytes;
  }
  // What comes until the server closes the connection.
  std::string read_to_end() {
    std::string bytes;
    char c;
    while (next(&c)) bytes.push_back(c);
    return bytes;
  }
  bool closed_now() {
    char c;
    const ssize_t n = ::recv(fd_, &c, 1, MSG_DONTWAIT | MSG_PEEK);
    return n == 0 || (n < 0 && errno != EAGAIN);
  }

 private:
  bool next(char* c) {
    pollfd p{fd_, POLLIN, 0};
    if (::poll(&p, 1, patience_ms) != 1) {
      ADD_FAILURE() << "the server neither answers nor closes";
      return false;
    }
    return ::recv(fd_, c, 1, 0) == 1;
  }
  const int fd_;
};

std::string number(std::uint32_t v) {
  std::string s(4, '\0');
  for (std::size_t i = 0; i < 4; ++i) s[i] = static_cast<char>(v >> (8 * i));
  return s;
}
std::string frame(const std::string& payload) {
  return number(static_cast<std::uint32_t>(payload.size())) + payload;
}
std::string token(const std::string& text) { return text + std::string(64 - text.size(), '\0'); }
std::string hello(std::uint32_t rank, std::uint32_t size, std::uint32_t version = 1) {
  return frame("\x01" + number(version) + number(rank) + number(size));
}

class Attack : public testing::Test {
 protected:
  void start(StoreOptions options = test::store_options(2)) {
    options_ = options;
    store_ = Store::connect(options);
    options_.address = store_->address();
  }
  // A rank comes, works and goes while all that is there is there.
  void expect_serving() {
    StoreOptions o = options_;
    o.rank = 1;
    const auto rank_1 = Store::connect(o);
    const std::int64_t n = store_->add("n", 1);
    EXPECT_EQ(rank_1->get("n"), std::to_string(n));
  }
  std::unique_ptr<Raw> connect() { return std::make_unique<Raw>(options_.address); }
  std::unique_ptr<Raw> let_in(std::uint32_t rank = 1) {
    auto raw = connect();
    raw->send(token(options_.token));
    EXPECT_EQ(raw->read(8), "SHOALYES");
    raw->send(hello(rank, 2));
    EXPECT_EQ(raw->read(5), number(1) + "\x01");
    return raw;
  }
  // The frame with which a request is refused.
  void expect_refused(Raw& raw, const std::string& why) {
    const std::string answer = raw.read_to_end();
    ASSERT_GT(answer.size(), 9u);
    EXPECT_EQ(answer[4], 4);
    EXPECT_NE(answer.find(why), std::string::npos) << answer;
  }
  StoreOptions options_;
  std::shared_ptr<Store> store_;
};

TEST_F(Attack, AWrongTokenIsTurnedAway) {
  start();
  for (const std::string& wrong :
       {token("0123456789abcdeX"), token(""), token("1123456789abcdef"), std::string(64, '\xff')}) {
    auto raw = connect();
    raw->send(wrong);
    EXPECT_EQ(raw->read_to_end(), "SHOALNOT");
  }
  expect_serving();
}

TEST_F(Attack, NothingIsReadBeforeTheToken) {
  start();
  auto raw = connect();
  raw->send(hello(1, 2) + std::string(100, 'x'));  // a perfect first frame, where the token belongs
  const std::string answer = raw->read_to_end();
  EXPECT_TRUE(answer == "SHOALNOT" || answer.empty()) << answer;
  expect_serving();
}

TEST_F(Attack, Garbage) {
  start();
  const auto seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 100; ++i) {
    std::string bytes(random() % 2000, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    auto raw = connect();
    if (i % 2) raw->send(token(options_.token));  // also from one who has the token
    if (i % 4 == 3) raw->send(hello(9, 2));
    raw->send(bytes);
  }
  auto http = connect();
  http->send(
      "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: something that is longer than a token\r\n\r\n");
  const std::string answer = http->read_to_end();
  EXPECT_TRUE(answer == "SHOALNOT" || answer.empty()) << answer;
  expect_serving();
}

TEST_F(Attack, OversizedFrames) {
  start();
  auto raw = connect();
  raw->send(token(options_.token));
  EXPECT_EQ(raw->read(8), "SHOALYES");
  raw->send(number(0xffffffff));
  expect_refused(*raw, "a frame of 4294967295 bytes; at most 1048576 are accepted");
  raw = let_in();
  raw->send(number((1 << 20) + 1));
  expect_refused(*raw, "a frame of 1048577 bytes");
  expect_serving();
}

TEST_F(Attack, LengthsInsideAFrameAreChecked) {
  start();
  for (const auto& [payload, why] : std::vector<std::pair<std::string, std::string>>{
           {"", "it ends 1 bytes too early"},
           {"\x02" + number(0xffffffff), "a text of 4294967295 bytes in 0 that are left"},
           {"\x02" + number(1) + "k" + number(5) + "1234", "a text of 5 bytes in 4"},
           {"\x02" + number(1) + "k" + number(1) + "1" + "more", "4 bytes after its end"},
           {"\x03" + std::string(8, '\0') + number(0x7fffffff), "2147483647 entries in 0 bytes"},
           {"\x05" + number(0) + "1234", "it ends 4 bytes too early"},
           {"\x63", "an operation of number 99"},
           {std::string(1, '\0'), "an operation of number 0"},
           {"\x01", "an operation of number 1"}}) {
    auto raw = let_in();
    raw->send(frame(payload));
    SCOPED_TRACE(why);
    expect_refused(*raw, why);
  }
  auto raw = let_in();  // the second is there before the first is answered
  raw->send(frame("\x03" + std::string(7, '\x11') + '\0' + number(1) + number(1) + "k") + frame("\x02"));
  expect_refused(*raw, "a frame before the last one was answered");
  expect_serving();
}

TEST_F(Attack, FirstFrames) {
  start();
  for (const auto& [first, why] : std::vector<std::pair<std::string, std::string>>{
           {hello(2, 2), "rank 2 of 2, but the store serves 2 ranks"},
           {hello(0xffffffff, 2), "rank -1 of 2"},
           {hello(0, 1), "rank 0 of 1"},
           {hello(1, 2, 7), "protocol version 7, but the server has 1"},
           {frame("\x02" + number(0) + number(0)), "does not say who it is from"}}) {
    auto raw = connect();
    raw->send(token(options_.token));
    EXPECT_EQ(raw->read(8), "SHOALYES");
    raw->send(first);
    expect_refused(*raw, why);
  }
  expect_serving();
}

// Connections that say nothing, a byte at a time, or half of what they should, are closed by the deadline of the
// handshake; ranks work meanwhile.
TEST_F(Attack, SlowAndSilentOnes) {
  StoreOptions options = test::store_options(2);
  options.limits.handshake = Store::Seconds(0.5);
  start(options);
  auto silent = connect(), slow = connect(), half = connect(), late = connect();
  late->send(token(options_.token));
  EXPECT_EQ(late->read(8), "SHOALYES");
  late->send("\x0d");  // a quarter of the first frame's length
  half->send("0123");
  half->half_close();
  EXPECT_EQ(half->read_to_end(), "");  // at once
  expect_serving();
  for (int i = 0; i < 40 && !slow->closed_now(); ++i) {
    slow->send("0");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_TRUE(slow->closed_now());  // before the 64th byte
  EXPECT_EQ(silent->read_to_end(), "");
  EXPECT_EQ(late->read_to_end(), "");
  expect_serving();
}

// More strangers than may wait: the oldest one goes, and a rank always finds room.
TEST_F(Attack, ManyConnections) {
  StoreOptions options = test::store_options(2);
  options.limits.handshake = Store::Seconds(1000);
  options.limits.pending = 8;
  options.limits.per_rank = 2;
  start(options);
  std::vector<std::unique_ptr<Raw>> strangers;
  for (int i = 0; i < 40; ++i) strangers.push_back(connect());
  for (int i = 0; i < 32; ++i) EXPECT_EQ(strangers[static_cast<std::size_t>(i)]->read_to_end(), "");
  EXPECT_FALSE(strangers.back()->closed_now());
  expect_serving();
  auto first = let_in(), second = let_in();
  auto third = connect();
  third->send(token(options_.token));
  EXPECT_EQ(third->read(8), "SHOALYES");
  third->send(hello(1, 2));
  expect_refused(*third, "rank 1 has 2 connections already");
  store_->set("still", "served");
  EXPECT_EQ(store_->get("still"), "served");
}

// One that asks for much and reads nothing.
// Without a token the server looks who is at the other end, which takes time; strangers who come and go cost none.
TEST(Churn, DoesNotKeepRanksFromMeeting) {
  StoreOptions options = test::store_options(3);
  options.token = "";
  options.timeout = Store::Seconds(20);
  const auto first = Store::connect(options);
  options.address = first->address();
  std::atomic<bool> stop{false};
  std::thread stranger([&] {
    for (int n = 0; !stop && n < 20000; ++n) Raw(first->address()).send("GET / HTTP/1.1\r\n\r\n");
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  std::vector<std::thread> ranks;
  for (int r = 1; r < 3; ++r)
    ranks.emplace_back([&options, r] {
      StoreOptions mine = options;
      mine.rank = r;
      EXPECT_EQ(Store::connect(mine)->all_gather("who", std::to_string(r)).size(), 3u);
    });
  EXPECT_EQ(first->all_gather("who", "0"), (std::vector<std::string>{"0", "1", "2"}));
  for (std::thread& t : ranks) t.join();
  stop = true;
  stranger.join();
}

TEST_F(Attack, OneThatDoesNotRead) {
  start();
  const std::string large(1 << 19, 'x');
  for (int i = 0; i < 32; ++i) store_->set(std::to_string(i), large);
  std::string ask = "\x03" + std::string(8, '\0') + number(32);
  for (int i = 0; i < 32; ++i)
    ask += number(static_cast<std::uint32_t>(std::to_string(i).size())) + std::to_string(i);
  auto raw = let_in();
  raw->send(frame(ask));
  expect_serving();
  EXPECT_EQ(raw->read(4), number(1 + 32 * (4 + (1 << 19))));
}

// Another program has the port: the rank says so, and does not wait for ever.
TEST_F(Attack, WhatIsNoStoreIsNamed) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof in;
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&in), size), 0);
  ASSERT_EQ(::listen(listener, 10), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&in), &size), 0);
  StoreOptions o = test::store_options(2, fmt::format("127.0.0.1:{}", ntohs(in.sin_port)));
  o.rank = 1;
  o.timeout = Store::Seconds(0.3);
  EXPECT_MESSAGE(Store::connect(o), TimeoutError, "the store's server does not answer");  // it never accepts
  std::thread other([listener] {
    const int fd = ::accept(listener, nullptr, nullptr);  // the one that gave up
    ::close(fd);
    const int next = ::accept(listener, nullptr, nullptr);
    const ssize_t n = ::send(next, "HTTP/1.1 400 Bad Request\r\n", 26, MSG_NOSIGNAL);
    EXPECT_EQ(n, 26);
    char c;
    while (::recv(next, &c, 1, 0) == 1) {
    }
    ::close(next);
  });
  o.timeout = Store::Seconds(20);
  EXPECT_MESSAGE(Store::connect(o), ConfigError, "is no store of Shoal");
  other.join();
  ::close(listener);
}

}  // namespace
}  // namespace shoal
