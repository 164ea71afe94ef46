// SPDX-License-Identifier: Apache-2.0
//
// A group's failure as its store knows it. The first rank to fail writes down why; all others that
// wait in the store read it, and so fail with the same sentence. Thread safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "ashlar/store.h"
#include "base/mutex.h"
#include "symm/core/failure.h"
#include "symm/core/status_codec.h"

namespace ashlar::symm {

// For what is still to be said in the store, after all is lost here; and where it is the store that
// did not answer: whoever waits has waited for it already.
inline constexpr std::chrono::milliseconds kPublishTimeout{2000};
inline constexpr std::chrono::milliseconds kLostStoreTimeout{250};

class FailureRecord {
 public:
  // Keys live for so long, which is all the time that there is to read them in: whoever lives looks
  // at every beat of its heart (leases.h).
  FailureRecord(std::shared_ptr<Store> store, std::string prefix, std::shared_ptr<Failure> failure,
                std::chrono::milliseconds key_ttl);

  // To be looked at by whoever waits in the store.
  const std::string& key() const { return key_; }
  Failure& failure() { return *failure_; }

  // Fails the group for `reason`, unless it has failed before: returns why it did, as the store has
  // it. Tries to let the others know for so long, and does not insist: the store may be what
  // failed.
  Status publish(const Status& reason, std::chrono::milliseconds timeout = kPublishTimeout)
      ASHLAR_EXCLUDES(mutex_);
  // The same for one who comes again: what the store does not take in time is left for then.
  enum class PublishResult {
    kPublished,
    kAwaitingWriter,
    kStoreUnavailable
  };  // not yet: by the rank that is to; at all
  PublishResult try_publish(const Status& reason, Deadline deadline) ASHLAR_EXCLUDES(mutex_);
  // It is this rank that writes it down.
  bool is_writer() const ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return is_writer_;
  }
  // Why the group failed, in what somebody wrote under key(); and the same for this rank.
  static Status parse_reason(std::string_view bytes);
  Status adopt(std::string_view bytes) ASHLAR_EXCLUDES(mutex_);

  // How many exchanges this rank has got through; goes with what it announces.
  void set_completed_exchanges(uint64_t count) {
    completed_exchanges_.store(count, std::memory_order_relaxed);
  }
  // Whether whoever wrote `bytes` under key() had got through exchange `sequence`: then all came to
  // it, and all others are to get through it, too.
  static bool is_after_exchange(std::string_view bytes, uint64_t sequence);

 private:
  Status remember(Status recorded) ASHLAR_EXCLUDES(mutex_);

  const std::shared_ptr<Store> store_;
  const std::shared_ptr<Failure> failure_;  // also owned by the group and its links
  const std::string key_;
  const std::string election_key_;
  const std::chrono::milliseconds key_life_;
  std::atomic<uint64_t> completed_exchanges_{0};  // orders nothing: a number to be written down

  // What the store has, ok as long as that is not known. `failure` may have another reason: that
  // which this rank noticed first.
  mutable Mutex mutex_;
  Status recorded_ ASHLAR_GUARDED_BY(mutex_);
  bool is_writer_ ASHLAR_GUARDED_BY(mutex_) = false;
};

}  // namespace ashlar::symm
