// SPDX-License-Identifier: Apache-2.0
//
// Values created once per key by the first caller and shared with all callers that request the key
// while the value is alive. Creation runs without the lock: callers with the same key wait for it,
// others do not. Thread safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ashlar/status.h"
#include "base/mutex.h"

namespace ashlar {

template <typename Value>
class SharedTable {
 public:
  // Owned by the callers; the table has only a weak reference.
  using Shared = std::shared_ptr<Value>;

  // If creation fails, each waiting caller tries again itself.
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
    Result<Shared> created = Status::invalid_argument("not created yet");
    {
      MutexUnlock unlocked(mutex_);
      created = create();
    }
    if (created.ok()) {
      slots_[key] = {false, *created};
    } else {
      slots_.erase(key);
    }
    changed_.notify_all();
    return created;
  }

  // The values alive now.
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

  // Amortized: each insertion pays a constant share of the sweep.
  void erase_expired() ASHLAR_REQUIRES(mutex_) {
    if (slots_.size() < sweep_at_) return;
    std::erase_if(slots_, [](const auto& entry) {
      return !entry.second.is_being_created && entry.second.value.expired();
    });
    sweep_at_ = 2 * slots_.size() + 64;
  }

  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Slot> slots_ ASHLAR_GUARDED_BY(mutex_);
  size_t sweep_at_ ASHLAR_GUARDED_BY(mutex_) = 64;  // size that triggers the next sweep
};

}  // namespace ashlar
