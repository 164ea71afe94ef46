// SPDX-License-Identifier: Apache-2.0
//
// The settings to paste, for the shell of each platform.
#include "analysis/report_json/tune_json.h"

#include <gtest/gtest.h>

#include <utility>

#include "analysis/recording.h"
#include "analysis/settings.h"

namespace ashlar {
namespace {

constexpr const char* kDivisions = "roundup_power2_divisions:[256:1,>:8]";

std::string assignment_for(const char* file_name) {
  Snapshot snapshot;
  snapshot.device_traces.resize(1);
  snapshot.tables.frames.push_back({"train", file_name, 7, {}});
  const DeviceRecording run = {Recording::create("run", std::move(snapshot)), DeviceIndex(0)};
  Setting setting;
  setting.options.engine = EngineKind::kClassic;
  setting.conf = kDivisions;
  return shell_assignment(setting, run);
}

// Without quotes, cmd.exe would redirect the output to a file called ":8]".
TEST(TuneJsonTest, AssignmentIsQuotedForShell) {
  EXPECT_EQ(assignment_for("train.py"),
            "PYTORCH_CUDA_ALLOC_CONF=\"roundup_power2_divisions:[256:1,>:8]\"");
  EXPECT_EQ(assignment_for("C:\\work\\train.py"),
            "set \"PYTORCH_CUDA_ALLOC_CONF=roundup_power2_divisions:[256:1,>:8]\"");
}

}  // namespace
}  // namespace ashlar
