// SPDX-License-Identifier: Apache-2.0
//
// The captures of a run. Models which frees the engine must defer during a capture, and until when.
#include <algorithm>

#include "classic_run.h"

namespace ashlar::model {

void ClassicRun::begin_capture(size_t slot, StreamId stream) {
  if (capture_.is_active() || stream == kDefaultStream) return;
  route(slot, stream);
  finish(stream);
  engine_->capture_began();
  const Status begun = device().begin_capture(stream, CaptureMode::kGlobal);
  if (!begun.ok()) disagree(begun.to_string());
  capture_.begin(stream);
  model_.set_capturing(capture_.streams());
}

void ClassicRun::work(StreamId stream) {
  if (!capture_.includes(stream)) return;
  if (Status queued = device().call_host(stream, [] {}); !queued.ok()) disagree(queued.to_string());
  capture_.work(stream);
}

// Makes `then` wait for the work on `first` and so join the capture. Does nothing unless `first` is
// capturing, because waiting for a stream outside the capture would invalidate the capture.
void ClassicRun::order(StreamId first, StreamId then) {
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

// Ends the capture. The device returns an error if the engine has invalidated the capture.
void ClassicRun::end_capture() {
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

bool ClassicRun::involves_capture(const Live& live) const {
  return capture_.includes(live.block->stream) ||
         std::any_of(live.uses.begin(), live.uses.end(),
                     [&](StreamId stream) { return capture_.includes(stream); });
}

// Turns deferred frees that no capture uses any more into pending frees, which wait for the other
// uses of the block.
void ClassicRun::resolve_deferred() {
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

void ClassicRun::reuse_within_capture(StreamId stream) {
  if (!has_capture_reuse_) return;
  std::erase_if(deferred_, [&](const DeferredFree& each) {
    const bool is_candidate = each.live.block->stream == stream && !each.markers.empty();
    if (!is_candidate || !capture_.all_precede(stream, each.markers)) return false;
    model_.complete(each.live.address);
    return true;
  });
}

}  // namespace ashlar::model
