// SPDX-License-Identifier: Apache-2.0
//
// Infers the version and platform of the PyTorch that made a recording, and the allocator options
// that it supports. Snapshots do not contain a version, but later versions added fields and
// settings. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "analysis/settings.h"
#include "ashlar/options.h"
#include "ashlar/snapshot.h"

namespace ashlar {

enum class RecordedPlatform : uint8_t { kLinux, kWindows, kRocm };

struct RecordedPytorch {
  // The recording was made by PyTorch 2.<minor_version> or later.
  uint32_t minor_version = 1;
  // If false, the file does not reveal the version, and 2.1 is assumed.
  bool is_version_shown = false;
  RecordedPlatform platform = RecordedPlatform::kLinux;
  AvailableOptions available{};  // options of this version on this platform
};

// `recorded` are the options of the recording. Options that differ from the defaults in `recorded`
// count as available.
// REQUIRES: infer_pools(), which changes TraceEntry::has_pool, was not called.
RecordedPytorch find_pytorch(const Snapshot& snapshot, const AllocatorOptions& recorded);

// Returns one or two sentences: the version, and the options that this version or platform lacks.
std::string describe(const RecordedPytorch& pytorch);

}  // namespace ashlar
