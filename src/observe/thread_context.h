// SPDX-License-Identifier: Apache-2.0
//
// What a thread has said about what it does: stamped on the entries of every allocator it calls.
#pragma once

#include <string>
#include <vector>

namespace ashlar {

struct ThreadContext {
  std::vector<std::string> compile_contexts;  // innermost last
  std::string user_metadata;

  // The calling thread's own.
  static ThreadContext& current();
  // Null: it has said nothing so far. Most threads never do, and then even looking for what they
  // said would be felt.
  static const ThreadContext* current_or_null() { return own; }

 private:
  static constinit thread_local ThreadContext* own;
};

}  // namespace ashlar
