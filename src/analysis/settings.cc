// SPDX-License-Identifier: Apache-2.0
//
// Lists the candidate settings in tables, and converts settings from and to text.
#include "analysis/settings.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/check.h"
#include "config/allocator_options.h"

namespace ashlar {
namespace {

struct Candidate {
  std::string_view conf;
  bool needs_cap = false;  // has no effect without a memory limit
};

// Common recommendations for PyTorch, and useful combinations of them.
constexpr std::array kClassicCandidates = {
    Candidate{""},
    Candidate{"expandable_segments:True"},
    Candidate{"max_split_size_mb:64"},
    Candidate{"max_split_size_mb:128"},
    Candidate{"max_split_size_mb:256"},
    Candidate{"max_split_size_mb:512"},
    Candidate{"roundup_power2_divisions:4"},
    Candidate{"roundup_power2_divisions:8"},
    Candidate{"roundup_power2_divisions:[256:1,512:2,1024:4,>:8]"},
    Candidate{"large_segment_size_mb:64"},
    Candidate{"large_segment_size_mb:64,expandable_segments:True"},
    Candidate{"roundup_power2_divisions:8,expandable_segments:True"},
    Candidate{"max_split_size_mb:128,roundup_power2_divisions:8"},
    Candidate{"large_segment_size_mb:64,max_split_size_mb:256"},
    Candidate{"garbage_collection_threshold:0.6", true},
    Candidate{"garbage_collection_threshold:0.8", true},
    Candidate{"max_split_size_mb:128,garbage_collection_threshold:0.8", true},
};

// The default policy comes first.
constexpr std::array kPagedCandidates = {
    Candidate{""},
    Candidate{"policy:lean"},
    Candidate{"policy:fast"},
};

// Resets the options that do not influence where the engine places blocks.
AllocatorOptions placement_options(const AllocatorOptions& options) {
  AllocatorOptions kept = options;
  if (options.engine == EngineKind::kPaged) {
    kept = {};
    kept.engine = options.engine;
    kept.policy = options.policy;
    kept.caching = options.caching;
    kept.capture_stream_reuse = options.capture_stream_reuse;
    kept.reject_before_device_oom = options.reject_before_device_oom;
    kept.shareable_expandable_segments = options.shareable_expandable_segments;
    return kept;
  }
  kept.policy = {};
  kept.pinned = {};
  kept.unlock_during_device_allocate = false;
  kept.memory_fraction = 1;
  return kept;
}

bool has_policy(const std::vector<Setting>& settings, const AllocatorOptions& options) {
  return std::any_of(settings.begin(), settings.end(),
                     [&](const Setting& setting) { return same_policy(setting.options, options); });
}

}  // namespace

RecordedAllocator recorded_allocator_of(const AllocatorOptions& recorded) {
  const bool is_pytorch = recorded.engine == EngineKind::kClassic && recorded.pytorch_compatible;
  return is_pytorch ? RecordedAllocator::kPytorch : RecordedAllocator::kAshlar;
}

std::string format_conf(AllocatorOptions options) {
  const AllocatorOptions defaults;
  options.engine = defaults.engine;
  options.pytorch_compatible = defaults.pytorch_compatible;
  return format_allocator_options(options);
}

std::string engine_name(const AllocatorOptions& options) {
  switch (options.engine) {
    case EngineKind::kClassic: return "classic";
    case EngineKind::kPaged: return "paged";
    case EngineKind::kPlugin: return "plugin";
    case EngineKind::kAsync: return "async";
  }
  return {};
}

std::string format_setting(const Setting& setting, RecordedAllocator allocator_kind) {
  if (allocator_kind == RecordedAllocator::kPytorch && can_set(setting, allocator_kind))
    return setting.conf;
  const std::string engine = "engine:" + engine_name(setting.options);
  return setting.conf.empty() ? engine : engine + "," + setting.conf;
}

bool can_set(const Setting& setting, RecordedAllocator allocator_kind) {
  return allocator_kind == RecordedAllocator::kAshlar ||
         setting.options.engine == EngineKind::kClassic;
}

bool is_available(const Setting& setting, const AvailableOptions& available) {
  const auto uses = [&](std::string_view option) {
    return setting.conf.find(option) != std::string::npos;
  };
  return (available.expandable_segments || !uses("expandable_segments")) &&
         (available.large_segment_size || !uses("large_segment_size_mb"));
}

bool same_policy(const AllocatorOptions& a, const AllocatorOptions& b) {
  return placement_options(a) == placement_options(b);
}

Result<Setting> parse_setting(std::string_view conf, const AllocatorOptions& recorded) {
  AllocatorOptions base;
  base.engine = recorded.engine;
  base.pytorch_compatible = recorded.pytorch_compatible;
  const Result<AllocatorOptions> written = parse_allocator_options(conf, base);
  if (!written.ok()) return written.status();
  base.memory_fraction = recorded.memory_fraction;
  const Result<AllocatorOptions> limited = parse_allocator_options(conf, base);
  if (!limited.ok()) return limited.status();
  return Setting{*limited, format_conf(*written), false};
}

std::vector<Setting> candidate_settings(const CandidateOptions& options) {
  const AllocatorOptions& recorded = options.recorded;
  const bool is_capped = options.is_capped || recorded.memory_fraction < 1;
  std::vector<Setting> settings;
  settings.push_back({recorded, format_conf(recorded), true});
  const auto add = [&](EngineKind engine, const Candidate& candidate) {
    if (candidate.needs_cap && !is_capped) return;
    AllocatorOptions base = recorded;
    base.engine = engine;
    Result<Setting> setting = parse_setting(candidate.conf, base);
    ASHLAR_CHECK(setting.ok());
    if (!is_available(*setting, options.available)) return;
    if (!has_policy(settings, setting->options)) settings.push_back(*std::move(setting));
  };
  for (const Candidate& candidate : kClassicCandidates) add(EngineKind::kClassic, candidate);
  for (const Candidate& candidate : kPagedCandidates) add(EngineKind::kPaged, candidate);
  return settings;
}

}  // namespace ashlar
