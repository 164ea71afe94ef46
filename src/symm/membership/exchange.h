// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of one group do over its store: all give something and all get everything, or
// meet. Each call has a number, so that calls of one group do not mix and a group that sits out
// what another does is not disturbed. One call at a time: the group's lock sees to that.
//
// Whoever fails here (a rank did not come, a record makes no sense) has lost step with the others:
// the group has failed for good, and all of its ranks learn the same sentence.
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
    std::string prefix{};  // of all keys
    std::string group{};   // for sentences
    RankInfo rank_info{};
    std::chrono::milliseconds key_ttl = std::chrono::minutes(10);  // of what a crash leaves
    // Of what is left when a rank parts, which others may not have read yet.
    std::chrono::milliseconds failure_ttl = std::chrono::seconds(15);
  };

  // `verdict` outlives it, and has the same prefix.
  Exchange(std::shared_ptr<Store> store, FailureRecord& failure_record, Options options);

  const RankInfo& rank_info() const { return options_.rank_info; }
  // Of the next call: the same on all ranks.
  uint64_t sequence() const { return sequence_; }
  // It did not answer, and need not be waited for again.
  bool has_lost_store() const { return has_lost_store_; }

  // What every rank gave, by rank. kTimeout names the ranks that did not come; kPeerLost the one
  // that died meanwhile.
  Result<std::vector<std::string>> all_gather(std::string_view bytes, Deadline deadline);
  Status barrier(Deadline deadline);
  // Ok if all give ok. Otherwise all get the same: what those said who did not. The group goes on.
  Status agree(const Status& own, Deadline deadline);
  // A last barrier, after which nothing of the group's exchanges is left in the store.
  Status finish(Deadline deadline);
  // Instead, where the group has failed: what these ranks have in the store ends with the parting
  // life, since others may still be about to get through an exchange that all came to.
  void abandon(std::span<const int> ranks, Deadline deadline);

 private:
  std::string key(uint64_t sequence, int rank) const;
  // `life`: of what this rank gives.
  Result<std::vector<std::string>> all_gather(std::string_view bytes,
                                              std::chrono::milliseconds life, Deadline deadline);
  Result<std::vector<std::string>> gather(const std::string& own_record,
                                          std::chrono::milliseconds life, Deadline deadline);
  Result<std::string> checked(int rank, std::string_view record) const;
  Status own_trouble(const Status& status);
  Status missing(const std::vector<int>& ranks) const;

  const std::shared_ptr<Store> store_;
  FailureRecord& failure_record_;
  const Options options_;
  uint64_t sequence_ = 0;
  bool has_lost_store_ = false;
};

}  // namespace ashlar::symm
