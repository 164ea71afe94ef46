// SPDX-License-Identifier: Apache-2.0
//
// Captures of a run: which frees the engine must defer, and until when.
#include <algorithm>

#include "run.h"

namespace ashlar::model {

void Run::begin_capture(size_t slot, StreamId stream) {
  if (capture_.is_active() || stream == kDefaultStream) return;
  route(slot, stream);
  finish(stream);
  engine_->capture_began();
  const Status begun = device().begin_capture(stream, CaptureMode::kGlobal);
  if (!begun.ok()) disagree(begun.to_string());
  capture_.begin(stream);
  model_.set_capturing(capture_.streams());
}

void Run::work(StreamId stream) {
  if (!capture_.includes(stream)) return;
  if (Status queued = device().call_host(stream, [] {}); !queued.ok()) disagree(queued.to_string());
  capture_.work(stream);
}

// A stream outside the capture cannot be ordered before one inside: that would break the capture.
void Run::order(StreamId first, StreamId then) {
  const bool can_join = then != kDefaultStream && first != then;
  if (!capture_.includes(first) || !can_join) return;
  finish(then);
  const EventId event = *device().create_event();
  Status ordered = device().record_event(event, first);
  if (ordered.ok()) ordered = device().wait_event(then, event);
  if (!ordered.ok()) disagree(ordered.to_string());
  (void)device().destroy_event(event).ok();
  capture_.order(first, then);
  model_.set_capturing(capture_.streams());
}

// The device reports whether the engine broke the capture.
void Run::end_capture() {
  if (!capture_.is_active()) return;
  const StreamId origin = capture_.origin();
  for (StreamId stream : std::vector(capture_.streams())) order(stream, origin);
  const Result<GraphId> graph = device().end_capture(origin);
  if (!graph.ok()) disagree(graph.status().to_string());
  if (graph.ok()) (void)device().destroy_graph(*graph).ok();
  if (!engine_->capture_ended().ok()) disagree("the capture did not end");
  capture_.end();
  model_.set_capturing({});
  keep_all_busy();
}

bool Run::involves_capture(const Live& live) const {
  return capture_.includes(live.block->stream) ||
         std::any_of(live.uses.begin(), live.uses.end(),
                     [&](StreamId stream) { return capture_.includes(stream); });
}

// Blocks that no capture uses any more wait for their other uses.
void Run::resolve_deferred() {
  std::erase_if(deferred_, [&](const DeferredFree& each) {
    if (involves_capture(each.live)) return false;
    std::set<StreamId> left;
    for (StreamId stream : each.live.uses) {
      const bool waits = !each.live.capture_uses.contains(stream) && busy_.contains(stream);
      if (waits) left.insert(stream);
    }
    pending_[each.live.address] = left;
    return true;
  });
}

void Run::reuse_within_capture(StreamId stream) {
  if (!reuses_) return;
  std::erase_if(deferred_, [&](const DeferredFree& each) {
    const bool is_candidate = each.live.block->stream == stream && !each.markers.empty();
    if (!is_candidate || !capture_.are_behind(stream, each.markers)) return false;
    model_.complete(each.live.address);
    return true;
  });
}

}  // namespace ashlar::model
