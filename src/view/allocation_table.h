// SPDX-License-Identifier: Apache-2.0
//
// The table of a document's allocations: any range of rows, in any order, optionally filtered by
// moment and search text. Recent orders are cached to make scrolling cheap. Thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "view/document.h"

namespace ashlar::view {

enum class SortKey { kBytes, kMade, kFreed, kAge };

inline constexpr uint32_t kMaxTableRows = 10'000;  // maximum rows per response

struct TableQuery {
  SortKey sort = SortKey::kBytes;
  bool descends = false;
  uint32_t from = 0;
  uint32_t count = 0;
  std::optional<uint32_t> moment{};   // unset: the whole run
  std::optional<uint8_t> category{};  // number of a Category; unset: all
  // Selects allocations with a stack frame "name:file:line" that contains this text, ignoring ASCII
  // case. Empty: no filter.
  std::string search{};
};

class AllocationTable {
 public:
  // REQUIRES: `document` outlives the table.
  explicit AllocationTable(const Document& document) : document_(document) {}

  // Returns the requested rows, in the binary format of columns.h.
  // REQUIRES: count <= kMaxTableRows, and the moment is below document.entry_count().
  std::string rows(const TableQuery& query) const;
  // Returns the row of one allocation, in the same format.
  // REQUIRES: `id` is an allocation of the document.
  std::string row(uint32_t id) const;

 private:
  using Order = std::vector<uint32_t>;  // ids, ascending by the key
  struct CachedOrder {
    TableQuery query{};  // its range of rows and its direction do not matter
    std::shared_ptr<const Order> order{};
  };

  // Returns the order for a query, from the cache if possible. The order is shared, because a
  // request may still use the order when it is evicted from the cache.
  std::shared_ptr<const Order> order_for(const TableQuery& query) const;
  Order find(const TableQuery& query) const;
  std::vector<bool> stacks_with(std::string_view search) const;
  void sort(SortKey key, Order& ids) const;
  uint64_t age_of(const Allocation& allocation, bool has_times) const;

  const Document& document_;
  mutable Mutex mutex_;
  mutable std::list<CachedOrder> cache_ ASHLAR_GUARDED_BY(mutex_);  // most recently used first
};

}  // namespace ashlar::view
