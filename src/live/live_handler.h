// SPDX-License-Identifier: Apache-2.0
//
// Handles HTTP requests about a process's allocators; see docs/reference/formats/live.md. Copies
// all values first, and serializes them without holding a lock. Thread safe.
#pragma once

#include <memory>
#include <string_view>

#include "base/mutex.h"
#include "http/server.h"
#include "live/process_status.h"

namespace ashlar::live {

class LiveHandler final : public http::Handler {
 public:
  // `source` outlives the handler.
  explicit LiveHandler(StatusSource& source) : source_(source) {}

  http::Response handle(const http::Request& request) override;
  // Monitoring is read-only, so POST is not allowed.
  uint64_t max_body_bytes(const http::Request& /*request*/) const override { return 0; }
  http::Response handle(const http::Request& request, std::unique_ptr<ByteSource> body) override;

 private:
  // Permission to take a snapshot, held until all but the last bytes of the snapshot have been sent
  // (Response::keep_until_sent). Snapshots may be large, so only one may exist at a time.
  class SnapshotPermit {
   public:
    explicit SnapshotPermit(LiveHandler& handler);
    ~SnapshotPermit();
    SnapshotPermit(const SnapshotPermit&) = delete;
    SnapshotPermit& operator=(const SnapshotPermit&) = delete;
    bool is_granted() const { return is_granted_; }

   private:
    LiveHandler& handler_;
    bool is_granted_ = false;
  };

  http::Response handle_snapshot(std::string_view query);
  http::Response take_snapshot(const StatusSource::SnapshotRequest& request);

  StatusSource& source_;
  Mutex mutex_;
  bool is_taking_snapshot_ ASHLAR_GUARDED_BY(mutex_) = false;
};

}  // namespace ashlar::live
