// SPDX-License-Identifier: Apache-2.0
//
// The history, snapshots and hooks of NativeAllocator.
#include <c10/util/Exception.h>

#include <string_view>

#include "api/torch/native/native_allocator.h"

namespace ashlar::torch::native {
namespace {

// Converts a name that PyTorch uses for an action. Throws if it is unknown.
TraceAction to_action(std::string_view name) {
  constexpr std::pair<std::string_view, TraceAction> kActions[] = {
      {"alloc", TraceAction::kAlloc},
      {"free_requested", TraceAction::kFreeRequested},
      {"free_completed", TraceAction::kFreeCompleted},
      {"segment_alloc", TraceAction::kSegmentAlloc},
      {"segment_free", TraceAction::kSegmentFree},
      {"segment_map", TraceAction::kSegmentMap},
      {"segment_unmap", TraceAction::kSegmentUnmap},
      {"snapshot", TraceAction::kSnapshot},
      {"oom", TraceAction::kOom}};
  for (const auto& [known, action] : kActions) {
    if (name == known) return action;
  }
  TORCH_CHECK(false, "Unknown TraceEntry action: ", name);
}

// REQUIRES: the action is not kAnnotate, which PyTorch lacks.
TorchEntry::Action to_torch(TraceAction action) {
  switch (action) {
    case TraceAction::kAlloc: return TorchEntry::ALLOC;
    case TraceAction::kFreeRequested: return TorchEntry::FREE_REQUESTED;
    case TraceAction::kFreeCompleted: return TorchEntry::FREE_COMPLETED;
    case TraceAction::kSegmentAlloc: return TorchEntry::SEGMENT_ALLOC;
    case TraceAction::kSegmentFree: return TorchEntry::SEGMENT_FREE;
    case TraceAction::kSegmentMap: return TorchEntry::SEGMENT_MAP;
    case TraceAction::kSegmentUnmap: return TorchEntry::SEGMENT_UNMAP;
    case TraceAction::kOom: return TorchEntry::OOM;
    case TraceAction::kSnapshot:
    case TraceAction::kAnnotate: break;
  }
  return TorchEntry::SNAPSHOT;
}

EntryParts parts_of(const TraceEntry& entry, c10::DeviceIndex device) {
  EntryParts parts{};
  parts.action = to_torch(entry.action);
  parts.device = device;
  parts.address = entry.address.value();
  parts.bytes = entry.bytes;
  parts.stream = to_stream_handle(entry.stream);
  parts.pool = {entry.pool.capture, entry.pool.user};
  return parts;
}

}  // namespace

// Adds one device to a snapshot.
class NativeAllocator::SnapshotBuilder final : public SnapshotVisitor {
 public:
  SnapshotBuilder(caching::SnapshotInfo& info, const OpenDevice& open)
      : info_(info), open_(open), trace_(info.device_traces[static_cast<size_t>(open.index)]) {}

  void visit(const SnapshotSegment& segment, uint64_t creation_number) override {
    auto& added = info_.segments.emplace_back();
    added.device = open_.index;
    added.address = segment.address.value();
    added.total_size = segment.total_bytes;
    added.requested_size = segment.requested_bytes;
    added.allocated_size = segment.allocated_bytes;
    added.active_size = segment.active_bytes;
    added.stream = static_cast<GpuStreamHandle>(to_stream_handle(segment.stream));
    added.is_large = segment.is_large;
    added.is_expandable = segment.is_expandable;
    added.owner_private_pool_id = {segment.pool.capture, segment.pool.user};
    added.context_when_allocated = open_.stacks.find(segment.stack.value());
    set_registration_counter(added, creation_number);
    for (const SnapshotBlock& block : segment.blocks) {
      auto& part = added.blocks.emplace_back();
      part.size = block.bytes;
      part.requested_size = block.requested_bytes;
      part.allocated = block.state == SnapshotBlockState::kAllocated;
      part.active = block.state != SnapshotBlockState::kInactive;
      part.context_when_allocated = open_.stacks.find(block.stack.value());
    }
  }

  void visit(const TraceEntry& entry, std::string_view compile_context,
             std::string_view user_metadata) override {
    if (entry.action == TraceAction::kAnnotate) return;
    EntryParts parts = parts_of(entry, open_.index);
    parts.context = open_.stacks.find(entry.stack.value());
    parts.compile_context = compile_context.empty() ? "N/A" : compile_context;
    parts.user_metadata = user_metadata;
    TorchEntry& added = trace_.emplace_back(make_torch_entry(std::move(parts)));
    added.time_.t_ = static_cast<time_t>(entry.time_us);
  }

  void visit_annotation(int64_t time_us, std::span<const TextField> fields) override {
    add_annotation(info_, open_.index, time_us, fields);
  }

