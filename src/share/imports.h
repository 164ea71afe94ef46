// SPDX-License-Identifier: Apache-2.0
//
// The blocks of other processes that an allocator has opened. The same handle opened twice is the
// same memory at the same address, under one lease. What is closed goes when the streams that used
// it have got past their work: nothing here waits for a device, except `trim` and the destructor.
// Thread safe. No lock is held while a socket or the device is spoken to, except for opening an
// import to another device.
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
#include "share/once_table.h"
#include "share/share_format.h"

namespace ashlar {

// A block opened by its handle. Everything in the range but the block is none of our business.
struct Import {
  std::optional<Lease> lease;  // of a bare handle there is none; ends after the range
  // Shared by the imports of blocks that lie in one plain allocation, which is opened once.
  std::shared_ptr<ImportedRange> range;
  AddressRange block;
};

class Imports {
 public:
  static constexpr std::chrono::milliseconds kPatience{5000};  // for an exporter's answer

  // `device` outlives it.
  explicit Imports(Device& device, std::chrono::milliseconds patience = kPatience);
  // Waits for the streams that use what was closed. REQUIRES: everything was closed.
  ~Imports();

  // The caller shares the import with whoever else opens the handle, and with the streams that it
  // is closed for. kFormat: not a handle. kInvalidArgument: it is one of another device.
  // kDeviceFault: the exporter is gone or refuses. Whatever fails, nothing is left of it.
  Result<std::shared_ptr<Import>> open(std::string_view handle);
  // Lets go of it once the streams have finished what is queued in them now. Never waits.
  void close(std::shared_ptr<Import> import, std::vector<StreamUse> uses);
  // Ends what the streams are done with. The first failure since the last call, in ending anything.
  Status collect();
  // The same, but waits for the devices of streams that are gone: only those know whether the work
  // queued there is done.
  Status trim();

  // Another device may touch what is open, and what will be.
  Status add_accessor(DeviceIndex accessor);

 private:
  // An import on its way out: with the streams that must be waited for, with the events that stand
  // for those where one could be recorded, and with the devices of those that were destroyed.
  struct Closing {
    std::shared_ptr<Import> import;
    std::vector<StreamUse> uses;
    struct Recorded {
      Device* device = nullptr;
      EventId event;
    };
    std::vector<Recorded> events;
    std::vector<Device*> gone_on;
    bool is_reported = false;  // that something failed was said already
  };

  Result<std::shared_ptr<Import>> make(const ShareHandle& handle);
  Status check_device(const ShareHandle& handle) const;
  Result<std::shared_ptr<ImportedRange>> open_allocation(const AllocationHandle& handle);
  Result<std::shared_ptr<ImportedRange>> import_granules(const ShareHandle& handle, Lease& lease,
                                                         std::vector<UniqueFd> first);
  Status open_to_all(ImportedRange& range);
  // A range whose last owner closes it here, or leaves it to be closed later.
  std::shared_ptr<ImportedRange> owned(std::unique_ptr<ImportedRange> range);
  void retire(std::unique_ptr<ImportedRange> range);
  void retry_leftovers();

  // Records an event for each stream that has none yet; the first failure is told.
  static Status record(Closing& closing);
  static Result<std::optional<EventId>> record(const StreamUse& use);
  static Result<bool> is_done(Closing& closing);
  static void wait(Closing& closing);
  void report(const Status& failure);

  Device& device_;
  const std::chrono::milliseconds patience_;
  OnceTable<ImportedRange> allocations_;  // by allocation handle
  OnceTable<Import> imports_;             // by share handle

  Mutex mutex_;
  std::vector<DeviceIndex> accessors_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<Closing> closing_ ASHLAR_GUARDED_BY(mutex_);
  // Whose closing failed: tried again with the next collect.
  std::vector<std::unique_ptr<ImportedRange>> leftovers_ ASHLAR_GUARDED_BY(mutex_);
  Status deferred_error_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace ashlar
