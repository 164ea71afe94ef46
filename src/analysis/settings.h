// SPDX-License-Identifier: Apache-2.0
//
// Allocator settings to try on a recording, and their text forms. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ashlar/options.h"
#include "ashlar/status.h"

namespace ashlar {

// The allocator that made a recording. It determines which settings are available.
enum class RecordedAllocator {
  kPytorch,  // PyTorch's allocator or a compatible one: classic engine only
  kAshlar,
};
RecordedAllocator recorded_allocator_of(const AllocatorOptions& recorded);

struct Setting {
  AllocatorOptions options{};
  std::string conf{};  // option text without the engine; empty: defaults
  bool is_recorded = false;
};

// Formats the non-default options, except for the engine and PyTorch compatibility.
std::string format_conf(AllocatorOptions options);
std::string engine_name(const AllocatorOptions& options);

// Returns the complete option text for an allocator of this kind. The text names the engine, unless
// the allocator is PyTorch's and supports the setting.
std::string format_setting(const Setting& setting, RecordedAllocator allocator_kind);

// Returns whether an allocator of this kind supports the setting. PyTorch has only the classic
// engine.
bool can_set(const Setting& setting, RecordedAllocator allocator_kind);

// Which of the options that only some versions and platforms of PyTorch support are available; see
// find_pytorch().
struct AvailableOptions {
  bool expandable_segments = true;
  bool large_segment_size = true;
};

// Returns whether the setting uses only options that are available.
bool is_available(const Setting& setting, const AvailableOptions& available);

// Returns whether engines with these options place blocks identically. The options may differ in
// limits, locking, pinned memory and options that the engine ignores.
bool same_policy(const AllocatorOptions& a, const AllocatorOptions& b);

// Parses option text; "" means defaults. Unless the text overrides them, the engine, PyTorch
// compatibility and the memory limit are taken from `recorded`.
// kFormat or kInvalidArgument: see parse_allocator_options().
Result<Setting> parse_setting(std::string_view conf, const AllocatorOptions& recorded);

struct CandidateOptions {
  AllocatorOptions recorded{};
  bool is_capped = false;  // the process is limited to part of the device
  AvailableOptions available{};
};

// Returns the recorded setting, then candidates for the classic engine, then candidates for the
// paged engine, without duplicates and without those that need an unavailable option. All settings
// have the recorded memory limit.
std::vector<Setting> candidate_settings(const CandidateOptions& options);

}  // namespace ashlar
