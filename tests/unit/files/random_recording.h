// SPDX-License-Identifier: Apache-2.0
//
// Random recordings of at most 10 KB, for tests of memory and time limits. Values that analyses
// depend on are mostly plausible: the files are valid, but have extreme sizes, streams, stacks and
// orders, and repeat their entries up to thousands of times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ashlar {

inline constexpr size_t kMaxRandomRecordingBytes = 10'000;

// Returns a compressed pickle; the same for the same seed.
std::string random_recording(uint64_t seed);

}  // namespace ashlar
