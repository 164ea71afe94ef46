// SPDX-License-Identifier: Apache-2.0
//
// Implements the bridge. As in torch_plugin.cc, allocation and free call the engine directly. Other
// functions that may throw run inside `guarded`, which turns exceptions into status codes.
//
// The file is long because the interface has many functions, each of which is short.
#include "api/torch/torch_bridge.h"

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "api/block_allocation.h"
#include "api/torch/torch_allocators.h"
#include "api/torch/torch_share.h"
#include "api/unwrap.h"
#include "base/text.h"
#include "observe/stack_table.h"

namespace ashlar::torch {
namespace {

using c_api::guarded;

// Forwards to the functions of a pool's custom allocator.
class FunctionSource final : public SegmentSource {
 public:
  explicit FunctionSource(SourceFunctions functions) : functions_(std::move(functions)) {}

  Result<DeviceAddress> allocate(size_t bytes, StreamId stream) override {
    void* memory = nullptr;
    if (functions_.allocate(bytes, to_stream_handle(stream), &memory) != ASHLAR_OK) {
      return Status::invalid_argument("the pool's allocator failed");
    }
    if (memory == nullptr) {
      return Status::out_of_memory(text("the pool's allocator has no ", bytes, " B left"));
    }
    return DeviceAddress::of(memory);
  }
  void free(DeviceAddress address, size_t /*bytes*/) override { functions_.free(address.as()); }

 private:
  const SourceFunctions functions_;
};

StackId number_of(StackId stack) {
  return is_recorded_stack(stack) ? StackId(stack.value() & ~kRecordedStackBit) : StackId();
}

// Passes a snapshot to a visitor, with the recorder's numbers as stack ids.
void visit_snapshot(EngineSnapshot& state, const Snapshot& history, SnapshotVisitor& visitor) {
  for (SnapshotSegment& segment : state.segments) {
    segment.stack = number_of(segment.stack);
    for (SnapshotBlock& block : segment.blocks) block.stack = number_of(block.stack);
    visitor.visit(segment, state.creation_numbers.at(segment.address));
  }
  for (const std::vector<TraceEntry>& trace : history.device_traces) {
    for (TraceEntry entry : trace) {
      entry.stack = number_of(entry.stack);
      visitor.visit(entry, history.tables.strings[entry.compile_context.value()],
                    history.tables.strings[entry.user_metadata.value()]);
    }
  }
  for (const Annotation& annotation : history.annotations) {
    const std::vector<TextField> fields(annotation.fields.begin(), annotation.fields.end());
    visitor.visit_annotation(annotation.time_us, fields);
  }
}

// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): never destroyed through a base
class DeviceBridgeImpl final : public DeviceBridge {
 public:
  explicit DeviceBridgeImpl(ashlar_allocator& allocator)
      : allocator_(allocator.allocator), engine_(allocator.engine) {}

  TorchShares& shares() { return shares_; }

  // Memory.

  ashlar_status allocate(size_t bytes, void* stream, void** memory) noexcept override {
    const void* caller = __builtin_return_address(0);
    try {
      Block* block = allocate_block(engine_, bytes, to_stream_id(stream), caller);
      register_address(engine_, block);
      *memory = block->address.as();
      return ASHLAR_OK;
    } catch (...) {
      return c_api::fail_with_current_exception();
    }
  }

  AllocationInfo find(const void* memory) const noexcept override {
    const Block* block = engine_.addresses().find(DeviceAddress::of(memory));
    if (block == nullptr || !block->is_allocated()) return {};
    return {block->bytes, block->requested_bytes};
  }

  uint32_t stack_of(const void* memory) const noexcept override {
    const Block* block = engine_.addresses().find(DeviceAddress::of(memory));
    if (block == nullptr || !block->is_allocated()) return 0;
    return static_cast<uint32_t>(number_of(block->stack).value());
  }

  ashlar_status record_stream(void* memory, int stream_device, void* stream) noexcept override {
    return guarded([&] {
      Block* block = block_at(engine_, DeviceAddress::of(memory));
      Device& used = TorchAllocators::instance().allocator(stream_device).allocator.device();
      unwrap(engine_.record_stream(block, {&used, to_stream_id(stream)}));
    });
  }

