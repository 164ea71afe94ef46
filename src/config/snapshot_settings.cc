// SPDX-License-Identifier: Apache-2.0
//
// A snapshot contains the options both as text (PYTORCH_CUDA_ALLOC_CONF) and as individual
// settings. Reading applies the text first and then the individual settings, because the individual
// settings are the values that were in effect.
#include "config/snapshot_settings.h"

#include <cmath>

#include "config/allocator_options.h"

namespace ashlar {
namespace {

constexpr const char* kOptionsText = "PYTORCH_CUDA_ALLOC_CONF";
constexpr const char* kMaxSplit = "max_split_size";
constexpr const char* kGarbageCollection = "garbage_collection_threshold";
constexpr const char* kExpandableSegments = "expandable_segments";
constexpr const char* kRegisterThreads = "pinned_num_register_threads";
constexpr const char* kUnlock = "release_lock_on_cudamalloc";
constexpr const char* kHostRegister = "pinned_use_cuda_host_register";
constexpr const char* kStreamReuse = "graph_capture_record_stream_reuse";
constexpr const char* kRoundup = "roundup_power2_divisions";

using Roundup = std::vector<std::pair<std::string, int64_t>>;

// Returns the key of a slot: its minimum size in MiB, "1", "2", "4" and so on.
std::string roundup_key(size_t slot) { return std::to_string(uint64_t{1} << slot); }

Roundup roundup_table(const AllocatorOptions& options) {
  Roundup table;
  for (size_t slot = 0; slot < options.roundup_power2_divisions.size(); ++slot) {
    table.emplace_back(roundup_key(slot), options.roundup_power2_divisions[slot]);
  }
  return table;
}

void set_roundup(const Roundup& table, AllocatorOptions& options) {
  for (size_t slot = 0; slot < options.roundup_power2_divisions.size(); ++slot) {
    for (const auto& [key, divisions] : table) {
      if (key != roundup_key(slot)) continue;
      options.roundup_power2_divisions[slot] = static_cast<uint32_t>(divisions);
    }
  }
}

// Applies one setting. Ignores unknown names and values of the wrong type.
void apply_setting(const std::string& name, const SettingValue& value, AllocatorOptions& options) {
  const bool* flag = std::get_if<bool>(&value);
  const int64_t* number = std::get_if<int64_t>(&value);
  const double* fraction = std::get_if<double>(&value);
  if (name == kExpandableSegments && flag != nullptr) options.expandable_segments = *flag;
  if (name == kUnlock && flag != nullptr) options.unlock_during_device_allocate = *flag;
  if (name == kStreamReuse && flag != nullptr) options.capture_stream_reuse = *flag;
  if (name == kHostRegister && flag != nullptr) options.pinned.use_host_register = *flag;
  if (name == kMaxSplit && number != nullptr) {
    options.max_split_bytes.reset();
    if (*number > 0) options.max_split_bytes = static_cast<size_t>(*number);
  }
  if (name == kRegisterThreads && number != nullptr && *number > 0) {
    options.pinned.register_thread_count = static_cast<size_t>(*number);
  }
  if (name == kGarbageCollection && fraction != nullptr)
    options.garbage_collection_threshold = *fraction;
  if (name == kRoundup) {
    if (const Roundup* table = std::get_if<Roundup>(&value)) set_roundup(*table, options);
  }
}

// Formats the options as text that always includes engine and compat, because a snapshot without
// them counts as a snapshot from PyTorch.
std::string options_text(const AllocatorOptions& options) {
  std::string text;
  for (const OptionRow& row : allocator_option_table()) {
    const bool is_always_printed = row.name == "engine" || row.name == "compat";
    const std::string value = row.print(row, options);
    if (value == row.default_text && !is_always_printed) continue;
    if (!text.empty()) text += ",";
    text.append(row.name).append(":").append(value);
  }
  return text;
}

}  // namespace

SnapshotSettings settings_of(const AllocatorOptions& options) {
  const int64_t max_split =
      options.max_split_bytes ? static_cast<int64_t>(*options.max_split_bytes) : -1;
  // Not an initializer list, which would copy the values: if memory runs out during a copy,
  // libstdc++ 12 destroys a std::variant that was never constructed.
  SnapshotSettings settings;
  settings.emplace_back(kOptionsText, options_text(options));
  settings.emplace_back(kMaxSplit, max_split);
  settings.emplace_back(kGarbageCollection, options.garbage_collection_threshold);
  settings.emplace_back(kExpandableSegments, options.expandable_segments);
  settings.emplace_back(kRegisterThreads,
                        static_cast<int64_t>(options.pinned.register_thread_count));
  settings.emplace_back(kUnlock, options.unlock_during_device_allocate);
  settings.emplace_back(kHostRegister, options.pinned.use_host_register);
  settings.emplace_back(kStreamReuse, options.capture_stream_reuse);
  settings.emplace_back(kRoundup, roundup_table(options));
  return settings;
}

RecordedOptions options_of(const SnapshotSettings& settings) {
  RecordedOptions recorded;
  recorded.options.engine = EngineKind::kClassic;
  recorded.options.pytorch_compatible = true;
  for (const auto& [name, value] : settings) {
    const std::string* text = std::get_if<std::string>(&value);
    if (name != kOptionsText || text == nullptr) continue;
    Result<AllocatorOptions> parsed = parse_allocator_options(*text, recorded.options);
    if (parsed.ok()) {
      recorded.options = *parsed;
    } else {
      recorded.ignored = parsed.status().message();
    }
  }
  const AllocatorOptions from_text = recorded.options;
  for (const auto& [name, value] : settings) apply_setting(name, value, recorded.options);
  if (Status checked = check_allocator_options(recorded.options); !checked.ok()) {
    recorded.ignored = checked.message();
    recorded.options = from_text;
  }
  return recorded;
}

}  // namespace ashlar
