// SPDX-License-Identifier: Apache-2.0
//
// A user-defined store into which tests inject faults.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ashlar/store.h"

namespace ashlar::symm {

class UserStore final : public Store {
 public:
  using Responses = std::vector<std::optional<std::string>>;

  // Hooks; an empty function has no effect. try_get() calls `before_read` first and lets
  // `change_responses` modify its result.
  std::function<void(Store&)> before_read{};
  std::function<void(Responses&)> change_responses{};
  std::function<bool(std::string_view)> rejects_key{};  // whether set() and add() of the key fail
  // Whether the response to add() of the key is lost. The call takes effect.
  std::function<bool(std::string_view)> loses_response{};
  // set() and try_get() time out if their deadline is nearer than this.
  std::chrono::milliseconds response_time{0};

  // Returns a store whose responses have one value too few.
  static std::shared_ptr<UserStore> with_short_responses() {
    auto store = std::make_shared<UserStore>();
    store->change_responses = [](Responses& responses) { responses.pop_back(); };
    return store;
  }

  Store& memory() { return *memory_; }

  Status set(std::string_view key, std::string_view value, std::chrono::milliseconds time_to_live,
             Deadline deadline) override {
    if (deadline.left() < response_time) return Status::timeout("no response");
    if (rejects_key && rejects_key(key)) return Status::timeout("no response");
    return memory_->set(key, value, time_to_live, deadline);
  }
  Result<Responses> try_get(std::span<const std::string> keys, Deadline deadline) override {
    if (deadline.left() < response_time) return Status::timeout("no response");
    if (before_read) before_read(*memory_);
    Result<Responses> found = memory_->try_get(keys, deadline);
    if (found.ok() && change_responses) change_responses(*found);
    return found;
  }
  Result<int64_t> add(std::string_view key, int64_t amount, std::chrono::milliseconds time_to_live,
                      Deadline deadline) override {
    if (rejects_key && rejects_key(key)) return Status::timeout("no response");
    Result<int64_t> sum = memory_->add(key, amount, time_to_live, deadline);
    if (loses_response && loses_response(key)) return Status::timeout("no response");
    return sum;
  }
  Result<bool> erase(std::string_view key, Deadline deadline) override {
    return memory_->erase(key, deadline);
  }

 private:
  const std::shared_ptr<Store> memory_ = make_memory_store();  // has no second owner
};

}  // namespace ashlar::symm
