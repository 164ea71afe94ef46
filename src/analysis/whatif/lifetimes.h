// SPDX-License-Identifier: Apache-2.0
//
// Edits of lifetimes: dropping allocations, freeing them earlier, and keeping or freeing gradients.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/whatif/checkpoints.h"
#include "analysis/whatif/edit.h"
#include "analysis/whatif/edited_run.h"
#include "analysis/whatif/name_resolver.h"
#include "analysis/whatif/stack_paths.h"
#include "ashlar/status.h"

namespace ashlar {

// Removes the selected requests.
EditEffect drop(EditedRun& run, const Selection& selected);

// Positions before operations, ascending.
using Positions = std::vector<uint32_t>;
// Returns when the moment that --at names occurs. kInvalidArgument: never, or a name in it matches
// nothing or is ambiguous.
Result<Positions> find_moments(const EditedRun& run, const StackPaths& paths,
                               const NameResolver& names, const FreeMoment& moment);
// Frees each selected allocation at the first moment after it is made, unless it is freed earlier.
EditEffect free_earlier(EditedRun& run, const Selection& selected, const Positions& moments);

// Makes gradients persist: the first gradient of each parameter is never freed. The backward pass
// adds later gradients to it, and frees them immediately.
EditEffect keep_gradients(EditedRun& run, const StackPaths& paths);
// Makes gradients end with the optimizer step: both the recorded gradients that persist, and the
// later ones that the recorded backward passes added to them. kInvalidArgument: the recording has
// no gradients that persist, they are older than the recording, or its backward passes differ, so
// that later ones cannot be found.
Result<EditEffect> set_gradients_to_none(EditedRun& run, const StackPaths& paths);

}  // namespace ashlar
