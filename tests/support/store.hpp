// A Store on loopback whose ranks are threads of the test.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "shoal/comm/store.hpp"

namespace shoal::test {

inline StoreOptions store_options(int size, const std::string& address = "127.0.0.1:0") {
  StoreOptions o;
  o.address = address;
  o.size = size;
  o.timeout = Store::Seconds(20);
  o.token = "0123456789abcdef";
  return o;
}

// body(store) on every rank, each with a store of its own; rank 0 serves on a free port.
inline void run_store(StoreOptions options, const std::function<void(Store&)>& body) {
  options.rank = 0;
  std::shared_ptr<Store> first = Store::connect(options);
  options.address = first->address();
  std::vector<std::thread> others;
  const auto guarded = [&body](Store& store) {
    try {
      body(store);
    } catch (const std::exception& e) {
      ADD_FAILURE() << "rank " << store.rank() << ": " << e.what();
      store.fail(e.what());
    }
  };
  for (int r = 1; r < options.size; ++r)
    others.emplace_back([options, r, &guarded]() mutable {
      options.rank = r;
      guarded(*Store::connect(options));
    });
  guarded(*first);
  for (std::thread& t : others) t.join();
}

}  // namespace shoal::test
