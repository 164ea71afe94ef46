// SPDX-License-Identifier: Apache-2.0
//
// The blocks of other processes that an allocator has opened. While an import exists, opening its
// handle again returns the same memory at the same address, with one lease. A closed import is
// released after the work that its streams had queued before the close; only `trim` and the
// destructor wait for a device. Thread safe. Holds no lock during socket and device calls, except
// when granting another device access.
//
// `open` allocates the host memory that `close` needs, so that closing an import cannot fail.
#pragma once

#include <chrono>
#include <list>
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

// A block that was opened by its handle. `range` may be larger than the block; memory outside of
// the block must not be accessed.
struct Import {
  std::optional<Lease> lease;  // empty for a bare handle; destroyed after `range`
  // Shared by all imports of blocks in the same plain allocation, which is opened only once.
  std::shared_ptr<ImportedRange> range;
  AddressRange block;
};

class Imports {
 public:
  // The timeout for connecting to an exporter, and for each message.
  static constexpr std::chrono::milliseconds kTimeout{5000};

  // REQUIRES: `device` outlives this object.
  explicit Imports(Device& device, std::chrono::milliseconds timeout = kTimeout);
  // Waits for the streams that use closed imports. Imports whose streams cannot be waited for, for
  // example because a stream is capturing, stay open until the process exits. REQUIRES: all imports
  // have been closed.
  ~Imports();

  // Opens a block. Shares the import with other callers that open the same handle, and with pending
  // closes. Calls `collect` first and returns its error, if any. A failed call undoes its import.
  // kFormat: `handle` is not a valid handle. kInvalidArgument: the block belongs to another device
  // or user, or is not inside its allocation. kDeviceFault: the exporter has exited or refuses the
  // request.
  Result<std::shared_ptr<Import>> open(std::string_view handle);
  // Closes an import: releases it once the work queued so far on the streams in `uses` has
  // finished. Never waits. REQUIRES: called at most once for each successful `open`.
  void close(std::shared_ptr<Import> import, std::vector<DeviceStream> uses) noexcept;
  // Releases closed imports whose streams have finished. Returns the first unreported error, which
  // may stem from an earlier call. If host memory runs out, throws std::bad_alloc or returns
  // kHostOutOfMemory; later calls release the imports that are left.
  Status collect();
  // Like `collect`, but first waits for the devices of destroyed streams: only a wait for the whole
  // device covers work that a destroyed stream still has.
  Status trim();

  // Grants another device access to all present and future imports.
  Status add_accessor(DeviceIndex accessor);

 private:
  // An import that stays open until the process exits.
  struct KeptImport;
  // Imports that stay open. A lock-free list, because a forked child could inherit a locked mutex.
  class KeptImports;
  // A closed import that has not been released yet: `uses` are the streams in which no event has
  // been recorded yet, `events` the recorded events that have not completed yet, and
  // `destroyed_stream_devices` the devices of destroyed streams.
  struct PendingClose {
    PendingClose();
    PendingClose(PendingClose&&) = delete;
    PendingClose& operator=(PendingClose&&) = delete;
    ~PendingClose();

    std::shared_ptr<Import> import;
    std::vector<DeviceStream> uses;
    struct RecordedEvent {
      Device* device = nullptr;
      EventId event;
    };
    std::vector<RecordedEvent> events;
    std::vector<Device*> destroyed_stream_devices;
    bool is_reported = false;          // whether an error of `is_done` has been reported
    std::unique_ptr<KeptImport> kept;  // allocated in advance, for the destructor of Imports
  };
  using PendingCloses = std::list<PendingClose>;
  using UnclosedRanges = std::list<std::unique_ptr<ImportedRange>>;

  Result<std::shared_ptr<Import>> make_import(const ShareHandle& handle);
  Status check_device(const ShareHandle& handle) const;
  Result<std::shared_ptr<ImportedRange>> open_allocation(const AllocationHandle& handle);
  Result<std::shared_ptr<ImportedRange>> import_granules(const ShareHandle& handle, Lease& lease,
                                                         std::vector<UniqueFd> first);
  Status grant_access_to_all(ImportedRange& range);
  // Wraps the only range of the list such that dropping the last reference closes the range, or
  // adds it to `unclosed_` if it cannot be closed.
  std::shared_ptr<ImportedRange> close_on_release(UnclosedRanges owner);
  // Closes the only range of the list, or moves it to `unclosed_`.
  void close_range(UnclosedRanges range) noexcept;
  void retry_unclosed() noexcept;

  // Moves all elements between the argument and `pending_closes_`. Allocates nothing.
  void take_pending(PendingCloses& taken) noexcept ASHLAR_EXCLUDES(mutex_);
  void put_back_pending(PendingCloses& taken) noexcept ASHLAR_EXCLUDES(mutex_);
  // Tries to record an event in each stream of `uses`. Streams that are capturing, or for which a
  // call fails, stay in `uses`. Returns the first error.
  static Status record_events(PendingClose& closing);
  static Result<std::optional<EventId>> record_event(const DeviceStream& use);
  static Result<bool> is_done(PendingClose& closing);
  static bool wait(PendingClose& closing);
  void defer_error(Status failure) noexcept;

  Device& device_;
  const std::chrono::milliseconds timeout_;
  SharedTable<ImportedRange> allocations_;  // keyed by allocation handle
  SharedTable<Import> imports_;             // keyed by share handle

  Mutex mutex_;
  std::vector<DeviceIndex> accessors_ ASHLAR_GUARDED_BY(mutex_);
  // Empty elements for the imports that are open; `close` moves one to `pending_closes_`.
  PendingCloses prepared_closes_ ASHLAR_GUARDED_BY(mutex_);
  PendingCloses pending_closes_ ASHLAR_GUARDED_BY(mutex_);
  // Ranges that could not be closed. The next `collect` tries again to close them.
  UnclosedRanges unclosed_ ASHLAR_GUARDED_BY(mutex_);
  Status deferred_error_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar
