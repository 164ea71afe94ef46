// SPDX-License-Identifier: Apache-2.0
//
// Conversion between allocator options and the settings in a snapshot, which have PyTorch's names.
// Pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ashlar/options.h"
#include "ashlar/snapshot.h"

namespace ashlar {

using SnapshotSettings = std::vector<std::pair<std::string, SettingValue>>;

SnapshotSettings settings_of(const AllocatorOptions& options);

// The options of a recorded run, from the settings of its snapshot. Snapshots made by Ashlar name
// the engine; if no engine is named, the options are those of compat:pytorch. Settings that the
// snapshot omits get their defaults. `ignored` describes settings that could not be applied.
struct RecordedOptions {
  AllocatorOptions options;
  std::string ignored{};
};
RecordedOptions options_of(const SnapshotSettings& settings);

}  // namespace ashlar
