// SPDX-License-Identifier: Apache-2.0
//
// Builds the entries for the history and for trackers.
#include "engine/paged/request_tracer.h"

namespace ashlar::paged {

void RequestTracer::record_alloc_fast(History& history, const PagedBlock& block) {
  history.record_fast([&] { return make_operation(TraceAction::kAlloc, block, block.stack); });
}

void RequestTracer::record_free_fast(History& history, const PagedBlock& block, StackId stack) {
  history.record_fast([&] { return make_free_operation(block, stack); });
}

void RequestTracer::trace(TraceAction action, const PagedBlock& block, StackId stack) {
  hooks_.record(make_operation(action, block, stack));
}

void RequestTracer::trace_immediate_free(const PagedBlock& block, StackId stack) {
  hooks_.record(make_free_operation(block, stack));
}

void RequestTracer::trace_memory(TraceAction action, const Arena& arena, AddressRange range) {
  if (!hooks_.is_observed()) return;
  TraceEntry entry;
  entry.action = action;
  entry.address = range.begin;
  entry.bytes = range.bytes;
  entry.stream = arena.stream;
  entry.pool = arena.pool.id;
  entry.stack = stack_;
  hooks_.record(entry);
}

void RequestTracer::trace_move(Extent& extent, AddressRange range, const Arena& arena) {
  if (extent.traced.bytes != 0) {
    trace_memory(TraceAction::kSegmentUnmap, *extent.arena, extent.traced);
  }
  trace_memory(TraceAction::kSegmentMap, arena, range);
  extent.traced = range;
}

}  // namespace ashlar::paged
