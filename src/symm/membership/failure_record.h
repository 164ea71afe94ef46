// SPDX-License-Identifier: Apache-2.0
//
// The record of a group's failure in its store. The first rank that fails writes the reason. The
// other ranks read it with every heartbeat and while they wait on the store, so all ranks that can
// reach the store report the same message. Thread safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ashlar/store.h"
#include "base/mutex.h"
#include "symm/core/failure.h"
#include "symm/core/status_codec.h"

namespace ashlar::symm {

// The time limit for publishing a failure.
inline constexpr std::chrono::milliseconds kPublishTimeout{2000};
// The time after which a rank that waits for the elected rank's record takes part in the second
// election. Less than kPublishTimeout, so that one call of `publish` waits long enough.
inline constexpr std::chrono::milliseconds kWriterTimeout{1500};
// The time limit for further calls to the store after one has failed. Short, because the caller has
// already waited for the store.
inline constexpr std::chrono::milliseconds kTimeoutAfterStoreLoss{250};

class FailureRecord {
 public:
  // The record and the election keys expire after `key_ttl`, which must be much longer than the
  // heartbeat interval: live ranks read the record with every heartbeat (lease_monitor.h).
  FailureRecord(std::shared_ptr<Store> store, std::string prefix, std::shared_ptr<Failure> failure,
                std::chrono::milliseconds key_ttl);

  // The key that every wait on the store has to check.
  const std::string& key() const { return key_; }
  Failure& failure() { return *failure_; }

  // Fails the group for `reason` unless it has failed already, and tries to publish the reason, for
  // at most `timeout`. Returns the reason in the store, or this rank's reason if the record could
  // be neither written nor read. Later calls return the same reason without accessing the store,
  // unless `timeout` was below kPublishTimeout and the elected rank had not written the record yet.
  Status publish(const Status& reason, std::chrono::milliseconds timeout = kPublishTimeout)
      ASHLAR_EXCLUDES(mutex_);
  enum class PublishResult {
    kPublished,
    kAwaitingWriter,  // another rank was elected, but its record could not be read
    kStoreUnavailable,
  };
  // Makes one attempt to publish, for callers that retry. Does nothing if the store is known to
  // contain the record, or if `publish` has waited kPublishTimeout without success.
  PublishResult try_publish(const Status& reason, Deadline deadline) ASHLAR_EXCLUDES(mutex_);
  // Whether this rank was elected to write the record.
  bool is_writer() const ASHLAR_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return is_writer_;
  }
  // Returns the reason in `bytes`, the value of key().
  static Status parse_reason(std::string_view bytes);
  // Fails the group for the reason in `bytes`, the value of key(). Returns `recorded_`, which is
  // the reason in `bytes` unless `recorded_` was set before.
  Status adopt(std::string_view bytes) ASHLAR_EXCLUDES(mutex_);

  // Sets the number of exchanges that this rank has completed, for the record that it publishes if
  // it fails.
  void set_completed_exchanges(uint64_t count) {
    completed_exchanges_.store(count, std::memory_order_relaxed);
  }
  // Whether the writer of `bytes`, the value of key(), had completed exchange `sequence` before it
  // failed. If so, all ranks have entered that exchange, and the other ranks can complete it too.
  static bool is_after_exchange(std::string_view bytes, uint64_t sequence);

 private:
  void start_awaiting_writer() ASHLAR_EXCLUDES(mutex_);
  bool is_writer_overdue() const ASHLAR_EXCLUDES(mutex_);
  // Sets `recorded_` unless it is set already, and sets `is_publishing_done_` if
  // `is_publishing_done`. Returns `recorded_`.
  Status remember(Status recorded, bool is_publishing_done) ASHLAR_EXCLUDES(mutex_);

  const std::shared_ptr<Store> store_;
  const std::shared_ptr<Failure> failure_;  // also owned by the group and its connections
  const std::string key_;
  const std::string election_key_;
  const std::string second_election_key_;
  const std::chrono::milliseconds key_ttl_;
  std::atomic<uint64_t> completed_exchanges_{0};  // relaxed: only part of the published record

  mutable Mutex mutex_;
  // The reason in the store, or this rank's own reason if `publish` got no response from the store;
  // ok while unknown. The reason in `failure_` may differ, because it is the first that this rank
  // detected.
  Status recorded_ ASHLAR_GUARDED_BY(mutex_);
  bool is_writer_ ASHLAR_GUARDED_BY(mutex_) = false;
  // When this rank first waited for another rank's record; empty if it has not waited.
  std::optional<Deadline::Clock::time_point> awaiting_since_ ASHLAR_GUARDED_BY(mutex_);
  // Whether `try_publish` has nothing left to do. False if `recorded_` was set because the store
  // was unavailable.
  bool is_publishing_done_ ASHLAR_GUARDED_BY(mutex_) = false;
};

}  // namespace ashlar::symm
