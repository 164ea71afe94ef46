// SPDX-License-Identifier: Apache-2.0
//
// How the public API allocates and frees blocks: on the engine's fast path if possible, and with
// the caller's stack if the history records it. `caller` is the return address of the public
// function; recorded stacks begin there.
#pragma once

#include <new>

#include "api/unwrap.h"
#include "engine/engine.h"

namespace ashlar {

// Out of line, so that callers that record no stacks pay nothing.
[[gnu::noinline]] inline StackId capture_stack_slow(Engine& engine, RecordContext from,
                                                    const void* caller) {
  unwrap(engine.check_not_forked());
  return engine.history().capture(from, caller);
}

// The next two functions return the calling thread's stack if the history records stacks of
// allocations or of frees, respectively. Otherwise they return the empty stack. Throw
// InvalidArgument in a forked child, which must not use the engine.
inline StackId capture_allocation_stack(Engine& engine, const void* caller) {
  if (!engine.history().records_stacks(RecordContext::kState)) [[likely]]
    return {};
  return capture_stack_slow(engine, RecordContext::kState, caller);
}
inline StackId capture_free_stack(Engine& engine, const void* caller) {
  if (!engine.history().records_stacks(RecordContext::kAll)) [[likely]]
    return {};
  return capture_stack_slow(engine, RecordContext::kAll, caller);
}

// Fast path. Returns null if the request needs any other work, and in a forked child, whose copy of
// the history requests stacks (History::set_inherited).
[[gnu::always_inline]] inline Block* allocate_fast(Engine& engine, size_t bytes, StreamId stream) {
  if (engine.history().records_stacks(RecordContext::kState)) [[unlikely]]
    return nullptr;
  return engine.allocate_fast(bytes, stream);
}

// Out of line, so that callers that stay on the fast path pay nothing.
[[gnu::noinline]] inline Block* allocate_slow(Engine& engine, size_t bytes, StreamId stream,
                                              const void* caller) {
  return unwrap(engine.allocate({bytes, stream, capture_allocation_stack(engine, caller)}));
}
[[gnu::noinline]] inline void free_with_stack(Engine& engine, Block* block, const void* caller) {
  if (!engine.in_creating_process()) return;
  engine.free_quietly(block, capture_free_stack(engine, caller));
}

// Allocates a block, on the fast path if possible. Throws OutOfMemory, InvalidArgument, DeviceError
// or std::bad_alloc.
[[gnu::always_inline]] inline Block* allocate_block(Engine& engine, size_t bytes, StreamId stream,
                                                    const void* caller) {
  Block* block = allocate_fast(engine, bytes, stream);
  if (block != nullptr) [[likely]]
    return block;
  return allocate_slow(engine, bytes, stream, caller);
}

// Makes the block findable by its address. If the table cannot grow, frees the block and throws
// std::bad_alloc.
inline void register_address(Engine& engine, Block* block) {
  try {
    engine.addresses().insert(block);
  } catch (const std::bad_alloc&) {
    engine.free_quietly(block);
    throw;
  }
}

// Frees the block. In a forked child, does nothing: the history of an inherited engine reports that
// it records stacks (History::set_inherited), and `free_with_stack` checks for the fork.
[[gnu::always_inline]] inline void free_block(Engine& engine, Block* block,
                                              const void* caller) noexcept {
  if (engine.history().records_stacks(RecordContext::kAll)) [[unlikely]] {
    return free_with_stack(engine, block, caller);
  }
  engine.free_quietly(block);
}

}  // namespace ashlar
