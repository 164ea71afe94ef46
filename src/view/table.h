// SPDX-License-Identifier: Apache-2.0
//
// The table of a document's allocations: any stretch of it, in any order, of all or of some. Orders
// and searches are remembered, so that scrolling costs nothing. Thread safe.
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

inline constexpr uint32_t kMostTableRows = 10'000;  // in one answer

struct TableQuestion {
  SortKey sort = SortKey::kBytes;
  bool descends = false;
  uint32_t from = 0;
  uint32_t count = 0;
  std::optional<uint32_t> moment{};  // none: of the whole run
  std::string search{};              // to be found in a frame, "name:file:line"; empty: anything
};

class AllocationTable {
 public:
  // `document` outlives it.
  explicit AllocationTable(const Document& document) : document_(document) {}

  // As columns. REQUIRES: count <= kMostTableRows, and a moment of the document.
  std::string rows(const TableQuestion& question) const;
  // One row of it. REQUIRES: an allocation of the document.
  std::string row(uint32_t id) const;

 private:
  using Order = std::vector<uint32_t>;  // ids, ascending by the key
  struct Known {
    SortKey sort{};
    std::optional<uint32_t> moment{};
    std::string search{};
    std::shared_ptr<const Order> order{};
  };

  // Its second owner is an answer that is being made when it is forgotten.
  std::shared_ptr<const Order> order_for(const TableQuestion& question) const;
  Order find(const TableQuestion& question) const;
  std::vector<bool> stacks_with(std::string_view search) const;
  void sort(SortKey key, Order& ids) const;
  uint64_t age_of(const Allocation& allocation, bool has_times) const;

  const Document& document_;
  mutable Mutex mutex_;
  mutable std::list<Known> known_ ASHLAR_GUARDED_BY(mutex_);  // the last one asked for first
};

}  // namespace ashlar::view
