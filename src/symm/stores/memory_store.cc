// SPDX-License-Identifier: Apache-2.0
//
// `make_memory_store`: a table guarded by a mutex, for ranks that are threads of one process.
#include <condition_variable>

#include "ashlar/store.h"
#include "base/fork_guard.h"
#include "base/mutex.h"
#include "symm/stores/entry_table.h"

namespace ashlar::symm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

class MemoryStore final : public Store {
 public:
  Status set(std::string_view key, std::string_view value, milliseconds time_to_live,
             Deadline /*deadline*/) override ASHLAR_EXCLUDES(mutex_) {
    if (Status own = check_process(); !own.ok()) return own;
    if (Status good = check_key(key); !good.ok()) return good;
    if (Status good = check_value(value); !good.ok()) return good;
    MutexLock lock(mutex_);
    Status stored = entries_.put(key, std::string(value), time_to_live, Clock::now());
    changed_.notify_all();
    return stored;
  }

  Result<std::vector<std::optional<std::string>>> try_get(std::span<const std::string> keys,
                                                          Deadline /*deadline*/) override
      ASHLAR_EXCLUDES(mutex_) {
    if (Status own = check_process(); !own.ok()) return own;
    std::vector<std::optional<std::string>> found;
    MutexLock lock(mutex_);
    for (const std::string& key : keys) {
      if (Status good = check_key(key); !good.ok()) return good;
      const std::string* value = entries_.find(key, Clock::now());
      found.push_back(value == nullptr ? std::optional<std::string>() : *value);
    }
    return found;
  }

  Result<int64_t> add(std::string_view key, int64_t amount, milliseconds time_to_live,
                      Deadline /*deadline*/) override ASHLAR_EXCLUDES(mutex_) {
    if (Status own = check_process(); !own.ok()) return own;
    if (Status good = check_key(key); !good.ok()) return good;
    MutexLock lock(mutex_);
    Result<int64_t> sum = entries_.add(key, amount, time_to_live, Clock::now());
    changed_.notify_all();
    return sum;
  }

  Result<bool> erase(std::string_view key, Deadline /*deadline*/) override ASHLAR_EXCLUDES(mutex_) {
    if (Status own = check_process(); !own.ok()) return own;
    if (Status good = check_key(key); !good.ok()) return good;
    MutexLock lock(mutex_);
    return entries_.erase(key, Clock::now());
  }

 protected:
  void wait_for_change(std::chrono::nanoseconds max_wait) override ASHLAR_EXCLUDES(mutex_) {
    if (!fork_guard_.in_creating_process()) return;  // the next try_get fails
    MutexLock lock(mutex_);
    lock.wait_until(changed_, Clock::now() + max_wait);
  }

 private:
  // In a forked child, the lock may be held by a thread of the parent.
  Status check_process() const { return fork_guard_.check_not_forked("the store"); }

  const ForkGuard fork_guard_;
  Mutex mutex_;
  std::condition_variable changed_;
  EntryTable entries_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<Store> make_memory_store() { return make_fork_guarded<MemoryStore>(); }

}  // namespace ashlar::symm
