// SPDX-License-Identifier: Apache-2.0
//
// A user-defined store with injected faults.
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
  using Answers = std::vector<std::optional<std::string>>;

  // Hooks; empty functions have no effect.
  std::function<void(Store&)> before_look{};
  std::function<void(Answers&)> change_answers{};
  std::function<bool(std::string_view)> refuses{};  // rejects writes to that key
  // Calls with less time left than this time out.
  std::chrono::milliseconds answering_time{0};

  // Returns one value too few.
  static std::shared_ptr<UserStore> that_answers_too_little() {
    auto store = std::make_shared<UserStore>();
    store->change_answers = [](Answers& answers) { answers.pop_back(); };
    return store;
  }

  Store& memory() { return *memory_; }

  Status set(std::string_view key, std::string_view value, std::chrono::milliseconds time_to_live,
             Deadline deadline) override {
    if (deadline.left() < answering_time) return Status::timeout("no answer");
    if (refuses && refuses(key)) return Status::timeout("no answer");
    return memory_->set(key, value, time_to_live, deadline);
  }
  Result<Answers> try_get(std::span<const std::string> keys, Deadline deadline) override {
    if (deadline.left() < answering_time) return Status::timeout("no answer");
    if (before_look) before_look(*memory_);
    Result<Answers> found = memory_->try_get(keys, deadline);
    if (found.ok() && change_answers) change_answers(*found);
    return found;
  }
  Result<int64_t> add(std::string_view key, int64_t amount, std::chrono::milliseconds time_to_live,
                      Deadline deadline) override {
    if (refuses && refuses(key)) return Status::timeout("no answer");
    return memory_->add(key, amount, time_to_live, deadline);
  }
  Result<bool> erase(std::string_view key, Deadline deadline) override {
    return memory_->erase(key, deadline);
  }

 private:
  const std::shared_ptr<Store> memory_ = make_memory_store();  // also owned by users
};

}  // namespace ashlar::symm
