// Blocks freed while streams that use them are capturing: an event would become part of the graph,
// so they are set aside until those captures are over. With capture_stream_reuse they can be had
// earlier, by the capture itself: where the graph proves that everything that used a block comes
// before whatever the stream does next.
#include <algorithm>

#include "device/stream_use.h"
#include "engine/classic/classic_engine.h"

namespace ashlar::classic {

bool ClassicEngine::is_capturing(const StreamUse& use) const {
  // The count is of this device's captures; others have theirs.
  if (capture_count_ == 0 && use.device == &device_) return false;
  const Result<CaptureState> state = capture_state(use);
  if (state.status().is(StatusKind::kUsage)) return false;  // a stream that is gone
  // A device that cannot tell leaves us on the safe side.
  return !state.ok() || state->status != CaptureStatus::kNone;
}

bool ClassicEngine::involves_capture(const Block& block) const {
  bool involved = is_capturing({&device_, block.stream});
  for (const StreamUse& use : block.uses) involved = involved || is_capturing(use);
  return involved;
}

void ClassicEngine::defer(Block* block) {
  deferred_.push_back(
      {block, options_.capture_stream_reuse ? free_markers(*block) : std::vector<NodeId>{}});
}

// The last nodes so far of every stream that uses the block. Empty if some stream is not part of
// the capture: then its graph proves nothing.
std::vector<NodeId> ClassicEngine::free_markers(const Block& block) const {
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

// Makes free what the stream's capture has finished with, as its graph shows.
void ClassicEngine::reuse_within_capture(StreamId stream) {
  const auto is_candidate = [&](const Deferred& each) {
    return each.block->stream == stream && !each.markers.empty();
  };
  if (std::none_of(deferred_.begin(), deferred_.end(), is_candidate)) return;
  const Result<CaptureState> state = device_.capture_state(stream);
  if (!state.ok() || state->status != CaptureStatus::kActive) return;
  const std::unordered_set<NodeId>& behind = nodes_behind(stream, *state);
  std::vector<Block*> proven;
  std::erase_if(deferred_, [&](const Deferred& each) {
    const bool is_behind =
        is_candidate(each) && std::all_of(each.markers.begin(), each.markers.end(),
                                          [&](NodeId node) { return behind.contains(node); });
    if (is_behind) proven.push_back(each.block);
    return is_behind;
  });
  for (Block* block : proven) {
    block->uses.clear();
    make_free(block);
  }
}

// Everything that comes before the stream's next node. What was seen once is not walked again.
const std::unordered_set<NodeId>& ClassicEngine::nodes_behind(StreamId stream,
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

// Uses declared during the capture were the graph's business and are over with it; those from
// before need their events now. What still is part of a capture stays.
Status ClassicEngine::resolve_deferred() {
  std::vector<Deferred> left;
  Status status;
  for (Deferred& each : std::exchange(deferred_, {})) {
    Block* block = each.block;
    if (!status.ok() || involves_capture(*block)) {
      left.push_back(std::move(each));
      continue;
    }
    if (const auto captured = capture_uses_.find(block); captured != capture_uses_.end()) {
      std::erase_if(block->uses, [&](const StreamUse& use) {
        const std::vector<StreamUse>& uses = captured->second;
        return std::find(uses.begin(), uses.end(), use) != uses.end();
      });
      capture_uses_.erase(captured);
    }
    status = pending_.add(block);
    const bool stream_is_gone = status.is(StatusKind::kUsage);
    if (stream_is_gone) status = {};
    if (stream_is_gone || !status.ok()) {
      left.push_back(std::move(each));
    } else if (block->event_count == 0) {
      make_free(block);
    }
  }
  deferred_ = std::move(left);
  return status;
}

// Blocks used by streams that were destroyed before an event could be recorded there: only a wait
// for the device covers what those had left to do. During a capture it would break that.
Status ClassicEngine::wait_for_gone_streams() {
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
      make_free(block);
    }
  }
  deferred_ = std::move(left);
  return status;
}

}  // namespace ashlar::classic
