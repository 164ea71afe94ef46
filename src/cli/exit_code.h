// SPDX-License-Identifier: Apache-2.0
//
// What the process tells the shell. Scripts of others depend on these numbers.
#pragma once

#include "ashlar/status.h"

namespace ashlar {

enum class ExitCode {
  kDone = 0,
  kNo = 1,               // the answer is "no", or the work could not be done
  kInvalidArgument = 2,  // a wrong command, option, or environment variable
  kUnreadableInput = 3,  // a file that is not what it should be
};

// REQUIRES: the status is a failure.
inline ExitCode exit_code_for(const Status& failure) {
  if (failure.is(StatusKind::kInvalidArgument)) return ExitCode::kInvalidArgument;
  if (failure.is(StatusKind::kFormat)) return ExitCode::kUnreadableInput;
  return ExitCode::kNo;
}

}  // namespace ashlar
