// A rendezvous over the Store.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/rendezvous.hpp"
#include "shoal/comm/store.hpp"

namespace shoal::comm::store {

class StoreRendezvous final : public Rendezvous {
 public:
  // `name` tells apart the rendezvous of one Store.
  StoreRendezvous(std::shared_ptr<Store> store, std::string name)
      : Rendezvous(store->rank(), store->size()), store_(std::move(store)), name_(std::move(name)) {}

  std::vector<std::string> all_gather(const std::string& mine) override {
    return store_->all_gather("shoal/" + name_, mine);
  }

 private:
  std::shared_ptr<Store> store_;
  std::string name_;
};

}  // namespace shoal::comm::store
