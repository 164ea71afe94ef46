// SPDX-License-Identifier: Apache-2.0
//
// Performs the requests of a TCP store's clients. Has no sockets and no clock, so that tests run it
// directly. Not thread safe.
#pragma once

#include <cstddef>
#include <deque>
#include <unordered_map>

#include "symm/stores/entry_table.h"
#include "symm/stores/tcp/store_message.h"

namespace ashlar::symm {

class StoreService {
 public:
  using Time = EntryTable::Time;
  // The number of additions, newest first, whose results are kept for clients that repeat them.
  static constexpr size_t kMaxReceipts = 8192;

  // The total size of keys and values, with EntryTable::kOverheadBytes for each, is at most
  // `max_bytes`.
  explicit StoreService(size_t max_bytes) : entries_(max_bytes) {}

  // Performs a request that is neither kHello nor kWait; these are kInvalidArgument.
  StoreResponse perform(const StoreRequest& request, Time now);
  // Increases with every write. Expiries do not count as writes.
  uint64_t version() const { return version_; }

 private:
  struct ReceiptHash {
    size_t operator()(const Receipt& receipt) const { return receipt.low ^ receipt.high; }
  };

  StoreResponse set(const StoreRequest& request, Time now);
  StoreResponse try_get(const StoreRequest& request, Time now) const;
  StoreResponse add(const StoreRequest& request, Time now);

  EntryTable entries_;
  uint64_t version_ = 1;
  std::unordered_map<Receipt, int64_t, ReceiptHash> sums_;  // results of the additions in receipts_
  std::deque<Receipt> receipts_;                            // oldest first
};

}  // namespace ashlar::symm
