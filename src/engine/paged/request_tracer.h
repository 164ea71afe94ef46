// SPDX-License-Identifier: Apache-2.0
//
// Records the engine's operations in the history, and queues them for trackers. Entries for one
// address are in order, since blocks are traced under the lock of their arena, and extents and
// segments under the engine's lock.
#pragma once

#include "engine/hooks.h"
#include "engine/paged/engine_mutex.h"
#include "engine/paged/pool/paged_pool.h"

namespace ashlar::paged {

class RequestTracer {
 public:
  RequestTracer(History& history, DeviceIndex device)
      : hooks_(history, device), history_(history) {}

  Hooks& hooks() { return hooks_; }
  bool has_trackers() const { return hooks_.has_trackers(); }
  bool is_on() const { return history_.is_on() || hooks_.has_trackers(); }
  // Calls the trackers. REQUIRES: no lock is held.
  void notify() { hooks_.notify(); }

  // Sets the call stack of the current operation, which entries about extents, segments and
  // completed frees contain.
  void set_stack(StackId stack) ASHLAR_REQUIRES(engine_lock) { stack_ = stack; }
  StackId stack() const ASHLAR_REQUIRES(engine_lock) { return stack_; }

  // The functions that take a block need the lock of its arena.
  void trace_alloc(const PagedBlock& block) {
    if (is_on()) trace(TraceAction::kAlloc, block, block.stack);
  }
  // Records a free that is requested and completed in one step.
  void trace_free(const PagedBlock& block, StackId stack) {
    if (is_on()) trace_immediate_free(block, stack);
  }
  void trace_free_requested(const PagedBlock& block, StackId stack) {
    if (is_on()) trace(TraceAction::kFreeRequested, block, stack);
  }
  void trace_free_completed(const PagedBlock& block) ASHLAR_REQUIRES(engine_lock) {
    if (is_on()) trace(TraceAction::kFreeCompleted, block, stack_);
  }
  // The next two functions are for the fast path, and record only into the history. REQUIRES: there
  // are no trackers. They are out of line and hot: if they were inlined, the compiler would
  // optimize the unlikely branch for size and copy the entry with a string instruction, which takes
  // as long as the whole request.
  [[gnu::noinline, gnu::hot]] static void record_alloc_fast(History& history,
                                                            const PagedBlock& block);
  [[gnu::noinline, gnu::hot]] static void record_free_fast(History& history,
                                                           const PagedBlock& block, StackId stack);

  // Records that a segment or an extent appears at, or disappears from, these addresses.
  void trace_memory(TraceAction action, const Arena& arena, AddressRange range)
      ASHLAR_REQUIRES(engine_lock);
  // Records that the extent moves to `range`, which belongs to a view of the arena.
  void trace_move(Extent& extent, AddressRange range, const Arena& arena)
      ASHLAR_REQUIRES(engine_lock);

 private:
  // If the stack of a free is unknown, uses the stack of the allocation.
  static History::Operation make_operation(TraceAction action, const PagedBlock& block,
                                           StackId stack) {
    return {action,
            false,
            stack != StackId() ? stack : block.stack,
            block.address,
            block.requested_bytes,
            block.stream,
            block.arena->pool.id};
  }
  static History::Operation make_free_operation(const PagedBlock& block, StackId stack) {
    History::Operation operation = make_operation(TraceAction::kFreeRequested, block, stack);
    operation.is_immediate_free = true;
    return operation;
  }
  // Out of line, so that callers pay nothing while nothing is traced.
  void trace(TraceAction action, const PagedBlock& block, StackId stack);
  void trace_immediate_free(const PagedBlock& block, StackId stack);

  Hooks hooks_;
  History& history_;
  StackId stack_ ASHLAR_GUARDED_BY(engine_lock);
};

}  // namespace ashlar::paged
