// SPDX-License-Identifier: Apache-2.0
//
// `make_memory_store`: a map guarded by a mutex, for ranks that are threads of one process.
#include <condition_variable>
#include <map>

#include "ashlar/store.h"
#include "base/mutex.h"
#include "symm/stores/store_entry.h"

namespace ashlar::symm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Expired entries are removed once per this many writes.
constexpr uint64_t kMemoryWritesBetweenSweeps = 256;

class MemoryStore final : public Store {
 public:
  Status set(std::string_view key, std::string_view value, milliseconds time_to_live,
             Deadline /*deadline*/) override ASHLAR_EXCLUDES(mutex_) {
    if (Status good = check_key(key); !good.ok()) return good;
    if (Status good = check_value(value); !good.ok()) return good;
    MutexLock lock(mutex_);
    put_locked(key, std::string(value), time_to_live);
    return {};
  }

  Result<std::vector<std::optional<std::string>>> try_get(std::span<const std::string> keys,
                                                          Deadline /*deadline*/) override
      ASHLAR_EXCLUDES(mutex_) {
    std::vector<std::optional<std::string>> found;
    MutexLock lock(mutex_);
    for (const std::string& key : keys) {
      if (Status good = check_key(key); !good.ok()) return good;
      const Entry* entry = find_locked(key);
      found.push_back(entry == nullptr ? std::optional<std::string>() : entry->value);
    }
    return found;
  }

  Result<int64_t> add(std::string_view key, int64_t amount, milliseconds time_to_live,
                      Deadline /*deadline*/) override ASHLAR_EXCLUDES(mutex_) {
    if (Status good = check_key(key); !good.ok()) return good;
    MutexLock lock(mutex_);
    const Entry* entry = find_locked(key);
    const Result<int64_t> sum =
        add_to_counter_text(key, entry == nullptr ? std::string_view("0") : entry->value, amount);
    if (sum.ok()) put_locked(key, text(*sum), time_to_live);
    return sum;
  }

  Result<bool> erase(std::string_view key, Deadline /*deadline*/) override ASHLAR_EXCLUDES(mutex_) {
    if (Status good = check_key(key); !good.ok()) return good;
    MutexLock lock(mutex_);
    const bool existed = find_locked(key) != nullptr;
    if (const auto at = entries_.find(key); at != entries_.end()) entries_.erase(at);
    return existed;
  }

 protected:
  void wait_for_change(std::chrono::nanoseconds max_wait) override ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    lock.wait_until(changed_, Clock::now() + max_wait);
  }

 private:
  struct Entry {
    std::string value;
    std::optional<Clock::time_point> expiry;  // empty if the entry does not expire
  };

  static bool has_expired(const Entry& entry) {
    return entry.expiry && Clock::now() >= *entry.expiry;
  }

  const Entry* find_locked(std::string_view key) const ASHLAR_REQUIRES(mutex_) {
    const auto at = entries_.find(key);
    return at == entries_.end() || has_expired(at->second) ? nullptr : &at->second;
  }

  void put_locked(std::string_view key, std::string value, milliseconds time_to_live)
      ASHLAR_REQUIRES(mutex_) {
    Entry entry{std::move(value), {}};
    if (const auto lifetime = lifetime_of(time_to_live)) entry.expiry = Clock::now() + *lifetime;
    entries_.insert_or_assign(std::string(key), std::move(entry));
    if (++write_count_ % kMemoryWritesBetweenSweeps == 0) {
      std::erase_if(entries_, [](const auto& each) { return has_expired(each.second); });
    }
    changed_.notify_all();
  }

  Mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Entry, std::less<>> entries_ ASHLAR_GUARDED_BY(mutex_);
  uint64_t write_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::shared_ptr<Store> make_memory_store() { return std::make_shared<MemoryStore>(); }

}  // namespace ashlar::symm
