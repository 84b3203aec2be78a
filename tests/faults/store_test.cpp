// The Store between ranks that behave, and what it says when one does not come or is lost.
#include "shoal/comm/store.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>

#include "shoal/comm/bootstrap.hpp"
#include "shoal/core/error.hpp"
#include "support/expect_message.hpp"
#include "support/store.hpp"
#include "support/temp_dir.hpp"

namespace shoal {
namespace {

using test::run_store;
using test::store_options;
using Seconds = Store::Seconds;

TEST(Store, ValuesAreBytes) {
  const std::string bytes("a\0b\xff\n", 5);
  run_store(store_options(2), [&](Store& s) {
    if (s.rank() == 1) s.set("key", bytes);
    EXPECT_EQ(s.get("key"), bytes);  // rank 0 waits for it
    s.set("", "an empty key");
    EXPECT_EQ(s.get(""), "an empty key");
    s.set("empty", "");
    EXPECT_EQ(s.get("empty"), "");
  });
}

TEST(Store, Operations) {
  run_store(store_options(1), [](Store& s) {
    EXPECT_EQ(s.add("n", 5), 5);
    EXPECT_EQ(s.add("n", -7), -2);
    EXPECT_EQ(s.get("n"), "-2");
    EXPECT_TRUE(s.erase("n"));
    EXPECT_FALSE(s.erase("n"));
    EXPECT_EQ(s.add("n", 1), 1);
    s.set("text", "five");
    EXPECT_MESSAGE(s.add("text", 1), ConfigError,
                   "add text: refused: add to text: its value of 4 bytes is no whole number");
    s.set("most", "9223372036854775807");
    EXPECT_MESSAGE(s.add("most", 1), ConfigError, "does not fit 64 bits");

    EXPECT_FALSE(s.compare_set("c", "x", "y"));
    EXPECT_TRUE(s.compare_set("c", {}, "x"));
    EXPECT_FALSE(s.compare_set("c", {}, "z"));
    EXPECT_FALSE(s.compare_set("c", "z", "y"));
    EXPECT_TRUE(s.compare_set("c", "x", "y"));
    EXPECT_EQ(s.get("c"), "y");

    s.set("a", "1");
    EXPECT_EQ(s.get({"a", "c", "a"}), (std::vector<std::string>{"1", "y", "1"}));
    EXPECT_EQ(s.get(std::vector<std::string>{}), std::vector<std::string>{});
    s.wait({"a", "c"});
    EXPECT_MESSAGE(s.wait({"a", "b", "c", "d"}, Seconds(0.05)), TimeoutError,
                   "wait a, b, c, d: b, d not set within 0.05 s");
    EXPECT_MESSAGE(s.get("e", Seconds(0)), TimeoutError, "rank 0 of 1: store at 127.0.0.1:");
  });
}

TEST(Store, CountersOfManyRanks) {
  std::atomic<int> last{0};
  run_store(store_options(6), [&](Store& s) {
    for (int i = 0; i < 50; ++i)
      if (s.add("n", 1) == 300) ++last;
  });
  EXPECT_EQ(last, 1);
}

TEST(Store, AllGather) {
  for (const int n : {1, 2, 3, 8})
    run_store(store_options(n), [n](Store& s) {
      for (int round = 0; round < 20; ++round) {  // one name, again and again
        const auto all = s.all_gather("names", fmt::format("{} of round {}", s.rank(), round));
        ASSERT_EQ(all.size(), static_cast<std::size_t>(n));
        for (int r = 0; r < n; ++r)
          EXPECT_EQ(all[static_cast<std::size_t>(r)], fmt::format("{} of round {}", r, round));
      }
    });
}

// Values that fill the buffers of a socket many times over.
TEST(Store, LargeValues) {
  run_store(store_options(4), [](Store& s) {
    const std::string mine(1000000, static_cast<char>('a' + s.rank()));
    const auto all = s.all_gather("large", mine);
    for (std::size_t r = 0; r < 4; ++r) EXPECT_EQ(all[r], std::string(1000000, static_cast<char>('a' + r)));
    EXPECT_MESSAGE(s.set("k", std::string((1 << 20) + 1, 'x')), ConfigError, "at most 1048576 are accepted");
    if (s.rank() == 0) {
      StoreOptions o = store_options(1);
      o.limits.stored = 1000;
      const auto small = Store::connect(o);
      small->set("a", std::string(600, 'x'));
      small->set("a", std::string(700, 'x'));  // replaces
      EXPECT_MESSAGE(small->set("b", std::string(400, 'x')), ConfigError, "holds at most 1000");
      small->erase("a");
      small->set("b", std::string(400, 'x'));
    }
  });
}

TEST(Store, AWaitOfOneThreadDelaysNoOther) {
  run_store(store_options(1), [](Store& s) {
    std::thread waits([&] { EXPECT_EQ(s.get("late"), "came"); });
    s.set("late", "came");
    waits.join();
    for (int i = 0; i < 5; ++i) {
      std::vector<std::thread> many;
      for (int t = 0; t < 4; ++t) many.emplace_back([&] { s.wait({"go" + std::to_string(i)}); });
      s.set("go" + std::to_string(i), "");
      for (std::thread& t : many) t.join();
    }
  });
}

TEST(Store, AddressesAreTriedInTurn) {
  run_store(store_options(3, "[::1]:0"), [](Store& s) {
    EXPECT_EQ(s.address().rfind("[::1]:", 0), 0u);
    s.all_gather("x", "");
  });
  run_store(store_options(3, "localhost:0"), [](Store& s) { s.all_gather("x", ""); });
  run_store(store_options(3, "unix:@shoal-test-" + make_store_token()),
            [](Store& s) { s.all_gather("x", ""); });
}

TEST(Store, WhoComesFirstWaitsForTheServer) {
  StoreOptions options = store_options(2);
  {
    const auto free = Store::connect(options);
    options.address = free->address();
  }
  std::thread early([options]() mutable {
    options.rank = 1;
    EXPECT_EQ(Store::connect(options)->get("hello"), "there");
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto first = Store::connect(options);
  first->set("hello", "there");
  early.join();
}

TEST(Store, RanksThatDoNotComeAreNamed) {
  run_store(store_options(3), [](Store& s) {
    if (s.rank() == 1) {
      s.wait({"over"});
    } else {
      EXPECT_MESSAGE(s.all_gather("start", "", Seconds(0.2)), TimeoutError,
                     "all_gather start: rank 1 has not arrived within 0.2 s");
      if (s.add("n", 1) == 2) s.set("over", "");
    }
  });
  StoreOptions o = store_options(2, "127.0.0.1:1");
  o.rank = 1;
  o.timeout = Seconds(0.2);
  EXPECT_MESSAGE(Store::connect(o), TimeoutError,
                 "rank 1 of 2: store at 127.0.0.1:1: nobody serves the store at 127.0.0.1:1 (127.0.0.1: "
                 "Connection refused); waited 0.2 s");
}

TEST(Store, AFailureReachesAllRanks) {
  run_store(store_options(4), [](Store& s) {
    if (s.rank() == 2) {
      EXPECT_TRUE(s.fail("rank 2: loss is NaN"));
      EXPECT_FALSE(s.fail("again"));
    } else {
      EXPECT_MESSAGE(s.get("never"), CommError, "get never: rank 2: loss is NaN");
      EXPECT_MESSAGE(s.set("a", ""), CommError, "rank 2: loss is NaN");
    }
  });
}

TEST(Store, ARankThatIsKilledIsNoticedAtOnce) {
  const auto store = Store::connect(store_options(2));
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    StoreOptions o = store_options(2, store->address());
    o.rank = 1;
    const auto mine = Store::connect(o);
    mine->set("child", "is there");
    ::pause();
    ::_exit(0);
  }
  EXPECT_EQ(store->get("child"), "is there");
  ::kill(child, SIGKILL);
  EXPECT_MESSAGE(store->get("never"), CommError, "rank 1 was lost");
  ::waitpid(child, nullptr, 0);
}

TEST(Store, AServerThatIsGoneIsNamed) {
  auto first = Store::connect(store_options(2));
  StoreOptions o = store_options(2, first->address());
  o.rank = 1;
  const auto second = Store::connect(o);
  second->set("a", "");
  first.reset();
  EXPECT_MESSAGE(second->get("b"), CommError,
                 "rank 1 of 2: store at " + o.address + ": get b: the connection to its");
}

TEST(Store, TheServerAnswersBeforeItGoes) {
  for (int i = 0; i < 20; ++i) run_store(store_options(4), [](Store& s) { s.all_gather("last", "x"); });
}

TEST(Store, Refusals) {
  const auto store = Store::connect(store_options(2));
  StoreOptions o = store_options(3, store->address());
  o.rank = 2;
  EXPECT_MESSAGE(Store::connect(o), ConfigError,
                 "refused this rank: rank 2 of 3, but the store serves 2 ranks");
  o = store_options(2, store->address());
  EXPECT_MESSAGE(Store::connect(o), ConfigError, "another program (or another job) has the port");
  o.rank = 1;
  o.token = "0123456789abcdeF";
  EXPECT_MESSAGE(Store::connect(o), ConfigError, "refused the token of this rank: SHOAL_TOKEN");
  o.token = "";
  EXPECT_MESSAGE(Store::connect(o), ConfigError, "refused the token");
  o.token = "short";
  EXPECT_MESSAGE(Store::connect(o), ConfigError, "a token of 5 bytes: expected 16 to 64");
  o = store_options(1, "0.0.0.0:0");
  EXPECT_MESSAGE(Store::connect(o), ConfigError, "0.0.0.0:0 means every address of this host");
  o.address = "[::]:0";
  EXPECT_MESSAGE(Store::connect(o), ConfigError, "means every address");
  o.address = "192.0.2.1:29500";  // of the documentation's network: nobody's
  EXPECT_MESSAGE(Store::connect(o), ConfigError, "it must run on the host of that address");
  o.token = "";
  EXPECT_MESSAGE(Store::connect(o), ConfigError,
                 "can be reached from other hosts, so the job needs a secret: set SHOAL_TOKEN");
  o.rank = 1;
  o.size = 2;
  EXPECT_MESSAGE(Store::connect(o), ConfigError, "set SHOAL_TOKEN");
  for (const char* address :
       {"host", "host:", "host:x", "host:65536", "::1:5", ":5", "unix:name", "unix:@"}) {
    o.address = address;
    EXPECT_MESSAGE(Store::connect(o), ConfigError, std::string("store address ") + address);
  }
}

TEST(Store, WithoutATokenOnLoopback) {
  StoreOptions options = store_options(3, "localhost:0");
  options.token = "";
  run_store(options, [](Store& s) { EXPECT_EQ(s.all_gather("x", "y").size(), 3u); });
}

#ifndef SHOAL_SANITIZED  // they want to write reports as the first user
TEST(Store, WithoutATokenOtherUsersAreTurnedAway) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  StoreOptions options = store_options(2);
  options.token = "";
  const auto store = Store::connect(options);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setuid(65534) != 0) ::_exit(9);
    options.address = store->address();
    options.rank = 1;
    options.timeout = Seconds(0.5);
    try {
      Store::connect(options);
      ::_exit(1);
    } catch (const TimeoutError& e) {
      ::_exit(std::string(e.what()).find("closes the connection without an answer") == std::string::npos ? 2
                                                                                                         : 0);
    } catch (...) {
      ::_exit(3);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  store->set("still", "there");
}
#endif

// Launch variables and the token's, as the test says, until its end.
class StoreEnvironment : public testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name : {"MASTER_ADDR", "MASTER_PORT", "SHOAL_STORE", "SHOAL_TOKEN", "SHOAL_TOKEN_FILE"})
      ::unsetenv(name);
  }
  static StoreOptions options() {
    LaunchInfo launch;
    launch.rank = 1;
    launch.world_size = 2;
    return shoal::store_options(launch, Seconds(5));
  }
};

