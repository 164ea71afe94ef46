// SPDX-License-Identifier: Apache-2.0
//
// Writing down why, once.
#include "symm/membership/failure_record.h"

#include <algorithm>

#include "base/text.h"
#include "base/wire.h"

namespace ashlar::symm {
Verdict::Verdict(std::shared_ptr<Store> store, std::string prefix, std::shared_ptr<Failure> failure,
                 std::chrono::milliseconds key_life)
    : store_(std::move(store)),
      failure_(std::move(failure)),
      key_(prefix + "/failed"),
      election_key_(prefix + "/failing"),
      key_life_(key_life) {}

Status Verdict::announce(const Status& reason, std::chrono::milliseconds patience) {
  const Told told = tell(reason, Deadline::after(patience));
  const Status known = failure_->reason();
  // It may be written yet; a store that is lost is not waited for again.
  if (told == Told::kNotByThem && patience < kTellingPatience) return known;
  return keep(known);
}

// One is elected to write, so that two who fail at once do not say different things.
Verdict::Told Verdict::tell(const Status& reason, Deadline deadline) {
  bool is_elected = false;  // before; the store did not take it then
  {
    MutexLock lock(mutex_);
    if (!said_.ok()) return Told::kYes;
    is_elected = is_own_;
  }
  failure_->report(reason);
  const Status known = failure_->reason();
  if (!is_elected) {
    const Result<int64_t> place = store_->add(election_key_, 1, key_life_, deadline);
    if (!place.ok()) return Told::kNotByStore;
    if (*place > 1) {
      const Result<std::string> written = store_->get(key_, deadline);
      if (!written.ok()) return Told::kNotByThem;
      (void)adopt(*written).ok();
      return Told::kYes;
    }
    MutexLock lock(mutex_);
    is_own_ = true;  // before others, of this rank too, can read it and part
  }
  WireWriter writer;
  writer.number(passed_.load(std::memory_order_relaxed)).raw(to_bytes(known));
  const bool is_written = store_->set(key_, writer.take(), key_life_, deadline).ok();
  if (!is_written) return Told::kNotByStore;
  (void)keep(known).ok();
  return Told::kYes;
}

Status Verdict::said_in(std::string_view bytes) {
  const std::string_view status = bytes.substr(std::min(bytes.size(), sizeof(uint64_t)));
  Status reason = parse_status(status);
  return reason.ok() ? Status::format("a rank failed for no reason") : reason;
}

Status Verdict::adopt(std::string_view bytes) {
  Status reason = said_in(bytes);
  failure_->report(reason);
  return keep(std::move(reason));
}

bool Verdict::has_passed(std::string_view bytes, uint64_t sequence) {
  return WireReader(bytes).number<uint64_t>() > sequence;
}

Status Verdict::keep(Status said) {
  MutexLock lock(mutex_);
  if (said_.ok()) said_ = std::move(said);
  return said_;
}

}  // namespace ashlar::symm