  ashlar_status base_allocation(const void* memory, void** base, size_t* bytes) noexcept override {
    return guarded([&] {
      const AddressRange range = allocator_.sharing().base_allocation(DeviceAddress::of(memory));
      *base = range.begin.as();
      *bytes = range.bytes;
    });
  }

  // Limits and the cache.

  ashlar_status trim() noexcept override {
    return guarded([&] { allocator_.trim(); });
  }

  ashlar_status trim_pool(PoolId pool) noexcept override {
    const void* caller = __builtin_return_address(0);
    return guarded([&] {
      Engine& engine = usable(engine_);
      Status trimmed = engine.trim(pool, capture_free_stack(engine, caller));
      // Another thread may destroy the pool at any time, so only the trim shows whether it exists.
      if (trimmed.is(StatusKind::kInvalidArgument) && !has_pool(pool)) return;
      unwrap(std::move(trimmed));
    });
  }

  ashlar_status set_memory_fraction(double fraction) noexcept override {
    return guarded([&] { allocator_.set_memory_fraction(fraction); });
  }
  double memory_fraction() const noexcept override { return engine_.memory_fraction(); }
  size_t capacity_bytes() const noexcept override {
    return allocator_.device().properties().capacity_bytes;
  }
  void set_caching(bool caching) noexcept override { engine_.set_caching(caching); }
  size_t largest_cached_bytes() const noexcept override { return engine_.largest_cached_bytes(); }

  // Statistics.

  ashlar_status stats(AllocatorStats& stats) const noexcept override {
    return guarded([&] { stats = allocator_.stats(); });
  }
  void reset_peak_stats() noexcept override {
    (void)guarded([&] { allocator_.statistics().reset_peaks(); });
  }
  void reset_total_stats() noexcept override {
    (void)guarded([&] { allocator_.statistics().reset_totals(); });
  }
  ashlar_status expandable_segments(
      std::vector<ExpandableSegmentStats>& segments) const noexcept override {
    return guarded([&] { segments = allocator_.statistics().expandable_segments(); });
  }

  // Pools.

  ashlar_status create_or_retain_pool(PoolId pool,
                                      const SourceFunctions* source) noexcept override {
    return guarded([&] {
      Engine& engine = usable(engine_);
      MutexLock lock(mutex_);  // another thread may create the same pool
      if (has_pool(pool)) {
        unwrap(engine.retain_pool(pool));
        return;
      }
      PoolOptions options;
      if (source != nullptr) options.source = std::make_shared<FunctionSource>(*source);
      unwrap(engine.create_pool(pool, std::move(options)));
    });
  }
  ashlar_status release_pool(PoolId pool) noexcept override {
    return guarded([&] { allocator_.pools().release(pool); });
  }
  ashlar_status pool_use_count(PoolId pool, int* count) const noexcept override {
    return guarded([&] {
      const Result<int> found = usable(engine_).pool_use_count(pool);
      *count = found.ok() ? *found : 0;
    });
  }
  ashlar_status set_use_on_oom(PoolId pool, bool use_on_oom) noexcept override {
    return guarded([&] { allocator_.pools().set_use_on_oom(pool, use_on_oom); });
  }
  ashlar_status set_no_split(PoolId pool) noexcept override {
    return guarded([&] { allocator_.pools().set_no_split(pool); });
  }

  ashlar_status begin_routing(PoolId pool, std::function<bool(void*)> filter,
                              bool is_capture) noexcept override {
    return guarded([&] {
      AllocatorPools& pools = allocator_.pools();
      pools.begin_routing(pool, [filter = std::move(filter)](StreamId stream) {
        return filter(to_stream_handle(stream));
      });
      if (!is_capture) return;
      pools.notify_capture_begin();
      MutexLock lock(mutex_);
      captures_.insert(pool);
    });
  }

