// SPDX-License-Identifier: Apache-2.0
//
// A thread's compile contexts and user metadata. The histories of all allocators attach them to the
// entries that the thread records.
#pragma once

#include <string>
#include <vector>

namespace ashlar {

struct ThreadContext {
  std::vector<std::string> compile_contexts;  // innermost last
  std::string user_metadata;

  // Returns the calling thread's context, which is created on first use.
  static ThreadContext& current();
  // Returns the calling thread's context; null if the thread has none, which is the common case and
  // must be cheap to detect.
  static const ThreadContext* current_or_null() { return current_context; }

 private:
  static constinit thread_local ThreadContext* current_context;
};

}  // namespace ashlar
