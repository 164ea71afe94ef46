// SPDX-License-Identifier: Apache-2.0
//
// A store that forwards to another store, for tests that intercept calls.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ashlar/store.h"

namespace ashlar::symm {

class ForwardingStore : public Store {
 public:
  explicit ForwardingStore(std::shared_ptr<Store> store) : store_(std::move(store)) {}

  Status set(std::string_view key, std::string_view value, std::chrono::milliseconds time_to_live,
             Deadline deadline) override {
    return store_->set(key, value, time_to_live, deadline);
  }
  Result<std::vector<std::optional<std::string>>> try_get(std::span<const std::string> keys,
                                                          Deadline deadline) override {
    return store_->try_get(keys, deadline);
  }
  Result<int64_t> add(std::string_view key, int64_t amount, std::chrono::milliseconds time_to_live,
                      Deadline deadline) override {
    return store_->add(key, amount, time_to_live, deadline);
  }
  Result<bool> erase(std::string_view key, Deadline deadline) override {
    return store_->erase(key, deadline);
  }

 private:
  const std::shared_ptr<Store> store_;  // also owned by the test
};

}  // namespace ashlar::symm
