// SPDX-License-Identifier: Apache-2.0
//
// Checks of our own invariants. A caller's mistake is never checked here: it gets a Status.
//
//   ASHLAR_CHECK    always on; for what must hold or memory would be handed out wrongly.
//   ASHLAR_DCHECK   on in builds with ASHLAR_INVARIANTS (preset dev); for the costly ones.
//
// The condition must not have side effects: it may not be evaluated.
#pragma once

#include <string_view>

namespace ashlar {

// Called once with a description of the broken invariant; if it returns, the process aborts.
using FailureHandler = void (*)(std::string_view description);

// Replaces the handler (null: just abort) and returns the one before. Thread safe.
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
