// SPDX-License-Identifier: Apache-2.0
//
// A thread's annotations, which are stamped on the entries of every allocator it calls.
#pragma once

#include <string>
#include <vector>

namespace ashlar {

struct ThreadContext {
  std::vector<std::string> compile_contexts;  // innermost last
  std::string user_metadata;

  // The calling thread's context; created on first use.
  static ThreadContext& current();
  // The calling thread's context; null if it has none, which is the common case and must be cheap
  // to detect.
  static const ThreadContext* current_or_null() { return own; }

 private:
  static constinit thread_local ThreadContext* own;
};

}  // namespace ashlar
