// SPDX-License-Identifier: Apache-2.0
//
// Builds trace entries from blocks.
#include "engine/classic/tracing.h"

#include "engine/classic/pool_table.h"

namespace ashlar::classic {
namespace {

TraceEntry entry_with_pool(TraceAction action, const ClassicBlock& block, size_t bytes) {
  TraceEntry entry = make_entry(action, block, bytes);
  if (const PrivatePool* owner = block.pool->owner()) entry.pool = owner->id;
  return entry;
}

}  // namespace

// If the caller has no stack, records the stack that allocated the block or its segment.
void Tracer::record(TraceAction action, const ClassicBlock& block, size_t bytes) {
  if (!hooks_.is_observed()) return;
  const bool is_free =
      action == TraceAction::kFreeRequested || action == TraceAction::kFreeCompleted;
  const StackId fallback = is_free ? block.stack : block.segment_stack;
  TraceEntry entry = entry_with_pool(action, block, bytes);
  entry.stack = caller_stack_ == StackId() ? fallback : caller_stack_;
  hooks_.record(entry);
}

void Tracer::record_annotation(const ClassicBlock& block, const std::string& text) {
  hooks_.record_annotation(entry_with_pool(TraceAction::kAnnotate, block, block.requested_bytes),
                           text);
}

}  // namespace ashlar::classic
