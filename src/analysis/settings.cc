// One row for each setting.
#include "analysis/settings.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/check.h"
#include "config/allocator_options.h"

namespace ashlar {
namespace {

struct Row {
  std::string_view conf;
  bool needs_cap = false;  // without one, it changes nothing
};

// What PyTorch's users are told to try, and what goes well together.
constexpr std::array kRows = {
    Row{""},
    Row{"expandable_segments:True"},
    Row{"max_split_size_mb:64"},
    Row{"max_split_size_mb:128"},
    Row{"max_split_size_mb:256"},
    Row{"max_split_size_mb:512"},
    Row{"roundup_power2_divisions:4"},
    Row{"roundup_power2_divisions:8"},
    Row{"roundup_power2_divisions:[256:1,512:2,1024:4,>:8]"},
    Row{"large_segment_size_mb:64"},
    Row{"large_segment_size_mb:64,expandable_segments:True"},
    Row{"roundup_power2_divisions:8,expandable_segments:True"},
    Row{"max_split_size_mb:128,roundup_power2_divisions:8"},
    Row{"large_segment_size_mb:64,max_split_size_mb:256"},
    Row{"garbage_collection_threshold:0.6", true},
    Row{"garbage_collection_threshold:0.8", true},
    Row{"max_split_size_mb:128,garbage_collection_threshold:0.8", true},
};

bool has_policy(const std::vector<Setting>& settings, const AllocatorOptions& options) {
  return std::any_of(settings.begin(), settings.end(),
                     [&](const Setting& setting) { return same_policy(setting.options, options); });
}

}  // namespace

std::string conf_of(AllocatorOptions options) {
  options.engine = EngineKind::kClassic;
  options.pytorch_compatible = false;
  return format_allocator_options(options);
}

std::string engine_of(const AllocatorOptions& options) {
  switch (options.engine) {
    case EngineKind::kClassic: return "classic";
    case EngineKind::kPaged: return "paged";
    case EngineKind::kPlugin: return "plugin";
  }
  return {};
}

bool same_policy(AllocatorOptions a, const AllocatorOptions& b) {
  a.pinned = b.pinned;
  a.unlock_during_device_allocate = b.unlock_during_device_allocate;
  a.memory_fraction = b.memory_fraction;
  return a == b;
}

Result<Setting> setting_of(std::string_view conf, const AllocatorOptions& recorded) {
  AllocatorOptions base;
  base.pytorch_compatible = true;
  const Result<AllocatorOptions> written = parse_allocator_options(conf, base);
  if (!written.ok()) return written.status();
  base.memory_fraction = recorded.memory_fraction;
  const Result<AllocatorOptions> limited = parse_allocator_options(conf, base);
  if (!limited.ok()) return limited.status();
  return Setting{*limited, conf_of(*written), false};
}

std::vector<Setting> sensible_settings(const SettingsQuestion& question) {
  const AllocatorOptions& recorded = question.recorded;
  const bool is_capped = question.is_capped || recorded.memory_fraction < 1;
  std::vector<Setting> settings;
  settings.push_back({recorded, conf_of(recorded), true});
  for (const Row& row : kRows) {
    if (row.needs_cap && !is_capped) continue;
    Result<Setting> setting = setting_of(row.conf, recorded);
    ASHLAR_CHECK(setting.ok());
    if (!has_policy(settings, setting->options)) settings.push_back(*std::move(setting));
  }
  return settings;
}

}  // namespace ashlar