TEST_F(StoreEnvironment, WhatIsMissingIsNamed) {
  EXPECT_MESSAGE(options(), ConfigError, "MASTER_ADDR and MASTER_PORT are missing");
  ::setenv("MASTER_ADDR", "localhost", 1);
  EXPECT_MESSAGE(options(), ConfigError, "MASTER_PORT is missing");
  ::setenv("MASTER_PORT", "29500", 1);
  EXPECT_EQ(options().address, "localhost:29500");
  EXPECT_TRUE(options().serve);
  ::setenv("MASTER_ADDR", "fe80::1", 1);
  EXPECT_EQ(options().address, "[fe80::1]:29500");
  ::setenv("MASTER_PORT", "70000", 1);
  EXPECT_MESSAGE(options(), ConfigError, "MASTER_PORT=70000: expected 1 to 65535");
  ::unsetenv("MASTER_ADDR");
  EXPECT_MESSAGE(options(), ConfigError, "MASTER_ADDR is missing");
  ::setenv("SHOAL_STORE", "unix:@x", 1);
  EXPECT_EQ(options().address, "unix:@x");
  EXPECT_FALSE(options().serve);
}

TEST_F(StoreEnvironment, Tokens) {
  EXPECT_EQ(store_token(), "");
  ::setenv("SHOAL_TOKEN", "fifteen letters", 1);
  EXPECT_MESSAGE(store_token(), ConfigError, "SHOAL_TOKEN: a token of 15 bytes: expected 16 to 64");
  const std::string made = make_store_token();
  EXPECT_EQ(made.size(), 32u);
  EXPECT_NE(made, make_store_token());
  ::setenv("SHOAL_TOKEN", made.c_str(), 1);
  EXPECT_EQ(store_token(), made);
  const test::TempDir dir;
  const std::string file = dir.write("token", made + "\n");
  ::setenv("SHOAL_TOKEN_FILE", file.c_str(), 1);
  EXPECT_MESSAGE(store_token(), ConfigError, "SHOAL_TOKEN and SHOAL_TOKEN_FILE are both set");
  ::unsetenv("SHOAL_TOKEN");
  ::chmod(file.c_str(), 0640);
  EXPECT_MESSAGE(store_token(), ConfigError,
                 "its mode is 0640, so others may read or change it: chmod 600 it");
  ::chmod(file.c_str(), 0600);
  EXPECT_EQ(store_token(), made);
  dir.write("token", std::string(65, 'x'));
  EXPECT_MESSAGE(store_token(), ConfigError, "expected 16 to 64");
  dir.write("token", "\n");
  EXPECT_MESSAGE(store_token(), ConfigError, "is empty");
  ::setenv("SHOAL_TOKEN_FILE", dir.path().c_str(), 1);
  EXPECT_MESSAGE(store_token(), ConfigError, "is no regular file");
  ::setenv("SHOAL_TOKEN_FILE", (dir / "none").c_str(), 1);
  EXPECT_MESSAGE(store_token(), ConfigError, "No such file");
}

}  // namespace
}  // namespace shoal
