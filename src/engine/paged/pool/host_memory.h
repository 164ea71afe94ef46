// SPDX-License-Identifier: Apache-2.0
//
// Helpers for operations that must stay consistent if host memory is exhausted
// (docs/internals/paged_engine.md, "When host memory is exhausted").
#pragma once

#include <new>
#include <type_traits>
#include <utility>

#include "base/mutex.h"

namespace ashlar::paged {

// Returns the result of `attempt`; a value-initialized result if it throws std::bad_alloc. For
// cleanup and optional work, which must not fail: the device may need host memory, at least to
// describe an error.
template <typename Attempt>
std::invoke_result_t<Attempt> catch_bad_alloc(const Attempt& attempt)
    ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  try {
    return attempt();
  } catch (const std::bad_alloc&) {
    return std::invoke_result_t<Attempt>();
  }
}

// Calls `action`, which must not throw, at the end of its scope unless `dismiss` was called.
template <typename Action>
class [[nodiscard]] ScopeExit {
 public:
  explicit ScopeExit(Action action) : action_(std::move(action)) {}
  ~ScopeExit() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
    if (!is_dismissed_) action_();
  }
  ScopeExit(const ScopeExit&) = delete;
  ScopeExit& operator=(const ScopeExit&) = delete;

  void dismiss() noexcept { is_dismissed_ = true; }

 private:
  Action action_;
  bool is_dismissed_ = false;
};

}  // namespace ashlar::paged
