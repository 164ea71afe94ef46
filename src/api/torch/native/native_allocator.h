// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's GPU allocator interface on Ashlar's allocators. Every function has the semantics of
// PyTorch's own caching allocator; functions without a comment are documented in PyTorch's header.
// torch_versions.h explains why the functions are not marked `override`.
//
// A device is opened by the first call that needs it, usually an allocation, so that a process can
// fork before that. Settings for a device that is not open (history, hooks, caching) take effect
// when the device is opened; until then, its statistics are zero, and snapshots omit its memory.
//
// Thread safe. Errors: functions throw c10::Error or c10::OutOfMemoryError.
#pragma once

#include <array>
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "api/torch/native/stack_store.h"
#include "api/torch/native/torch_versions.h"
#include "api/torch/torch_bridge.h"

namespace ashlar::torch::native {

class NativeAllocator final : public GpuAllocator {
 public:
  static constexpr size_t kMaxDevices = 64;
  using Device = c10::DeviceIndex;

  // REQUIRES: `bridge` outlives the allocator.
  explicit NativeAllocator(Bridge& bridge) : bridge_(bridge) {}

  // Allocation.

  c10::DataPtr allocate(size_t bytes);
  c10::DeleterFnPtr raw_deleter() const;
  void copy_data(void* to, const void* from, std::size_t bytes) const;
  void* raw_alloc(size_t bytes);
  void* raw_alloc_with_stream(size_t bytes, GpuStreamHandle stream);
  void raw_delete(void* memory);
  void recordStream(const c10::DataPtr& memory, GpuStream stream);
  void* getBaseAllocation(void* memory, size_t* bytes);

  // Devices, limits and the cache.

  void init(int device_count);
  bool initialized();
  double getMemoryFraction(Device device);
  void setMemoryFraction(double fraction, Device device);
  void emptyCache() { emptyCache(PoolIdPair()); }
  void emptyCache(PoolIdPair pool);
  void enable(bool is_caching);
  bool isEnabled() const;
  void cacheInfo(Device device, size_t* largest);
  SegmentSizes getExpandableSegmentSizes(Device device);
  std::string name() { return "native"; }

  // Statistics.

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(Device device);
  void resetAccumulatedStats(Device device);
  void resetPeakStats(Device device);

  // Pools.

  void beginAllocateToPool(Device device, PoolIdPair pool,
                           std::function<bool(GpuStreamHandle)> filter);
  void endAllocateToPool(Device device, PoolIdPair pool);
  void releasePool(Device device, PoolIdPair pool);
  int getPoolUseCount(Device device, PoolIdPair pool);
  void createOrIncrefPool(Device device, PoolIdPair pool, std::shared_ptr<GpuAllocator> source);
  void createOrIncrefPool(Device device, PoolIdPair pool, GpuAllocator* source);
  void ensureExistsAndIncrefPool(Device device, PoolIdPair pool) {
    createOrIncrefPool(device, pool, std::shared_ptr<GpuAllocator>());
  }
  void setUseOnOOM(Device device, PoolIdPair pool) { setUseOnOOM(device, pool, true); }
  void setUseOnOOM(Device device, PoolIdPair pool, bool use_on_oom);
  void setNoSplit(Device device, PoolIdPair pool);
  bool checkPoolLiveAllocations(Device device, PoolIdPair pool,
                                const std::unordered_set<void*>& expected);
  std::shared_ptr<caching::AllocatorState> getCheckpointState(Device device, PoolIdPair pool);
  caching::CheckpointDelta setCheckpointPoolState(Device device,
                                                  std::shared_ptr<caching::AllocatorState> state);

  // History.

