// SPDX-License-Identifier: Apache-2.0
//
// Reports a broken invariant to the failure handler, then aborts.
#include "base/check.h"

#include <atomic>
#include <cstdlib>

#include "base/text.h"

namespace ashlar {
namespace {

// Accessed in relaxed order, because no other data is published with the handler.
std::atomic<FailureHandler> failure_handler{nullptr};

}  // namespace

FailureHandler set_failure_handler(FailureHandler handler) {
  return failure_handler.exchange(handler, std::memory_order_relaxed);
}

void check_failed(const char* condition, const char* file, int line) {
  if (FailureHandler handler = failure_handler.load(std::memory_order_relaxed)) {
    handler(text("broken invariant: ", condition, " (", file, ":", line, ")"));
  }
  std::abort();
}

}  // namespace ashlar
