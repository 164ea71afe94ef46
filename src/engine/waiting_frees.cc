// SPDX-License-Identifier: Apache-2.0
//
// Setting aside, proving, and waiting.
#include "engine/waiting_frees.h"

#include <algorithm>

#include "base/text.h"
#include "device/relaxed_capture.h"
#include "device/stream_use.h"

namespace ashlar {

void WaitingFrees::record_use(Block* block, const StreamUse& use) {
  if (use.device == &device_ && use.stream == block->stream) return;
  const bool is_new = std::find(block->uses.begin(), block->uses.end(), use) == block->uses.end();
  if (is_new) block->uses.push_back(use);
  // A stream that was named outside of captures too has work of its own to be waited for.
  if (!is_capturing(use)) {
    const auto captured = capture_uses_.find(block);
    if (captured != capture_uses_.end()) std::erase(captured->second, use);
  } else if (is_new) {
    capture_uses_[block].push_back(use);
  }
}

Status WaitingFrees::add(Block* block) {
  if (involves_capture(*block)) {
    set_aside_.push_back(
        {block, reuse_within_captures_ ? free_markers(*block) : std::vector<NodeId>{}});
    return {};
  }
  Status added = pending_.add(block);
  // Some event could not be recorded: it is tried again before the next allocation. A stream that
  // is gone takes none any more, which is nobody's mistake: wait_for_gone_streams covers it.
  if (added.ok()) {
    capture_uses_.erase(block);
  } else {
    set_aside_.push_back({block, {}});
  }
  return added.is(StatusKind::kInvalidArgument) ? Status() : added;
}

Status WaitingFrees::collect(std::vector<Block*>& finished) {
  if (Status collected = collect_set_aside(finished); !collected.ok()) return collected;
  if (pending_.empty()) return {};
  const RelaxedCapture relaxed(device_, capture_count_);
  if (!relaxed.status().ok()) return relaxed.status();
  return pending_.collect_finished(finished);
}

Status WaitingFrees::collect_for(StreamId stream, std::vector<Block*>& finished) {
  if (empty()) return {};
  if (!is_capturing({&device_, stream})) return collect(finished);
  if (reuse_within_captures_) collect_within_capture(stream, finished);
  return {};
}

Status WaitingFrees::wait(std::vector<Block*>& finished,
                          const std::function<bool(const Block&)>& wanted) {
  const RelaxedCapture relaxed(device_, capture_count_);
  if (!relaxed.status().ok()) return relaxed.status();
  if (Status collected = collect_set_aside(finished); !collected.ok()) return collected;
  if (Status waited = wait_for_gone_streams(finished); !waited.ok()) return waited;
  return pending_.wait_for_all(finished, wanted);
}

// --- captures -----------------------------------------------------------------------------------

Status WaitingFrees::capture_ended() {
  if (capture_count_ == 0) return Status::invalid_argument("no capture has begun that could end");
  --capture_count_;
  return {};
}

bool WaitingFrees::is_capturing(const StreamUse& use) const {
  // The count is of this device's captures; others have theirs.
  if (capture_count_ == 0 && use.device == &device_) return false;
  // A device that cannot tell leaves us on the safe side.
  const Result<CaptureState> state = capture_state(use);
  if (state.status().is(StatusKind::kInvalidArgument)) return false;  // a stream that is gone
  return !state.ok() || state->status != CaptureStatus::kNone;
}

bool WaitingFrees::is_waitable(const StreamUse& use) const {
  if (capture_count_ == 0 && use.device == &device_) return true;
  const Result<CaptureState> state = capture_state(use);
  if (state.status().is(StatusKind::kInvalidArgument)) return use.device != &device_;  // gone
  return state.ok() && state->status == CaptureStatus::kNone;
}

Status WaitingFrees::wait_for_stream(const StreamUse& use) const {
  if (capture_count_ == 0 || use.device != &device_) return wait_for(use);
  Status waited = use.device->synchronize_stream(use.stream);
  if (!waited.is(StatusKind::kInvalidArgument)) return waited;
  return Status::device_fault("synchronize_stream", 0,
                              text("stream ", use.stream.value(),
                                   " was destroyed, and what it had left to do cannot be waited "
                                   "for during a capture: try again after it"));
}

bool WaitingFrees::involves_capture(const Block& block) const {
  bool involved = is_capturing({&device_, block.stream});
  for (const StreamUse& use : block.uses) involved = involved || is_capturing(use);
  return involved;
}

// The last nodes so far of every stream that uses the block. Empty if some stream is not part of
// the capture: then its graph proves nothing.
std::vector<NodeId> WaitingFrees::free_markers(const Block& block) const {
  std::vector<StreamUse> streams = block.uses;
  streams.push_back({&device_, block.stream});
  std::vector<NodeId> markers;
  GraphId graph;
  for (const StreamUse& use : streams) {
    const Result<CaptureState> state = use.device->capture_state(use.stream);
    const bool active = state.ok() && state->status == CaptureStatus::kActive;
    if (!active || (graph != GraphId() && state->graph != graph)) return {};
    graph = state->graph;
    markers.insert(markers.end(), state->tail.begin(), state->tail.end());
  }
  return markers;
}

// What the stream's capture has finished with, as its graph shows.
void WaitingFrees::collect_within_capture(StreamId stream, std::vector<Block*>& finished) {
  const auto is_candidate = [&](const SetAside& each) {
    return each.block->stream == stream && !each.markers.empty();
  };
  if (std::none_of(set_aside_.begin(), set_aside_.end(), is_candidate)) return;
  const Result<CaptureState> state = device_.capture_state(stream);
  if (!state.ok() || state->status != CaptureStatus::kActive) return;
  const std::unordered_set<NodeId>& behind = nodes_behind(stream, *state);
  std::erase_if(set_aside_, [&](const SetAside& each) {
    const bool is_behind =
        is_candidate(each) && std::all_of(each.markers.begin(), each.markers.end(),
                                          [&](NodeId node) { return behind.contains(node); });
    if (is_behind) {
      each.block->uses.clear();
      capture_uses_.erase(each.block);
      finished.push_back(each.block);
    }
    return is_behind;
  });
}

// Everything that comes before the stream's next node. What was seen once is not walked again.
const std::unordered_set<NodeId>& WaitingFrees::nodes_behind(StreamId stream,
                                                             const CaptureState& state) {
  std::unordered_set<NodeId>& behind = behind_[{state.capture, stream}];
  std::vector<NodeId> left = state.tail;
  while (!left.empty()) {
    const NodeId node = left.back();
    left.pop_back();
    if (!behind.insert(node).second) continue;
    const Result<std::vector<NodeId>> before = device_.node_dependencies(node);
    if (before.ok()) left.insert(left.end(), before->begin(), before->end());
  }
  return behind;
}

// Uses declared during the capture were the graph's business and are over with it.
void WaitingFrees::drop_captured_uses(Block* block) {
  const auto captured = capture_uses_.find(block);
  if (captured == capture_uses_.end()) return;
  std::erase_if(block->uses, [&](const StreamUse& use) {
    const std::vector<StreamUse>& uses = captured->second;
    return std::find(uses.begin(), uses.end(), use) != uses.end();
  });
  capture_uses_.erase(captured);
}

Status WaitingFrees::collect_set_aside(std::vector<Block*>& finished) {
  std::vector<SetAside> left;
  Status status;
  for (SetAside& each : std::exchange(set_aside_, {})) {
    Block* block = each.block;
    if (!status.ok() || involves_capture(*block)) {
      left.push_back(std::move(each));
      continue;
    }
    drop_captured_uses(block);
    status = pending_.add(block);
    const bool stream_is_gone = status.is(StatusKind::kInvalidArgument);
    if (stream_is_gone) status = {};
    if (stream_is_gone || !status.ok()) {
      left.push_back(std::move(each));
    } else if (block->event_count == 0) {
      finished.push_back(block);
    }
  }
  set_aside_ = std::move(left);
  return status;
}

// Blocks used by streams that were destroyed before an event could be recorded there: only a wait
// for the device covers what those had left to do. During a capture it would break that.
Status WaitingFrees::wait_for_gone_streams(std::vector<Block*>& finished) {
  if (capture_count_ != 0) return {};
  std::vector<SetAside> left;
  Status status;
  for (SetAside& each : std::exchange(set_aside_, {})) {
    Block* block = each.block;
    const bool may_wait = status.ok() && !involves_capture(*block);
    while (may_wait && status.ok() && !block->uses.empty()) {
      status = block->uses.back().device->synchronize_device();
      if (status.ok()) block->uses.pop_back();
    }
    if (!may_wait || !status.ok()) {
      left.push_back(std::move(each));
      continue;
    }
    capture_uses_.erase(block);
    if (block->event_count == 0) finished.push_back(block);
  }
  set_aside_ = std::move(left);
  return status;
}

}  // namespace ashlar
