// SPDX-License-Identifier: Apache-2.0
//
// Checks of internal invariants. Errors by callers are reported as Status instead.
//
//   ASHLAR_CHECK    always on; for invariants whose violation would corrupt memory.
//   ASHLAR_DCHECK   on in builds with ASHLAR_INVARIANTS (preset dev); for costly checks.
//
// The condition must have no side effects, because ASHLAR_DCHECK may not evaluate it.
#pragma once

#include <string_view>

namespace ashlar {

// Called with a description of a violation. If the handler returns, the process aborts.
using FailureHandler = void (*)(std::string_view description);

// Installs a handler and returns the previous handler. Null removes the handler, so that a
// violation only aborts the process. Thread safe.
FailureHandler set_failure_handler(FailureHandler handler);

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace ashlar

#define ASHLAR_CHECK(condition) \
  ((condition) ? void(0) : ::ashlar::check_failed(#condition, __FILE__, __LINE__))

#if defined(ASHLAR_INVARIANTS) && ASHLAR_INVARIANTS
#define ASHLAR_DCHECK(condition) ASHLAR_CHECK(condition)
#else
#define ASHLAR_DCHECK(condition) (false ? void(condition) : void(0))
#endif
