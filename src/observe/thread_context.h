// What a thread has said about what it does: stamped on the entries of every allocator it calls.
#pragma once

#include <string>
#include <vector>

namespace ashlar {

struct ThreadContext {
  std::vector<std::string> compile_contexts;  // innermost last
  std::string user_metadata;
};

// The calling thread's own.
ThreadContext& thread_context();
// Null: it has said nothing so far.
const ThreadContext* thread_context_if_any();

}  // namespace ashlar
