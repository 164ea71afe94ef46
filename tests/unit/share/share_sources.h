// SPDX-License-Identifier: Apache-2.0
//
// The kinds of memory that can be shared: whole segments by device handle, and extents by file
// descriptor. The sharing suites run with each kind.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>

#include "ashlar/options.h"
#include "base/units.h"

namespace ashlar {

// The size of a block that spans three granules, or that gets its own segment.
inline constexpr size_t kSharedBlockBytes = 50 * kMiB;

enum class ShareSource : uint8_t { kPlain, kExpandable, kPaged };

inline std::ostream& operator<<(std::ostream& out, ShareSource source) {
  switch (source) {
    case ShareSource::kPlain: return out << "Plain";
    case ShareSource::kExpandable: return out << "Expandable";
    case ShareSource::kPaged: return out << "Paged";
  }
  return out;
}

inline bool uses_extents(ShareSource source) { return source != ShareSource::kPlain; }

inline AllocatorOptions options_of(ShareSource source) {
  AllocatorOptions options;
  options.engine = source == ShareSource::kPaged ? EngineKind::kPaged : EngineKind::kClassic;
  options.expandable_segments = source == ShareSource::kExpandable;
  options.shareable_expandable_segments = uses_extents(source);
  return options;
}

// Returns the parameters for INSTANTIATE_TEST_SUITE_P, whose names are
// ::testing::PrintToStringParamName().
inline auto all_share_sources() {
  return ::testing::Values(ShareSource::kPlain, ShareSource::kExpandable, ShareSource::kPaged);
}

}  // namespace ashlar