  ashlar_status end_routing(PoolId pool) noexcept override {
    return guarded([&] {
      allocator_.pools().end_routing(pool);
      // Called without the mutex: the end of a capture completes frees, which calls trackers.
      if (take_capture(pool)) allocator_.pools().notify_capture_end();
    });
  }

  ashlar_status live_in_pool(PoolId pool, std::vector<void*>& live) const noexcept override {
    return guarded([&] {
      for (const DeviceAddress address : allocator_.pools().live_addresses(pool)) {
        live.push_back(address.as());
      }
    });
  }

  ashlar_status checkpoint(PoolId pool, std::shared_ptr<const void>& state) noexcept override {
    return guarded(
        [&] { state = std::make_shared<PoolCheckpoint>(allocator_.pools().checkpoint(pool)); });
  }

  ashlar_status restore(const void* state, std::vector<void*>& freed,
                        std::vector<void*>& allocated) noexcept override {
    return guarded([&] {
      const auto& checkpoint = *static_cast<const PoolCheckpoint*>(state);
      const RestoreResult change = unwrap(usable(engine_).restore(checkpoint));
      for (const DeviceAddress address : change.freed) {
        shares_.end(address);
        freed.push_back(address.as());
      }
      for (Block* block : change.allocated) {
        register_address(engine_, block);
        allocated.push_back(block->address.as());
      }
    });
  }

  // History.

  ashlar_status start_history(const HistoryRequest& request) noexcept override {
    return guarded([&] {
      HistoryOptions options;
      options.max_entries = request.max_entries;
      options.context = static_cast<RecordContext>(request.context);
      options.native_stacks = false;
      options.skip_actions.assign(request.skip_actions.begin(), request.skip_actions.end());
      options.clear = request.clear;
      StackRecorder recorder;
      if (request.recorder) {
        recorder = [record = request.recorder] {
          const uint32_t number = record();
          return number == 0 ? StackId() : recorded_stack_id(number);
        };
      }
      unwrap(usable(engine_).history().start(std::move(options), std::move(recorder)));
    });
  }
  void stop_history() noexcept override {
    (void)guarded([&] { allocator_.history().stop(); });
  }
  bool is_recording() const noexcept override { return engine_.history().is_on(); }

  ashlar_status annotate(std::span<const TextField> fields) noexcept override {
    return guarded([&] { allocator_.history().annotate({fields.begin(), fields.end()}); });
  }

  ashlar_status snapshot(const PoolId* pool, bool include_traces,
                         SnapshotVisitor& visitor) noexcept override {
    return guarded([&] {
      Engine& engine = usable(engine_);
      EngineSnapshot state =
          engine.take_snapshot(pool == nullptr ? std::nullopt : std::optional<PoolId>(*pool));
      Snapshot history;
      if (include_traces) engine.history().read_into(history, {}, state.position);
      visit_snapshot(state, history, visitor);
    });
  }

  ashlar_status visit_stacks(const std::function<void(uint32_t)>& visit) const noexcept override {
    return guarded([&] {
      // Visits entries before blocks: if the entry of a live block is overwritten in between, the
      // block still has the stack.
      for (const StackId stack : engine_.history().stacks_in_use()) visit(number_of(stack).value());
      for (const StackId stack : engine_.stacks_in_use()) visit(number_of(stack).value());
    });
  }

  // Hooks.

  ashlar_status add_tracker(TraceTracker tracker) noexcept override {
    return guarded([&] { allocator_.hooks().add_tracker(std::move(tracker)); });
  }
  ashlar_status add_oom_observer(std::function<void(const OomNotice&)> observer) noexcept override {
    return guarded([&] { allocator_.hooks().add_oom_observer(std::move(observer)); });
  }
  ashlar_status add_free_memory_callback(std::function<bool()> callback) noexcept override {
    return guarded([&] { allocator_.hooks().add_free_memory_callback(std::move(callback)); });
  }

  // Sharing.

  ashlar_status share(
      void* memory,
      const std::function<void(std::string_view, ptrdiff_t)>& receive) noexcept override {
    return guarded([&] {
      const TorchShares::Handle handle = shares_.share(DeviceAddress::of(memory));
      receive(handle.bytes, handle.offset);
    });
  }

