// SPDX-License-Identifier: Apache-2.0
//
// A Store whose operations are functions of a C program. Thread safe.
#pragma once

#include <condition_variable>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/c/symm.h"
#include "ashlar/store.h"
#include "base/mutex.h"

namespace ashlar::c_api {

class CallbackStore final : public symm::Store {
 public:
  // REQUIRES: all functions are set.
  explicit CallbackStore(const ashlar_symm_store_functions& functions) : functions_(functions) {}

  Status set(std::string_view key, std::string_view value, std::chrono::milliseconds time_to_live,
             Deadline deadline) override;
  Result<std::vector<std::optional<std::string>>> try_get(std::span<const std::string> keys,
                                                          Deadline deadline) override;
  Result<int64_t> add(std::string_view key, int64_t amount, std::chrono::milliseconds time_to_live,
                      Deadline deadline) override;
  Result<bool> erase(std::string_view key, Deadline deadline) override;

  // Waits for the calls in progress. Later operations fail without a call.
  void close();

 private:
  class Call;

  // Calls `function` unless the store is closed. Converts its status.
  template <typename Function>
  Status call(const char* operation, std::string_view key, const Function& function);

  const ashlar_symm_store_functions functions_;

  Mutex mutex_;
  std::condition_variable call_ended_;
  int call_count_ ASHLAR_GUARDED_BY(mutex_) = 0;  // calls in progress
  bool is_closed_ ASHLAR_GUARDED_BY(mutex_) = false;
};

}  // namespace ashlar::c_api
