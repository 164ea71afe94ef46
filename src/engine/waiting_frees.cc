// Setting aside, proving, and waiting.
#include "engine/waiting_frees.h"

#include <algorithm>

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

Status WaitingFrees::add(Block* block, std::vector<Block*>& finished) {
  if (block->uses.empty()) {
    finish(block, finished);
    return {};
  }
  if (involves_capture(*block)) {
    deferred_.push_back(
        {block, reuse_within_captures_ ? free_markers(*block) : std::vector<NodeId>{}});
    return {};
  }
  Status added = pending_.add(block);
  // Some event could not be recorded: it is tried again before the next allocation. A stream that
  // is gone takes none any more, which is nobody's mistake: wait_for_gone_streams covers it.
  if (!added.ok()) deferred_.push_back({block, {}});
  return added.is(StatusKind::kUsage) ? Status() : added;
}

void WaitingFrees::finish(Block* block, std::vector<Block*>& finished) {
  if (!capture_uses_.empty()) capture_uses_.erase(block);
  finished.push_back(block);
}

Status WaitingFrees::collect(std::vector<Block*>& finished) {
  if (Status resolved = resolve_deferred(finished); !resolved.ok()) return resolved;
  if (pending_.empty()) return {};
  const RelaxedCapture relaxed(device_, capture_count_);
  if (!relaxed.status().ok()) return relaxed.status();
  return pending_.collect_finished(finished);
}

Status WaitingFrees::wait(std::vector<Block*>& finished,
                          const std::function<bool(const Block&)>& wanted) {
  const RelaxedCapture relaxed(device_, capture_count_);
  if (!relaxed.status().ok()) return relaxed.status();
  if (Status resolved = resolve_deferred(finished); !resolved.ok()) return resolved;
  if (Status waited = wait_for_gone_streams(finished); !waited.ok()) return waited;
  return pending_.wait_for_all(finished, wanted);
}

// --- captures
// ---------------------------------------------------------------------------------------

Status WaitingFrees::capture_ended() {
  if (capture_count_ == 0) return Status::usage("no capture has begun that could end");
  --capture_count_;
  return {};
}

bool WaitingFrees::is_capturing(const StreamUse& use) const {
  // The count is of this device's captures; others have theirs.
  if (capture_count_ == 0 && use.device == &device_) return false;
  // A device that cannot tell leaves us on the safe side.
  const Result<CaptureState> state = capture_state(use);
  if (state.status().is(StatusKind::kUsage)) return false;  // a stream that is gone
  return !state.ok() || state->status != CaptureStatus::kNone;
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

void WaitingFrees::collect_within_capture(StreamId stream, std::vector<Block*>& finished) {
  if (!reuse_within_captures_) return;
  const auto is_candidate = [&](const Deferred& each) {
    return each.block->stream == stream && !each.markers.empty();
  };
  if (std::none_of(deferred_.begin(), deferred_.end(), is_candidate)) return;
  const Result<CaptureState> state = device_.capture_state(stream);
  if (!state.ok() || state->status != CaptureStatus::kActive) return;
  const std::unordered_set<NodeId>& behind = nodes_behind(stream, *state);
  std::erase_if(deferred_, [&](const Deferred& each) {
    const bool is_behind =
        is_candidate(each) && std::all_of(each.markers.begin(), each.markers.end(),
                                          [&](NodeId node) { return behind.contains(node); });
    if (is_behind) {
      each.block->uses.clear();
      finish(each.block, finished);
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

// What a capture does not hold any more gets its events now; the rest stays.
Status WaitingFrees::resolve_deferred(std::vector<Block*>& finished) {
  if (deferred_.empty()) return {};
  std::vector<Deferred> left;
  Status status;
  for (Deferred& each : std::exchange(deferred_, {})) {
    Block* block = each.block;
    if (!status.ok() || involves_capture(*block)) {
      left.push_back(std::move(each));
      continue;
    }
    drop_captured_uses(block);
    status = pending_.add(block);
    const bool stream_is_gone = status.is(StatusKind::kUsage);
    if (stream_is_gone) status = {};
    if (stream_is_gone || !status.ok()) {
      left.push_back(std::move(each));
    } else if (block->event_count == 0) {
      finish(block, finished);
    }
  }
  deferred_ = std::move(left);
  return status;
}

// Blocks used by streams that were destroyed before an event could be recorded there: only a wait
// for the device covers what those had left to do. During a capture it would break that.
Status WaitingFrees::wait_for_gone_streams(std::vector<Block*>& finished) {
  if (capture_count_ != 0) return {};
  std::vector<Deferred> left;
  Status status;
  for (Deferred& each : std::exchange(deferred_, {})) {
    Block* block = each.block;
    const bool may_wait = status.ok() && !involves_capture(*block);
    while (may_wait && status.ok() && !block->uses.empty()) {
      status = block->uses.back().device->synchronize_device();
      if (status.ok()) block->uses.pop_back();
    }
    if (!may_wait || !status.ok()) {
      left.push_back(std::move(each));
    } else if (block->event_count == 0) {
      finish(block, finished);
    }
  }
  deferred_ = std::move(left);
  return status;
}

}  // namespace ashlar
