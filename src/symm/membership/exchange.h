// SPDX-License-Identifier: Apache-2.0
//
// Collectives of one group over its store: all-gather, barrier and agreement on a status. They are
// used for joining, rendezvous and leaving, not for data.
//
// Every call has a sequence number, so that consecutive calls do not mix. Not thread safe: the
// communicator serializes the calls. After an error (a missing rank, a malformed record) the ranks
// are out of step, so the group fails permanently, with the same message on all ranks that can
// reach the store.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/store.h"
#include "symm/core/rank_info.h"
#include "symm/membership/failure_record.h"

namespace ashlar::symm {

class Exchange {
 public:
  struct Options {
    std::string prefix{};  // the prefix of all keys
    std::string group{};   // for error messages
    RankInfo rank_info{};
    // The time to live of keys that a crash leaves behind.
    std::chrono::milliseconds key_ttl = std::chrono::minutes(10);
    // The time to live that keys get when a rank leaves: peers may still read them, and possibly no
    // rank will erase them.
    std::chrono::milliseconds failure_ttl = std::chrono::seconds(15);
  };

  // REQUIRES: `failure_record` has the same prefix and outlives this object.
  Exchange(std::shared_ptr<Store> store, FailureRecord& failure_record, Options options);

  const RankInfo& rank_info() const { return options_.rank_info; }
  // The sequence number of the next call. The same on all ranks.
  uint64_t sequence() const { return sequence_; }
  // Whether an exchange has failed because of an error of the store. If so, callers should not wait
  // long for the store again (kTimeoutAfterStoreLoss).
  bool has_lost_store() const { return has_lost_store_; }

  // Returns the values of all ranks, indexed by rank. The message of kTimeout names the missing
  // ranks, and the message of kPeerLost names the rank that died.
  Result<std::vector<std::string>> all_gather(std::string_view bytes, Deadline deadline);
  Status barrier(Deadline deadline);
  // Returns ok if all ranks pass ok. If ranks pass errors, returns all of these errors as one
  // status, which is the same on all ranks, and the group stays usable.
  Status agree(const Status& own, Deadline deadline);
  // Performs a final barrier. The last rank to pass it erases the remaining keys of all exchanges.
  Status finish(Deadline deadline);
  // The counterpart of `finish` for a failed group: makes the keys of `ranks` expire after
  // `failure_ttl`. The keys are not erased, since peers may still need them to complete an exchange
  // that all ranks entered.
  void abandon(std::span<const int> ranks, Deadline deadline);

 private:
  std::string key(uint64_t sequence, int rank) const;
  // `key_ttl` is the time to live of this rank's key in this exchange.
  Result<std::vector<std::string>> all_gather(std::string_view bytes,
                                              std::chrono::milliseconds key_ttl, Deadline deadline);
  Result<std::vector<std::string>> gather(const std::string& own_record,
                                          std::chrono::milliseconds key_ttl, Deadline deadline);
  Result<std::string> parse_record(int rank, std::string_view record) const;
  Status handle_store_loss(const Status& status);
  Status missing_ranks_error(const std::vector<int>& ranks) const;

  const std::shared_ptr<Store> store_;
  FailureRecord& failure_record_;
  const Options options_;
  uint64_t sequence_ = 0;
  bool has_lost_store_ = false;
};

}  // namespace ashlar::symm
