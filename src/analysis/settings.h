// The settings worth trying on a recorded run, and how one writes them down. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ashlar/options.h"
#include "ashlar/status.h"

namespace ashlar {

struct Setting {
  AllocatorOptions options{};
  std::string conf{};  // as one writes it; empty: the defaults
  bool is_recorded = false;
};

// The settings as one would write them; that it acts as PyTorch goes without saying, and the engine
// is named apart.
std::string conf_of(AllocatorOptions options);
std::string engine_of(const AllocatorOptions& options);

// Settings that lead to the same blocks: they differ in limits, locks or pinned memory at most.
bool same_policy(AllocatorOptions a, const AllocatorOptions& b);

// The setting that a text stands for, "" for the defaults: as PyTorch acts, and under the limit
// that the recorded settings carry unless the text has its own. kFormat or kUsage: as
// parse_allocator_options().
Result<Setting> setting_of(std::string_view conf, const AllocatorOptions& recorded);

struct SettingsQuestion {
  AllocatorOptions recorded{};
  bool is_capped = false;  // the process may not have all of the device
};

// The recorded one first, the others in the order of their table, none twice. All live under the
// limit that the recorded settings carry.
std::vector<Setting> sensible_settings(const SettingsQuestion& question);

}  // namespace ashlar
