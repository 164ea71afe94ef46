// SPDX-License-Identifier: Apache-2.0
//
// What `ashlar leaks` answers to programs.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "analysis/leaks.h"
#include "analysis/stack_index.h"
#include "answers/recorded_run.h"

namespace ashlar {

nlohmann::ordered_json leaks_answer(const RecordedRun& run, const Leaks& leaks,
                                    const StackIndex& stacks);

}  // namespace ashlar
