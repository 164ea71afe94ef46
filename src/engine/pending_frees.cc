// SPDX-License-Identifier: Apache-2.0
//
// Defers frees during captures, completes them by graph ancestry, and waits for pending frees.
#include "engine/pending_frees.h"

#include <algorithm>
#include <new>

#include "base/host_memory.h"
#include "base/text.h"
#include "device/relaxed_capture.h"
#include "device/stream_use.h"

namespace ashlar {

void PendingFrees::record_use(Block* block, const DeviceStream& use) {
  if (use.device == &device_ && use.stream == block->stream) return;
  const bool is_new = std::find(block->uses.begin(), block->uses.end(), use) == block->uses.end();
  if (is_new) add_use(block, use);
  if (!is_capturing(use)) {
    // This use is not part of a graph, so it needs an event even if an earlier use by the same
    // stream was captured.
    const auto captured = capture_uses_.find(block);
    if (captured != capture_uses_.end()) std::erase(captured->second, use);
  } else if (is_new) {
    ScopeGuard undo([&] { remove_newest_use(block); });
    capture_uses_[block].push_back(use);
    undo.dismiss();
  }
}

void PendingFrees::add_use(Block* block, const DeviceStream& use) {
  const bool is_first = block->uses.empty();
  if (is_first) reserve_amortized(deferred_, used_block_count_ + 1);
  block->uses.push_back(use);
  if (is_first) ++used_block_count_;
}

void PendingFrees::remove_newest_use(Block* block) {
  block->uses.pop_back();
  if (block->uses.empty()) --used_block_count_;
}

Status PendingFrees::add(Block* block) noexcept {
  if (involves_capture(*block)) {
    deferred_.push_back(
        {block, reuse_within_captures_ ? free_markers(*block) : std::vector<NodeId>{}});
    return {};
  }
  Status added = pending_.add(block);
  // If events could not be recorded, the next collection retries. A destroyed stream accepts no
  // events, which is not an error: wait_for_destroyed_streams handles it.
  if (added.ok()) {
    capture_uses_.erase(block);
    return {};
  }
  deferred_.push_back({block, {}});
  const bool is_failure =
      !added.is(StatusKind::kInvalidArgument) && !added.is(StatusKind::kHostOutOfMemory);
  return is_failure ? added : Status();
}

template <typename Collect>
Status PendingFrees::count_finished(std::vector<Block*>& finished, const Collect& collect) {
  const size_t before = finished.size();
  Status collected = without_bad_alloc(collect);
  used_block_count_ -= std::min(used_block_count_, finished.size() - before);
  return collected;
}

Status PendingFrees::collect(std::vector<Block*>& finished) {
  return count_finished(finished, [&] { return collect_unfinished(finished); });
}

Status PendingFrees::collect_unfinished(std::vector<Block*>& finished) {
  if (Status collected = retry_deferred(finished); !collected.ok()) return collected;
  if (pending_.empty()) return {};
  const RelaxedCapture relaxed(device_, capture_count_);
  if (!relaxed.status().ok()) return relaxed.status();
  return pending_.collect_finished(finished);
}

Status PendingFrees::collect_for_stream(StreamId stream, std::vector<Block*>& finished) {
  if (empty()) return {};
  if (!is_capturing({&device_, stream})) return collect(finished);
  if (!reuse_within_captures_) return {};
  return count_finished(finished, [&] {
    collect_within_capture(stream, finished);
    return Status();
  });
}

Status PendingFrees::collect_deferred(std::vector<Block*>& finished) {
  return count_finished(finished, [&] { return retry_deferred(finished); });
}

Status PendingFrees::wait(std::vector<Block*>& finished,
                          const std::function<bool(const Block&)>& wanted) {
  const RelaxedCapture relaxed(device_, capture_count_);
  if (!relaxed.status().ok()) return relaxed.status();
  return count_finished(finished, [&]() -> Status {
    if (Status collected = retry_deferred(finished); !collected.ok()) return collected;
    if (Status waited = wait_for_destroyed_streams(finished); !waited.ok()) return waited;
    return pending_.wait_for_all(finished, wanted);
  });
}

// Captures.

Status PendingFrees::capture_ended() {
  if (capture_count_ == 0)
    return Status::invalid_argument("capture_ended without a matching capture_began");
  --capture_count_;
  return {};
}

bool PendingFrees::is_capturing(const DeviceStream& use) const {
  // capture_count_ counts the captures of device_ only, so streams of other devices are queried.
  if (capture_count_ == 0 && use.device == &device_) return false;
  // If the query fails, assume a capture.
  const Result<CaptureState> state = capture_state(use);
  if (state.status().is(StatusKind::kInvalidArgument)) return false;  // the stream was destroyed
  return !state.ok() || state->status != CaptureStatus::kNone;
}

bool PendingFrees::is_waitable(const DeviceStream& use) const {
  if (capture_count_ == 0 && use.device == &device_) return true;
  const Result<CaptureState> state = capture_state(use);
  if (state.status().is(StatusKind::kInvalidArgument))
    return use.device != &device_;  // the stream was destroyed
  return state.ok() && state->status == CaptureStatus::kNone;
}

Status PendingFrees::wait_for_stream(const DeviceStream& use) const {
  if (capture_count_ == 0 || use.device != &device_) return wait_for(use);
  Status waited = use.device->synchronize_stream(use.stream);
  if (!waited.is(StatusKind::kInvalidArgument)) return waited;
  return Status::device_fault("synchronize_stream", 0,
                              text("stream ", use.stream.value(),
                                   " was destroyed; its remaining work cannot be waited for "
                                   "during a capture: retry after the capture"));
}

bool PendingFrees::involves_capture(const Block& block) const {
  bool involved = is_capturing({&device_, block.stream});
  for (const DeviceStream& use : block.uses) involved = involved || is_capturing(use);
  return involved;
}

// Returns the last nodes so far of every stream that uses the block. Empty if host memory is
// exhausted, or if the streams are not all part of one capture, because then no single graph orders
// the uses.
std::vector<NodeId> PendingFrees::free_markers(const Block& block) const noexcept {
  std::vector<NodeId> markers;
  GraphId graph;
  const auto add_markers = [&](const DeviceStream& use) {
    const Result<CaptureState> state = use.device->capture_state(use.stream);
    const bool active = state.ok() && state->status == CaptureStatus::kActive;
    if (!active || (graph != GraphId() && state->graph != graph)) return false;
    graph = state->graph;
    markers.insert(markers.end(), state->tail.begin(), state->tail.end());
    return true;
  };
  try {
    const bool are_known = std::all_of(block.uses.begin(), block.uses.end(), add_markers) &&
                           add_markers({&device_, block.stream});
    return are_known ? markers : std::vector<NodeId>();
  } catch (const std::bad_alloc&) {
    return {};
  }
}

// Collects the blocks that, according to the graph of the stream's capture, are no longer in use.
void PendingFrees::collect_within_capture(StreamId stream, std::vector<Block*>& finished) {
  const auto is_candidate = [&](const DeferredFree& each) {
    return each.block->stream == stream && !each.markers.empty();
  };
  if (std::none_of(deferred_.begin(), deferred_.end(), is_candidate)) return;
  const Result<CaptureState> state = device_.capture_state(stream);
  if (!state.ok() || state->status != CaptureStatus::kActive) return;
  const std::unordered_set<NodeId>& ancestors = ancestors_of(stream, *state);
  finished.reserve(finished.size() + deferred_.size());
  std::erase_if(deferred_, [&](const DeferredFree& each) {
    const bool is_finished =
        is_candidate(each) && std::all_of(each.markers.begin(), each.markers.end(),
                                          [&](NodeId node) { return ancestors.contains(node); });
    if (is_finished) {
      each.block->uses.clear();
      capture_uses_.erase(each.block);
      finished.push_back(each.block);
    }
    return is_finished;
  });
}

// Returns all nodes that precede the stream's next node. Caches nodes between calls.
const std::unordered_set<NodeId>& PendingFrees::ancestors_of(StreamId stream,
                                                             const CaptureState& state) {
  const auto entry = ancestors_.try_emplace({state.capture, stream}).first;
  ScopeGuard erase_incomplete([&] { ancestors_.erase(entry); });
  std::unordered_set<NodeId>& ancestors = entry->second;
  std::vector<NodeId> left = state.tail;
  while (!left.empty()) {
    const NodeId node = left.back();
    left.pop_back();
    if (!ancestors.insert(node).second) continue;
    const Result<std::vector<NodeId>> before = device_.node_dependencies(node);
    if (before.ok()) left.insert(left.end(), before->begin(), before->end());
  }
  erase_incomplete.dismiss();
  return ancestors;
}

// Removes the block's uses that were declared during a capture: they belong to its graph and need
// no event.
void PendingFrees::drop_captured_uses(Block* block) {
  const auto captured = capture_uses_.find(block);
  if (captured == capture_uses_.end()) return;
  std::erase_if(block->uses, [&](const DeviceStream& use) {
    const std::vector<DeviceStream>& uses = captured->second;
    return std::find(uses.begin(), uses.end(), use) != uses.end();
  });
  capture_uses_.erase(captured);
}

// No code inside erase_if allocates host memory, except for events, whose failure is returned as a
// status.
Status PendingFrees::retry_deferred(std::vector<Block*>& finished) {
  finished.reserve(finished.size() + deferred_.size());
  Status status;
  std::erase_if(deferred_, [&](const DeferredFree& each) {
    Block* block = each.block;
    if (!status.ok() || involves_capture(*block)) return false;
    drop_captured_uses(block);
    Status added = pending_.add(block);
    if (!added.ok()) {
      const bool stream_is_destroyed = added.is(StatusKind::kInvalidArgument);
      if (!stream_is_destroyed) status = std::move(added);
      return false;
    }
    if (block->event_count == 0) finished.push_back(block);
    return true;
  });
  return status;
}

// Handles blocks used by streams that were destroyed before an event could be recorded. Only a wait
// for the whole device covers the remaining work of such a stream. That wait would invalidate a
// capture, so this function does nothing during captures. Call after retry_deferred.
Status PendingFrees::wait_for_destroyed_streams(std::vector<Block*>& finished) {
  if (capture_count_ != 0) return {};
  finished.reserve(finished.size() + deferred_.size());
  Status status;
  std::erase_if(deferred_, [&](const DeferredFree& each) {
    Block* block = each.block;
    if (!status.ok() || involves_capture(*block)) return false;
    while (status.ok() && !block->uses.empty()) {
      status = block->uses.back().device->synchronize_device();
      if (status.ok()) block->uses.pop_back();
    }
    if (!status.ok()) return false;
    capture_uses_.erase(block);
    if (block->event_count == 0) finished.push_back(block);
    return true;
  });
  return status;
}

}  // namespace ashlar
