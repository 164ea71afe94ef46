// SPDX-License-Identifier: Apache-2.0
//
// Things that are made once per key by whoever asks first, and are shared by all who ask while one
// of them still has it. Making runs without the lock: others who want the same thing wait for it,
// others who want another do not. Thread safe.
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
class OnceTable {
 public:
  // Owned by all who asked for it; the table itself only knows of it.
  using Shared = std::shared_ptr<Value>;

  // If making fails, everybody who waited tries for itself.
  Result<Shared> find_or_make(const std::string& key, const std::function<Result<Shared>()>& make) {
    MutexLock lock(mutex_);
    for (;;) {
      const auto found = slots_.find(key);
      if (found == slots_.end()) break;
      if (Shared value = found->second.value.lock()) return value;
      if (!found->second.is_being_made) break;
      lock.wait(changed_);
    }
    forget_expired();
    slots_[key] = {true, {}};
    Result<Shared> made = Status::invalid_argument("not made yet");
    {
      MutexUnlock unlocked(mutex_);
      made = make();
    }
    if (made.ok()) {
      slots_[key] = {false, *made};
    } else {
      slots_.erase(key);
    }
    changed_.notify_all();
    return made;
  }

  // What there is now.
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
    bool is_being_made = false;
    std::weak_ptr<Value> value;
  };

  // Now and then, so that each new thing pays for a constant share of it.
  void forget_expired() ASHLAR_REQUIRES(mutex_) {
    if (slots_.size() < sweep_at_) return;
    std::erase_if(slots_, [](const auto& entry) {
      return !entry.second.is_being_made && entry.second.value.expired();
    });
    sweep_at_ = 2 * slots_.size() + 64;
  }

  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Slot> slots_ ASHLAR_GUARDED_BY(mutex_);
  size_t sweep_at_ ASHLAR_GUARDED_BY(mutex_) = 64;  // how many there may be till then
};

}  // namespace ashlar