 private:
  caching::SnapshotInfo& info_;
  const OpenDevice& open_;
  std::vector<TorchEntry>& trace_;
};

caching::SnapshotInfo NativeAllocator::snapshot(PoolIdPair pool, bool include_traces) {
  caching::SnapshotInfo info;
  size_t device_count = static_cast<size_t>(std::max(device_count_.load(), 0));
  for_each_open([&](OpenDevice& open) {
    device_count = std::max(device_count, static_cast<size_t>(open.index) + 1);
  });
  info.device_traces.resize(device_count);
  const PoolId wanted{pool.first, pool.second};
  for_each_open([&](OpenDevice& open) {
    SnapshotBuilder builder(info, open);
    check(open.bridge.snapshot(wanted.is_default() ? nullptr : &wanted, include_traces, builder));
  });
  fill_settings(info.config_metadata);
  return info;
}

Context NativeAllocator::getContextForPointer(const void* memory) {
  for (const std::atomic<OpenDevice*>& slot : devices_) {
    OpenDevice* open = slot.load(std::memory_order_acquire);
    if (open == nullptr) continue;
    if (const uint32_t stack = open->bridge.stack_of(memory)) return open->stacks.find(stack);
  }
  return nullptr;
}

// The history.

bool NativeAllocator::isHistoryEnabled() { return is_recording_.load(std::memory_order_relaxed); }

void NativeAllocator::recordHistory(bool enabled, caching::CreateContextFn recorder,
                                    size_t max_entries, caching::RecordContext when, bool clear,
                                    const std::vector<std::string>& skip_actions) {
  TORCH_CHECK(when == caching::RecordContext::NEVER || recorder != nullptr,
              "recordHistory: stacks need a recorder");
  HistorySettings settings;
  settings.enabled = enabled;
  settings.recorder = recorder;
  settings.max_entries = max_entries;
  settings.context = static_cast<ashlar_stacks>(when);
  settings.clear = clear;
  for (const std::string& name : skip_actions) settings.skip_actions.push_back(to_action(name));
  const std::lock_guard<std::mutex> lock(mutex_);
  for_each_open([&](OpenDevice& open) { apply_history(open, settings); });
  history_ = std::move(settings);
  is_recording_.store(enabled, std::memory_order_relaxed);
}

void NativeAllocator::apply_history(OpenDevice& open, const HistorySettings& settings) const {
  if (!settings.enabled) {
    open.bridge.stop_history();
    open.stacks.set_recorder(nullptr);
    open.stacks.drop_unused();
    return;
  }
  open.stacks.set_recorder(settings.recorder);
  HistoryRequest request;
  request.max_entries = settings.max_entries;
  request.context = settings.context;
  request.clear = settings.clear;
  request.skip_actions = settings.skip_actions;
  request.recorder = [&open] { return open.stacks.record(); };
  check(open.bridge.start_history(request));
}

void NativeAllocator::recordAnnotation(
    const std::vector<std::pair<std::string, std::string>>& fields) {
  if (!isHistoryEnabled()) return;
  const std::vector<TextField> views(fields.begin(), fields.end());
  check(device(current_device()).bridge.annotate(views));
}

void NativeAllocator::pushCompileContext(std::string& name) {
  if (isHistoryEnabled()) bridge_.push_compile_context(name);
}

void NativeAllocator::popCompileContext() {
  if (isHistoryEnabled()) bridge_.pop_compile_context();
}

void NativeAllocator::setUserMetadata(const std::string& text) { bridge_.set_user_metadata(text); }

std::string NativeAllocator::getUserMetadata() {
  std::string text;
  bridge_.user_metadata([&](std::string_view view) { text = std::string(view); });
  return text;
}

// Hooks.

void NativeAllocator::attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for_each_open([&](OpenDevice& open) { add_observer(open, observer); });
  observers_.push_back(std::move(observer));
}

void NativeAllocator::add_observer(OpenDevice& open,
                                   const caching::OutOfMemoryObserver& observer) const {
  check(open.bridge.add_oom_observer([observer, index = open.index](const OomNotice& notice) {
    // The allocation has already failed. If the observer throws, the allocation reports the
    // observer's exception instead of the out-of-memory error.
    try {
      observer(index, notice.wanted_bytes, notice.limit_bytes, notice.device_free_bytes);
    } catch (...) {
      if (callback_failure() == nullptr) callback_failure() = std::current_exception();
    }
  }));
}

void NativeAllocator::attachAllocatorTraceTracker(caching::AllocatorTraceTracker tracker) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for_each_open([&](OpenDevice& open) { add_tracker(open, tracker); });
  trackers_.push_back(std::move(tracker));
}

void NativeAllocator::add_tracker(OpenDevice& open,
                                  const caching::AllocatorTraceTracker& tracker) const {
  check(open.bridge.add_tracker([tracker, index = open.index](const TraceEntry& entry) {
    try {
      tracker(make_torch_entry(parts_of(entry, index)));
    } catch (...) {  // the operation has already happened
      warn_of_current_exception("a tracker of the memory allocator failed");
    }
  }));
}

}  // namespace ashlar::torch::native
