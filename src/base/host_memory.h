// SPDX-License-Identifier: Apache-2.0
//
// Helpers for code that must keep its state consistent when host memory is exhausted. The rules are
// in docs/internals/out_of_host_memory.md.
#pragma once

#include <algorithm>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "ashlar/status.h"
#include "base/mutex.h"

namespace ashlar {

// Returns `function()`, a Status or a Result, or kHostOutOfMemory if it throws std::bad_alloc.
template <typename Function>
auto without_bad_alloc(const Function& function) -> std::invoke_result_t<const Function&> {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return Status::host_out_of_memory();
  }
}

// Returns `function()`, or a value-initialized result if it throws std::bad_alloc. For cleanup and
// optional work, which must not fail, although device calls may need host memory, at least to
// describe an error.
template <typename Function>
std::invoke_result_t<const Function&> catch_bad_alloc(const Function& function)
    ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return std::invoke_result_t<const Function&>();
  }
}

// Makes room for `size` elements. Grows the capacity geometrically, so that calls before every
// push_back stay cheap.
template <typename Vector>
void reserve_amortized(Vector& vector, size_t size) {
  if (vector.capacity() < size) vector.reserve(std::max(size, 2 * vector.capacity()));
}

// Calls a function when the scope ends, unless the guard was dismissed: undoes the first steps of
// an operation if a later step throws. REQUIRES: the function does not throw.
template <typename Function>
class [[nodiscard]] ScopeGuard {
 public:
  explicit ScopeGuard(Function function) : function_(std::move(function)) {}
  ~ScopeGuard() ASHLAR_THREAD_ATTRIBUTE(no_thread_safety_analysis) {
    if (is_armed_) function_();
  }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

  void dismiss() { is_armed_ = false; }

 private:
  Function function_;
  bool is_armed_ = true;
};

}  // namespace ashlar
