// SPDX-License-Identifier: Apache-2.0
//
// A recorded program as the functions that find invocations and backward nodes take it.
#pragma once

#include "analysis/recording.h"
#include "analysis/whatif/edited_run.h"
#include "analysis/whatif/invocations.h"
#include "analysis/whatif/stack_paths.h"
#include "unit/analysis/training/training_program.h"

namespace ashlar {

// The run of a finished program.
struct ProgramRun {
  explicit ProgramRun(TrainingProgram& program)
      : recording(Recording::create("program", program.trace.snapshot()), kTraceDevice) {}

  // Returns the frames with these lines of a file.
  FrameSet lines(const char* file, int64_t first, int64_t last) const {
    FrameSet found;
    for (const Frame& each : recording.snapshot().tables.frames) {
      found.push_back(each.filename == file && first <= each.line && each.line <= last);
    }
    return found;
  }

  DeviceRecording recording;
  EditedRun run{recording};
  StackPaths paths{recording};
};

}  // namespace ashlar
