// SPDX-License-Identifier: Apache-2.0
//
// The entries of a store that keeps them in memory: values with lifetimes, up to a total size. The
// caller passes the current time. Not thread safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ashlar/status.h"
#include "base/text.h"
#include "symm/stores/store_entry.h"

namespace ashlar::symm {

// Invariant: bytes_ is the sum of entry_bytes over all entries, including expired entries that have
// not been removed yet, and is at most max_bytes_.
class EntryTable {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Added to the size of a key and its value for the memory of the map.
  static constexpr size_t kOverheadBytes = 128;

  explicit EntryTable(size_t max_bytes = std::numeric_limits<size_t>::max())
      : max_bytes_(max_bytes) {}

  // Returns null if the key does not exist. The result is valid until the table changes.
  const std::string* find(std::string_view key, Time now) const {
    const auto at = entries_.find(key);
    return at == entries_.end() || at->second.has_expired(now) ? nullptr : &at->second.value;
  }
  // kOutOfMemory: the table is full.
  Status put(std::string_view key, std::string value, std::chrono::milliseconds time_to_live,
             Time now) {
    if (++write_count_ % kWritesBetweenSweeps == 0) remove_expired(now);
    auto at = entries_.find(key);
    const size_t old_bytes = at == entries_.end() ? 0 : entry_bytes(*at);
    const size_t new_bytes = key.size() + value.size() + kOverheadBytes;
    if (new_bytes > max_bytes_ - (bytes_ - old_bytes)) {
      remove_expired(now);
      at = entries_.find(key);
      const size_t other_bytes = bytes_ - (at == entries_.end() ? 0 : entry_bytes(*at));
      if (new_bytes > max_bytes_ - other_bytes) {
        return Status::out_of_memory(text("the store has ", other_bytes, " of at most ", max_bytes_,
                                          " bytes: no room for key ", key, " with ", value.size(),
                                          " bytes"));
      }
    }
    Entry entry{std::move(value), {}};
    if (const auto lifetime = lifetime_of(time_to_live)) entry.expiry = now + *lifetime;
    if (at == entries_.end()) {
      entries_.emplace(std::string(key), std::move(entry));
    } else {
      bytes_ -= entry_bytes(*at);
      at->second = std::move(entry);
    }
    bytes_ += new_bytes;
    return {};
  }
  // Errors are those of Store::add, and kOutOfMemory if the table is full.
  Result<int64_t> add(std::string_view key, int64_t amount, std::chrono::milliseconds time_to_live,
                      Time now) {
    const std::string* value = find(key, now);
    Result<int64_t> sum =
        add_to_counter_text(key, value == nullptr ? std::string_view("0") : *value, amount);
    if (!sum.ok()) return sum;
    if (Status stored = put(key, text(*sum), time_to_live, now); !stored.ok()) return stored;
    return sum;
  }
  // Returns whether the key existed.
  bool erase(std::string_view key, Time now) {
    const auto at = entries_.find(key);
    if (at == entries_.end()) return false;
    const bool existed = !at->second.has_expired(now);
    bytes_ -= entry_bytes(*at);
    entries_.erase(at);
    return existed;
  }
  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    std::string value;
    std::optional<Time> expiry;  // empty if the entry does not expire

    bool has_expired(Time now) const { return expiry && now >= *expiry; }
  };
  using Entries = std::map<std::string, Entry, std::less<>>;

  static constexpr uint64_t kWritesBetweenSweeps = 256;

  static size_t entry_bytes(const Entries::value_type& entry) {
    return entry.first.size() + entry.second.value.size() + kOverheadBytes;
  }
  void remove_expired(Time now) {
    for (auto each = entries_.begin(); each != entries_.end();) {
      if (!each->second.has_expired(now)) {
        ++each;
        continue;
      }
      bytes_ -= entry_bytes(*each);
      each = entries_.erase(each);
    }
  }

  const size_t max_bytes_;
  size_t bytes_ = 0;
  uint64_t write_count_ = 0;
  Entries entries_;
};

}  // namespace ashlar::symm
