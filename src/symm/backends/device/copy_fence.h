// SPDX-License-Identifier: Apache-2.0
//
// Orders work of one stream after the copies of one group in other streams. Thread safe.
#pragma once

#include <map>

#include "ashlar/device.h"
#include "base/mutex.h"

namespace ashlar::symm {

class CopyFence {
 public:
  // `device` must outlive this object.
  explicit CopyFence(Device& device) : device_(device) {}
  ~CopyFence();
  CopyFence(const CopyFence&) = delete;
  CopyFence& operator=(const CopyFence&) = delete;

  // Call after a copy has been queued in the stream, which must not be capturing.
  Status record(StreamId stream) ASHLAR_EXCLUDES(mutex_);
  // Makes later work of the stream wait for all copies that were recorded before.
  Status wait(StreamId stream) ASHLAR_EXCLUDES(mutex_);

 private:
  void forget_finished_locked() ASHLAR_REQUIRES(mutex_);

  Device& device_;

  Mutex mutex_;
  std::map<StreamId, EventId> last_copies_ ASHLAR_GUARDED_BY(mutex_);  // one event per stream
};

}  // namespace ashlar::symm
