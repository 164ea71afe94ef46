// SPDX-License-Identifier: Apache-2.0
//
// Elects one writer per group with a counter in the store. If the elected rank dies, or does not
// receive the store's response to its election, a second election chooses a substitute among the
// ranks that wait for the record.
#include "symm/membership/failure_record.h"

#include <algorithm>

#include "base/text.h"
#include "base/wire.h"

namespace ashlar::symm {
FailureRecord::FailureRecord(std::shared_ptr<Store> store, std::string prefix,
                             std::shared_ptr<Failure> failure, std::chrono::milliseconds key_ttl)
    : store_(std::move(store)),
      failure_(std::move(failure)),
      key_(prefix + "/failed"),
      election_key_(prefix + "/failing"),
      second_election_key_(prefix + "/failing_again"),
      key_ttl_(key_ttl) {}

Status FailureRecord::publish(const Status& reason, std::chrono::milliseconds timeout) {
  {
    MutexLock lock(mutex_);
    if (!recorded_.ok()) return recorded_;
  }
  const PublishResult result = try_publish(reason, Deadline::after(timeout));
  const Status known = failure_->reason();
  switch (result) {
    case PublishResult::kPublished: break;
    case PublishResult::kAwaitingWriter:
      // If the wait for the elected rank was short, that rank may still write the record, so
      // `recorded_` is not set to this rank's reason.
      if (timeout < kPublishTimeout) return known;
      break;
    // The store may recover, so later calls of `try_publish` must still write the record.
    case PublishResult::kStoreUnavailable: return remember(known, false);
  }
  return remember(known, true);
}

// One rank is elected to write, so that ranks that fail concurrently agree on the reason.
FailureRecord::PublishResult FailureRecord::try_publish(const Status& reason, Deadline deadline) {
  bool is_elected = false;  // whether an earlier call elected this rank
  {
    MutexLock lock(mutex_);
    if (is_publishing_done_) return PublishResult::kPublished;
    is_elected = is_writer_;
  }
  failure_->report(reason);
  const Status known = failure_->reason();
  if (!is_elected) {
    const Result<int64_t> candidate = store_->add(election_key_, 1, key_ttl_, deadline);
    if (!candidate.ok()) return PublishResult::kStoreUnavailable;
    if (*candidate > 1) {
      start_awaiting_writer();
      const Result<std::string> written = store_->get(key_, deadline);
      if (written.ok()) {
        (void)adopt(*written).ok();
        return PublishResult::kPublished;
      }
      if (!is_writer_overdue()) return PublishResult::kAwaitingWriter;
      const Result<int64_t> substitute =
          store_->add(second_election_key_, 1, key_ttl_, Deadline::after(kTimeoutAfterStoreLoss));
      if (!substitute.ok()) return PublishResult::kStoreUnavailable;
      if (*substitute > 1) return PublishResult::kAwaitingWriter;
      deadline = Deadline::after(kTimeoutAfterStoreLoss);
    }
    MutexLock lock(mutex_);
    is_writer_ = true;  // before any thread can read the record and leave the group
  }
  WireWriter writer;
  writer.append_number(completed_exchanges_.load(std::memory_order_relaxed))
      .append_raw(to_bytes(known));
  const bool is_written = store_->set(key_, writer.take(), key_ttl_, deadline).ok();
  if (!is_written) return PublishResult::kStoreUnavailable;
  (void)remember(known, true).ok();
  return PublishResult::kPublished;
}

void FailureRecord::start_awaiting_writer() {
  MutexLock lock(mutex_);
  if (!awaiting_since_) awaiting_since_ = Deadline::Clock::now();
}

bool FailureRecord::is_writer_overdue() const {
  MutexLock lock(mutex_);
  return awaiting_since_ && Deadline::Clock::now() - *awaiting_since_ >= kWriterTimeout;
}

Status FailureRecord::parse_reason(std::string_view bytes) {
  const std::string_view status = bytes.substr(std::min(bytes.size(), sizeof(uint64_t)));
  Status reason = parse_status(status);
  return reason.ok() ? Status::format("a rank published a failure without a reason") : reason;
}

Status FailureRecord::adopt(std::string_view bytes) {
  Status reason = parse_reason(bytes);
  failure_->report(reason);
  return remember(std::move(reason), true);
}

bool FailureRecord::is_after_exchange(std::string_view bytes, uint64_t sequence) {
  return WireReader(bytes).number<uint64_t>() > sequence;
}

Status FailureRecord::remember(Status recorded, bool is_publishing_done) {
  MutexLock lock(mutex_);
  if (recorded_.ok()) recorded_ = std::move(recorded);
  is_publishing_done_ |= is_publishing_done;
  return recorded_;
}

}  // namespace ashlar::symm
