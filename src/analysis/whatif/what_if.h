// SPDX-License-Identifier: Apache-2.0
//
// Predicts the memory of a program after code changes: edits its recorded run, then replays it with
// the real engine. Pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/recording.h"
#include "analysis/replay/replay.h"
#include "analysis/whatif/edit.h"
#include "analysis/whatif/name_resolver.h"
#include "analysis/whatif/run_editor.h"
#include "ashlar/status.h"

namespace ashlar {

struct WhatIfOptions {
  ReplayOptions recorded{};  // the settings and limits of the recorded run
  ReplayOptions edited{};    // the settings and limits of the edited run
  // Called regularly with the completed share of both replays. Replaces `progress` of the options
  // above.
  std::function<void(double share)> progress{};
  NameSources names{};
};

// A peak, and the recorded entry at which it is reached; unset: before the first entry.
struct WhatIfPeak {
  size_t bytes = 0;
  std::optional<uint32_t> entry{};
};

struct WhatIfPeaks {
  WhatIfPeak requested{};
  WhatIfPeak allocated{};
  WhatIfPeak reserved{};
  std::array<size_t, kPhaseCount> requested_by_phase{};  // indexed by Phase
  size_t oom_count = 0;

  size_t fragmentation_bytes() const {
    return reserved.bytes > allocated.bytes ? reserved.bytes - allocated.bytes : 0;
  }
};

struct WhatIfResult {
  WhatIfPeaks before{};  // as recorded; allocated bytes are those of the replay
  WhatIfPeaks after{};
  std::vector<EditOutcome> edits{};
  // The requested bytes by stack at the peak of the edited run, largest first. Stacks are numbered
  // as in Recording::stacks().
  std::vector<StackTotal> after_stacks{};
  size_t iteration_count = 0;  // complete iterations
  // Reasons why the result is an estimate or incomplete.
  std::vector<std::string> warnings{};
};

// Applies the edits in order. kInvalidArgument: an edit matches nothing, is ambiguous, has no
// effect, or needs information that the recording lacks. kTimeout and other errors: see replay().
Result<WhatIfResult> what_if(const DeviceRecording& recording, const std::vector<Edit>& edits,
                             const WhatIfOptions& options);

}  // namespace ashlar
