// SPDX-License-Identifier: Apache-2.0
//
// The blocks of other processes that an allocator has opened. Opening a handle twice yields the
// same memory at the same address under one lease. A closed import is released after the streams
// that used it finish their work; only `trim` and the destructor wait for a device. Thread safe. No
// lock is held during socket or device calls, except when granting access to another device.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/device.h"
#include "base/mutex.h"
#include "device/stream_use.h"
#include "share/imported_range.h"
#include "share/lease.h"
#include "share/share_format.h"
#include "share/shared_table.h"

namespace ashlar {

// A block opened by its handle. The rest of the range must not be accessed.
struct Import {
  std::optional<Lease> lease;  // empty for a bare handle; ends after the range
  // Shared by the imports of blocks in one plain allocation, which is opened once.
  std::shared_ptr<ImportedRange> range;
  AddressRange block;
};

class Imports {
 public:
  static constexpr std::chrono::milliseconds kTimeout{5000};  // for an exporter's response

  // `device` outlives the object.
  explicit Imports(Device& device, std::chrono::milliseconds timeout = kTimeout);
  // Waits for the streams that use closed imports. REQUIRES: all imports were closed.
  ~Imports();

  // The result is shared with other callers that open the same handle and with pending closes.
  // kFormat: not a handle. kInvalidArgument: a handle of another device. kDeviceFault: the exporter
  // has exited or refuses. A failed call leaves nothing behind.
  Result<std::shared_ptr<Import>> open(std::string_view handle);
  // Releases the import once the work queued so far on the streams has finished. Never waits.
  void close(std::shared_ptr<Import> import, std::vector<DeviceStream> uses);
  // Releases imports whose streams have finished. Returns the first error from a release since the
  // last call.
  Status collect();
  // Like collect, but first waits for the devices of destroyed streams, because only such a wait
  // covers their remaining work.
  Status trim();

  // Grants another device access to all present and future imports.
  Status add_accessor(DeviceIndex accessor);

 private:
  // An import to be released: the streams still to record, the recorded events, and the devices of
  // destroyed streams.
  struct PendingClose {
    std::shared_ptr<Import> import;
    std::vector<DeviceStream> uses;
    struct RecordedEvent {
      Device* device = nullptr;
      EventId event;
    };
    std::vector<RecordedEvent> events;
    std::vector<Device*> destroyed_stream_devices;
    bool is_reported = false;  // its failure was already reported
  };

  Result<std::shared_ptr<Import>> make(const ShareHandle& handle);
  Status check_device(const ShareHandle& handle) const;
  Result<std::shared_ptr<ImportedRange>> open_allocation(const AllocationHandle& handle);
  Result<std::shared_ptr<ImportedRange>> import_granules(const ShareHandle& handle, Lease& lease,
                                                         std::vector<UniqueFd> first);
  Status open_to_all(ImportedRange& range);
  // Wraps a range so that its last owner closes it, or queues it for a retry.
  std::shared_ptr<ImportedRange> close_on_release(std::unique_ptr<ImportedRange> range);
  void close_range(std::unique_ptr<ImportedRange> range);
  void retry_unclosed();

  // Records an event on each stream that has none yet. Returns the first error.
  static Status record(PendingClose& closing);
  static Result<std::optional<EventId>> record(const DeviceStream& use);
  static Result<bool> is_done(PendingClose& closing);
  static void wait(PendingClose& closing);
  void report(const Status& failure);

  Device& device_;
  const std::chrono::milliseconds timeout_;
  SharedTable<ImportedRange> allocations_;  // keyed by allocation handle
  SharedTable<Import> imports_;             // keyed by share handle

  Mutex mutex_;
  std::vector<DeviceIndex> accessors_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<PendingClose> closing_ ASHLAR_GUARDED_BY(mutex_);
  // Ranges that could not be closed; retried by the next collect.
  std::vector<std::unique_ptr<ImportedRange>> unclosed_ ASHLAR_GUARDED_BY(mutex_);
  Status deferred_error_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar
