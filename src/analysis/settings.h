// SPDX-License-Identifier: Apache-2.0
//
// The settings worth trying on a recorded run, and how one writes them down. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ashlar/options.h"
#include "ashlar/status.h"

namespace ashlar {

// Whose allocator a run was recorded under, and so what its settings can be.
enum class Origin {
  kPytorch,  // PyTorch's, or one that acts as it does: it has its own policy and no engines
  kAshlar,
};
Origin origin_of(const AllocatorOptions& recorded);

struct Setting {
  AllocatorOptions options{};
  std::string conf{};  // as one writes it, but for the engine; empty: the defaults
  bool is_recorded = false;
};

// The settings as one would write them; that it acts as PyTorch goes without saying, and the engine
// is named apart.
std::string conf_of(AllocatorOptions options);
std::string engine_of(const AllocatorOptions& options);

// All of it, for allocators of this origin: the engine is named too, unless PyTorch's is meant.
std::string text_of(const Setting& setting, Origin origin);

// Whether allocators of this origin can be told to act so. PyTorch's have no engine but their own.
bool can_be_set(const Setting& setting, Origin origin);

// Settings that lead to the same blocks: they differ in limits, locks or pinned memory at most, or
// in what their engine does not look at.
bool same_policy(const AllocatorOptions& a, const AllocatorOptions& b);

// The setting that a text stands for, "" for the defaults: with the recorded engine, acting as
// PyTorch if the recorded run did, and under the limit that the recorded settings carry, unless
// the text says otherwise. kFormat or kInvalidArgument: as parse_allocator_options().
Result<Setting> setting_of(std::string_view conf, const AllocatorOptions& recorded);

struct SettingsQuestion {
  AllocatorOptions recorded{};
  bool is_capped = false;  // the process may not have all of the device
};

// The recorded one first, then PyTorch's, then those of Ashlar's paged engine, in the order of
// their table, none twice. All live under the limit that the recorded settings carry.
std::vector<Setting> sensible_settings(const SettingsQuestion& question);

}  // namespace ashlar