  ashlar_status open(std::string_view handle, void* stream,
                     std::shared_ptr<void>& base) noexcept override {
    return guarded([&] { base = shares_.open(handle, to_stream_id(stream)); });
  }

  ashlar_status enable_peer_access(int accessor) noexcept override {
    return guarded([&] {
      Device& device = TorchAllocators::instance().allocator(accessor).allocator.device();
      allocator_.sharing().enable_peer_access(device);
    });
  }

 private:
  bool has_pool(PoolId pool) const noexcept { return engine_.pool_use_count(pool).ok(); }
  // Removes the pool from `captures_`. Returns whether the pool was there.
  bool take_capture(PoolId pool) {
    MutexLock lock(mutex_);
    return captures_.erase(pool) != 0;
  }

  Allocator& allocator_;
  Engine& engine_;
  TorchShares shares_{allocator_, engine_};

  Mutex mutex_;
  std::set<PoolId> captures_ ASHLAR_GUARDED_BY(mutex_);  // pools whose routing is a capture
};

// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): never destroyed through a base
class BridgeImpl final : public Bridge {
 public:
  static BridgeImpl& instance() {
    static BridgeImpl* const bridge = std::make_unique<BridgeImpl>().release();
    return *bridge;
  }

  DeviceBridge* device(int index) noexcept override {
    DeviceBridge* found = nullptr;
    (void)guarded([&] { found = &bridge_of(TorchAllocators::instance().allocator(index)); });
    return found;
  }

  ashlar_status free(void* memory) noexcept override {
    const void* caller = __builtin_return_address(0);
    const TorchAllocators::Found found = TorchAllocators::instance().find(memory);
    if (found.block == nullptr || !found.block->is_allocated()) [[unlikely]]
      return c_api::fail_invalid_argument("the memory is not allocated");
    try {
      if (!TorchShares::has_any()) [[likely]] {
        free_block(found.allocator->engine, found.block, caller);
        return ASHLAR_OK;
      }
      // In a forked child, does nothing: the shares belong to the parent process, one of whose
      // threads may have held their mutex.
      if (!found.allocator->engine.in_creating_process()) return ASHLAR_OK;
      // Takes the share before the free, after which the address may belong to another shared
      // allocation.
      const Share ended = bridge_of(*found.allocator).shares().take(found.block->address);
      free_block(found.allocator->engine, found.block, caller);
      return ASHLAR_OK;
    } catch (...) {
      return c_api::fail_with_current_exception();
    }
  }

  const char* last_message() const noexcept override { return ashlar_last_message(); }

  void push_compile_context(std::string_view name) noexcept override {
    (void)guarded([&] { ashlar::push_compile_context(std::string(name)); });
  }
  void pop_compile_context() noexcept override { ashlar::pop_compile_context(); }
  void set_user_metadata(std::string_view text) noexcept override {
    (void)guarded([&] { ashlar::set_user_metadata(std::string(text)); });
  }
  void user_metadata(const std::function<void(std::string_view)>& receive) noexcept override {
    (void)guarded([&] { receive(ashlar::user_metadata()); });
  }

 private:
  DeviceBridgeImpl& bridge_of(ashlar_allocator& allocator) {
    MutexLock lock(mutex_);
    std::unique_ptr<DeviceBridgeImpl>& bridge = bridges_[&allocator];
    if (bridge == nullptr) bridge = std::make_unique<DeviceBridgeImpl>(allocator);
    return *bridge;
  }

  Mutex mutex_;
  std::map<ashlar_allocator*, std::unique_ptr<DeviceBridgeImpl>> bridges_ ASHLAR_GUARDED_BY(mutex_);
};

}  // namespace
}  // namespace ashlar::torch

ashlar::torch::Bridge* ashlar_torch_bridge(uint32_t version) noexcept {
  if (version != ashlar::torch::kBridgeVersion) return nullptr;
  return &ashlar::torch::BridgeImpl::instance();
}
