// SPDX-License-Identifier: Apache-2.0
//
// How the facades get blocks and give them back: at once where nothing has to be done for it, and
// with the stack of whoever called where the history wants one. `caller` is where that call
// returns.
#pragma once

#include <new>

#include "api/unwrap.h"
#include "engine/engine.h"

namespace ashlar {

inline StackId allocating_stack(Engine& engine, const void* caller) {
  return engine.history().capture(RecordContext::kState, caller);
}
inline StackId freeing_stack(Engine& engine, const void* caller) {
  return engine.history().capture(RecordContext::kAll, caller);
}

// Null: ask Engine::allocate, with a stack.
[[gnu::always_inline]] inline Block* allocate_fast(Engine& engine, size_t bytes, StreamId stream) {
  if (engine.history().wants_stacks(RecordContext::kState)) [[unlikely]]
    return nullptr;
  return engine.allocate_fast(bytes, stream);
}

// Functions of their own, so that the calls which they make cost those nothing that need none.
[[gnu::noinline]] inline Block* allocate_otherwise(Engine& engine, size_t bytes, StreamId stream,
                                                   const void* caller) {
  return unwrap(engine.allocate({bytes, stream, allocating_stack(engine, caller)}));
}
[[gnu::noinline]] inline void free_with_stack(Engine& engine, Block* block, const void* caller) {
  engine.free_quietly(block, freeing_stack(engine, caller));
}

// Throws.
[[gnu::always_inline]] inline Block* allocate_block(Engine& engine, size_t bytes, StreamId stream,
                                                    const void* caller) {
  Block* block = allocate_fast(engine, bytes, stream);
  if (block != nullptr) [[likely]]
    return block;
  return allocate_otherwise(engine, bytes, stream, caller);
}

// For who hands out its address alone. Throws std::bad_alloc: there is no room for the table, and
// the block is freed.
inline void enter_address(Engine& engine, Block* block) {
  try {
    engine.addresses().insert(block);
  } catch (const std::bad_alloc&) {
    engine.free_quietly(block);
    throw;
  }
}

[[gnu::always_inline]] inline void free_block(Engine& engine, Block* block,
                                              const void* caller) noexcept {
  if (engine.history().wants_stacks(RecordContext::kAll)) [[unlikely]] {
    return free_with_stack(engine, block, caller);
  }
  engine.free_quietly(block);
}

}  // namespace ashlar
