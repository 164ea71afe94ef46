// SPDX-License-Identifier: Apache-2.0
//
// The settings that a snapshot carries, under PyTorch's names, from an allocator's options and back
// to them. Pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ashlar/options.h"
#include "ashlar/snapshot.h"

namespace ashlar {

using SnapshotSettings = std::vector<std::pair<std::string, SettingValue>>;

SnapshotSettings settings_of(const AllocatorOptions& options);

// What a file was recorded under. Ours name their engine; what a file does not say is as PyTorch
// has it, whatever an allocator of ours would do by default. `ignored` says what of it could not be
// understood; empty: nothing.
struct RecordedOptions {
  AllocatorOptions options;
  std::string ignored{};
};
RecordedOptions options_of(const SnapshotSettings& settings);

}  // namespace ashlar
