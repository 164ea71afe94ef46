// SPDX-License-Identifier: Apache-2.0
//
// A table of shared values. The first caller that requests a key creates the value, which is shared
// with all callers that request the key while the value is alive. Creation runs without the lock:
// callers with the same key wait for the creation, callers with other keys do not. Thread safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ashlar/status.h"
#include "base/host_memory.h"
#include "base/mutex.h"

namespace ashlar {

template <typename Value>
class SharedTable {
 public:
  // A value is owned by the callers; the table has only a weak reference.
  using Shared = std::shared_ptr<Value>;

  // Returns the live value of the key, or creates it if there is none. If creation fails or throws,
  // the waiting callers try in turn to create the value, until one of them succeeds.
  Result<Shared> find_or_create(const std::string& key,
                                const std::function<Result<Shared>()>& create) {
    MutexLock lock(mutex_);
    for (;;) {
      const auto found = slots_.find(key);
      if (found == slots_.end()) break;
      if (Shared value = found->second.value.lock()) return value;
      if (!found->second.is_being_created) break;
      lock.wait(changed_);
    }
    erase_expired();
    slots_[key] = {true, {}};
    // Runs with the lock held.
    ScopeGuard undo([&]() ASHLAR_REQUIRES(mutex_) {
      slots_.erase(slots_.find(key));
      changed_.notify_all();
    });
    Result<Shared> created = Status::invalid_argument("not created yet");
    {
      MutexUnlock unlocked(mutex_);
      created = create();
    }
    if (!created.ok()) return created;
    undo.dismiss();
    slots_.find(key)->second = {false, *created};
    changed_.notify_all();
    return created;
  }

  // Returns the values that are alive.
  std::vector<Shared> values() const {
    MutexLock lock(mutex_);
    std::vector<Shared> all;
    for (const auto& [key, slot] : slots_) {
      if (Shared value = slot.value.lock()) all.push_back(std::move(value));
    }
    return all;
  }

 private:
  struct Slot {
    bool is_being_created = false;
    std::weak_ptr<Value> value;
  };

  // Erases the slots of expired values, but only after the table has more than doubled since the
  // last sweep, so that the cost per insertion is constant on average.
  void erase_expired() ASHLAR_REQUIRES(mutex_) {
    if (slots_.size() < sweep_threshold_) return;
    std::erase_if(slots_, [](const auto& entry) {
      return !entry.second.is_being_created && entry.second.value.expired();
    });
    sweep_threshold_ = 2 * slots_.size() + 64;
  }

  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Slot> slots_ ASHLAR_GUARDED_BY(mutex_);
  size_t sweep_threshold_ ASHLAR_GUARDED_BY(mutex_) =
      64;  // table size at which the next insertion sweeps
};

}  // namespace ashlar