  bool isHistoryEnabled();
  void recordHistory(bool enabled, caching::CreateContextFn recorder, size_t max_entries,
                     caching::RecordContext when) {
    recordHistory(enabled, recorder, max_entries, when, false);
  }
  void recordHistory(bool enabled, caching::CreateContextFn recorder, size_t max_entries,
                     caching::RecordContext when, bool clear) {
    recordHistory(enabled, recorder, max_entries, when, clear, std::vector<std::string>());
  }
  void recordHistory(bool enabled, caching::CreateContextFn recorder, size_t max_entries,
                     caching::RecordContext when, bool clear,
                     const std::vector<std::string>& skip_actions);
  // Returns the context that was recorded for a live allocation; null if none was recorded.
  Context getContextForPointer(const void* memory);
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& fields);
  void pushCompileContext(std::string& name);
  void popCompileContext();
  void setUserMetadata(const std::string& text);
  std::string getUserMetadata();
  caching::SnapshotInfo snapshot() { return snapshot(PoolIdPair(), true); }
  caching::SnapshotInfo snapshot(PoolIdPair pool) { return snapshot(pool, true); }
  caching::SnapshotInfo snapshot(PoolIdPair pool, bool include_traces);
  void attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer);
  void attachAllocatorTraceTracker(caching::AllocatorTraceTracker tracker);

  // Other processes and devices.

  caching::ShareableHandle shareIpcHandle(void* memory);
  std::shared_ptr<void> getIpcDevPtr(std::string handle);
  void enablePeerAccess(Device device, Device accessed);
  GpuError memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                       GpuStreamHandle stream, bool has_peer_access);

 private:
  // An open device. Never destroyed.
  struct OpenDevice {
    OpenDevice(DeviceBridge& device, Device device_index)
        : bridge(device), index(device_index), stacks(device) {}

    DeviceBridge& bridge;
    const Device index;
    StackStore stacks;
  };
  // The settings of recordHistory.
  struct HistorySettings {
    bool enabled = false;
    caching::CreateContextFn recorder = nullptr;
    size_t max_entries = 0;
    ashlar_stacks context = ASHLAR_STACKS_NEVER;
    bool clear = false;
    std::vector<TraceAction> skip_actions{};
  };
  class SnapshotBuilder;

  // Throws unless `init` was called for the device.
  void check_device(Device index) const;
  // Returns the device, which is opened on first use.
  OpenDevice& device(Device index) {
    const auto slot = static_cast<size_t>(index);
    if (slot < kMaxDevices) {
      // Acquire: makes the writes of `open_device` visible.
      OpenDevice* open = devices_[slot].load(std::memory_order_acquire);
      if (open != nullptr) return *open;
    }
    return open_device(index);
  }
  OpenDevice& open_device(Device index);
  // Returns null if the device is not open. Throws unless `init` was called for it.
  OpenDevice* open_or_null(Device index) const;
  template <typename Visit>
  void for_each_open(const Visit& visit) const {
    for (const std::atomic<OpenDevice*>& slot : devices_) {
      OpenDevice* open = slot.load(std::memory_order_acquire);
      if (open != nullptr) visit(*open);
    }
  }
  // Returns the device of the memory, and its size. Throws if the memory is not allocated.
  std::pair<OpenDevice*, AllocationInfo> owner_of(const void* memory) const;
  // Throws the bridge's last message unless the status is ASHLAR_OK.
  void check(ashlar_status status) const;

  void* allocate_on(Device index, size_t bytes, GpuStreamHandle stream);
  [[noreturn]] void throw_allocation_error(OpenDevice& open, ashlar_status status, size_t bytes);
  std::string out_of_memory_message(OpenDevice& open, size_t bytes) const;
  void report_to_profiler(OpenDevice& open, void* memory, int64_t bytes) const noexcept;
  void release(void* memory);
  static void delete_memory(void* memory);

  void apply_history(OpenDevice& open, const HistorySettings& settings) const;
  void add_observer(OpenDevice& open, const caching::OutOfMemoryObserver& observer) const;
  void add_tracker(OpenDevice& open, const caching::AllocatorTraceTracker& tracker) const;

  Bridge& bridge_;
  std::array<std::atomic<OpenDevice*>, kMaxDevices> devices_{};
  std::atomic<int> device_count_{0};
  std::atomic<bool> is_recording_{false};

  mutable std::mutex mutex_;
  // The fields below are guarded by the mutex. They apply to devices that are opened later.
  bool is_caching_ = true;
  HistorySettings history_;
  std::vector<caching::OutOfMemoryObserver> observers_;
  std::vector<caching::AllocatorTraceTracker> trackers_;
};

// The exception that a pool's own allocator or an out-of-memory observer threw during an allocation
// of the calling thread. The allocation fails and rethrows it. Null: no exception.
std::exception_ptr& callback_failure();
// Issues a PyTorch warning with the exception that is being handled, for operations that can no
// longer fail.
void warn_of_current_exception(const char* what) noexcept;

// Installs the allocator as PyTorch's. REQUIRES: PyTorch has not initialized its own allocator.
// Throws c10::Error otherwise.
void install(Bridge& bridge);

}  // namespace ashlar::torch::native
