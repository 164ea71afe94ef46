// SPDX-License-Identifier: Apache-2.0
//
// Tests of every allocator option: its default, valid and invalid values, error messages, and its
// entry in the user guide.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "base/units.h"
#include "config/allocator_options.h"
#include "unit/config/options_under_test.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;

// --- valid values

struct ValidValue {
  const char* setting;
  void (*change)(AllocatorOptions& options);  // changes defaults to the expected options
  const char* canonical = nullptr;            // null: `setting`; empty: all defaults
};

const ValidValue kValidValues[] = {
    {"engine:classic", [](auto& o) { o.engine = EngineKind::kClassic; }},
    {"engine:paged", [](auto&) {}, ""},
    {"engine:plugin", [](auto& o) { o.engine = EngineKind::kPlugin; }},
    {"engine:async", [](auto& o) { o.engine = EngineKind::kAsync; }},
    {"policy:fast", [](auto& o) { o.policy = PagedPolicy::kFast; }},
    {"policy:balanced", [](auto&) {}, ""},
    {"policy:lean", [](auto& o) { o.policy = PagedPolicy::kLean; }},
    {"compat:pytorch",
     [](auto& o) {
       o.pytorch_compatible = true;
       o.engine = EngineKind::kClassic;
     },
     "engine:classic,compat:pytorch"},
    {"engine:paged,compat:pytorch", [](auto& o) { o.pytorch_compatible = true; }},
    {"compat:none", [](auto&) {}, ""},
    {"backend:native", [](auto&) {}, ""},
    {"backend:cudaMallocAsync", [](auto& o) { o.engine = EngineKind::kAsync; }, "engine:async"},
    {"backend:hipMallocAsync", [](auto& o) { o.engine = EngineKind::kAsync; }, "engine:async"},
    {"compat:pytorch,backend:cudaMallocAsync",
     [](auto& o) {
       o.pytorch_compatible = true;
       o.engine = EngineKind::kAsync;
     },
     "engine:async,compat:pytorch"},
    {"caching:False", [](auto& o) { o.caching = false; }},
    {"caching:True", [](auto&) {}, ""},
    {"large_segment_size_mb:11", [](auto& o) { o.large_segment_bytes = 11 * kMiB; }},
    {"large_segment_size_mb:1048576", [](auto& o) { o.large_segment_bytes = size_t{1} << 40; }},
    {"large_segment_size_mb:20", [](auto&) {}, ""},
    {"max_split_size_mb:20", [](auto& o) { o.max_split_bytes = 20 * kMiB; }},
    {"max_split_size_mb:1048576", [](auto& o) { o.max_split_bytes = size_t{1} << 40; }},
    {"max_split_size_mb:20.5", [](auto& o) { o.max_split_bytes = 20 * kMiB + kMiB / 2; }},
    {"max_split_size_mb:unlimited", [](auto&) {}, ""},
    {"max_non_split_rounding_mb:20", [](auto& o) { o.max_non_split_rounding_bytes = 20 * kMiB; }},
    {"max_non_split_rounding_mb:1048576",
     [](auto& o) { o.max_non_split_rounding_bytes = size_t{1} << 40; }},
    {"max_non_split_rounding_mb:large_segment_size_mb", [](auto&) {}, ""},
    {"roundup_power2_divisions:4", [](auto& o) { o.roundup_power2_divisions.fill(4); }},
    {"roundup_power2_divisions:[1:4]", [](auto& o) { o.roundup_power2_divisions = {4}; }},
    {"roundup_power2_divisions:off", [](auto&) {}, ""},
    {"expandable_segments:True", [](auto& o) { o.expandable_segments = true; }},
    {"expandable_segments:False", [](auto&) {}, ""},
    {"expandable_segments_ipc:True", [](auto& o) { o.shareable_expandable_segments = true; }},
    {"expandable_segments_reserve:0.25",
     [](auto& o) { o.expandable_reserve = {.capacity_fraction = 0.25}; }},
    {"expandable_segments_reserve:8",
     [](auto& o) { o.expandable_reserve = {.capacity_fraction = 8}; }},
    {"expandable_segments_reserve:8G", [](auto& o) { o.expandable_reserve = {.bytes = 8 * kGiB}; }},
    {"expandable_segments_reserve:1.5G",
     [](auto& o) { o.expandable_reserve = {.bytes = kGiB + kGiB / 2}; }},
    {"expandable_segments_reserve:1048576G",
     [](auto& o) { o.expandable_reserve = {.bytes = size_t{1} << 50}; }},
    {"expandable_segments_reserve:unset", [](auto&) {}, ""},
    {"expandable_segments_reserve_by_class:[comm:0.5,compute:8G]",
     [](auto& o) {
       o.expandable_reserve_by_class["comm"] = {.capacity_fraction = 0.5};
       o.expandable_reserve_by_class["compute"] = {.bytes = 8 * kGiB};
     }},
    {"expandable_segments_reserve_by_class:[]", [](auto&) {}, ""},
    {"garbage_collection_threshold:0.8", [](auto& o) { o.garbage_collection_threshold = 0.8; }},
    {"garbage_collection_threshold:1e-3", [](auto& o) { o.garbage_collection_threshold = 0.001; },
     "garbage_collection_threshold:0.001"},
    {"garbage_collection_threshold:off", [](auto&) {}, ""},
    {"per_process_memory_fraction:0.5", [](auto& o) { o.memory_fraction = 0.5; }},
    {"per_process_memory_fraction:0", [](auto& o) { o.memory_fraction = 0; }},
    {"per_process_memory_fraction:1.0", [](auto&) {}, ""},
    {"throw_on_cudamalloc_oom:True", [](auto& o) { o.reject_before_device_oom = true; }},
    {"throw_on_hipmalloc_oom:True", [](auto& o) { o.reject_before_device_oom = true; },
     "throw_on_cudamalloc_oom:True"},
    {"release_lock_on_cudamalloc:True", [](auto& o) { o.unlock_during_device_allocate = true; }},
    {"release_lock_on_hipmalloc:True", [](auto& o) { o.unlock_during_device_allocate = true; },
     "release_lock_on_cudamalloc:True"},
    {"graph_capture_record_stream_reuse:True", [](auto& o) { o.capture_stream_reuse = true; }},
    {"pinned_use_background_threads:True", [](auto& o) { o.pinned.use_background_threads = true; }},
    {"pinned_use_cuda_host_register:True", [](auto& o) { o.pinned.use_host_register = true; }},
    {"pinned_use_hip_host_register:True", [](auto& o) { o.pinned.use_host_register = true; },
     "pinned_use_cuda_host_register:True"},
    {"pinned_num_register_threads:1", [](auto&) {}, ""},
    {"pinned_num_register_threads:128", [](auto& o) { o.pinned.register_thread_count = 128; }},
    {"pinned_reserve_segment_size_mb:1", [](auto& o) { o.pinned.reserve_segment_bytes = kMiB; }},
    {"pinned_reserve_segment_size_mb:1048576",
     [](auto& o) { o.pinned.reserve_segment_bytes = size_t{1} << 40; }},
    {"pinned_reserve_segment_size_mb:off", [](auto&) {}, ""},
    {"pinned_max_round_threshold_mb:0", [](auto& o) { o.pinned.max_round_bytes = 0; }},
    {"pinned_max_round_threshold_mb:1048576",
     [](auto& o) { o.pinned.max_round_bytes = size_t{1} << 40; }},
    {"pinned_max_cached_size_mb:0", [](auto& o) { o.pinned.max_cached_bytes = 0; }},
    {"pinned_max_cached_size_mb:64", [](auto& o) { o.pinned.max_cached_bytes = 64 * kMiB; }},
    {"pinned_free_catch_all:True", [](auto&) {}, ""},
    {"pinned_free_catch_all:False", [](auto&) {}, ""},
    {"plugin_library:/opt/my pools/libpool.so.1",
     [](auto& o) { o.plugin.library = "/opt/my pools/libpool.so.1"; }},
    {"plugin_library:none", [](auto&) {}, ""},
    {"plugin_alloc:my_alloc_2", [](auto& o) { o.plugin.alloc_symbol = "my_alloc_2"; }},
    {"plugin_free:_my_free", [](auto& o) { o.plugin.free_symbol = "_my_free"; }},
    {"plugin_hooks:MyHooks", [](auto& o) { o.plugin.hooks_symbol = "MyHooks"; }},
    {"plugin_hooks:auto", [](auto&) {}, ""},
};

TEST(AllocatorOptionTableTest, ValidValueChangesOnlyItsOption) {
  for (const ValidValue& valid_names : kValidValues) {
    AllocatorOptions wanted;
    valid_names.change(wanted);
    EXPECT_EQ(parse(valid_names.setting), wanted) << valid_names.setting;
  }
}

TEST(AllocatorOptionTableTest, FormatsValidValuesCanonically) {
  for (const ValidValue& valid_names : kValidValues) {
    const char* canonical =
        valid_names.canonical == nullptr ? valid_names.setting : valid_names.canonical;
    EXPECT_EQ(format_allocator_options(parse(valid_names.setting)), canonical)
        << valid_names.setting;
  }
}

// --- invalid values

struct InvalidValue {
  const char* name;
  const char* value;
  const char* rest_of_message;
};

constexpr const char* kNotABoolean = "is not a boolean (expected True or False)";
constexpr const char* kNotASplitSize = "is not a number (expected 20–1048576 or unlimited)";
constexpr const char* kSplitRange = "is out of range (expected 20–1048576 or unlimited)";
constexpr const char* kThresholdRange = "is out of range (expected above 0 and below 1, or off)";
constexpr const char* kReserveRange =
    "is out of range (expected a fraction above 0, GiB up to 1048576G, or unset)";
constexpr const char* kReserveSyntax =
    "is neither a fraction nor a number of GiB (expected a fraction above 0, GiB up to 1048576G, "
    "or unset)";

const InvalidValue kInvalidValues[] = {
    {"engine", "buddy",
     "is not an engine of this version (expected paged, classic, async or "
     "plugin)"},
    {"policy", "frugal", "is not a policy of the paged engine (expected fast, balanced or lean)"},
    {"compat", "PyTorch", "is not known (expected pytorch or none)"},
    {"backend", "Native",
     "is not a kind of allocator (expected native, cudaMallocAsync or hipMallocAsync)"},
    {"large_segment_size_mb", "10", "is out of range (expected 11–1048576)"},
    {"large_segment_size_mb", "1048577", "is out of range (expected 11–1048576)"},
    {"large_segment_size_mb", "twenty", "is not a number (expected 11–1048576)"},
    {"max_split_size_mb", "12x", kNotASplitSize},
    {"max_split_size_mb", "0x200", kNotASplitSize},
    {"max_split_size_mb", "1e3", kNotASplitSize},
    {"max_split_size_mb", "+32", kNotASplitSize},
    {"max_split_size_mb", "5 12", kNotASplitSize},
    {"max_split_size_mb", "nan", kNotASplitSize},
    {"max_split_size_mb", "inf", kNotASplitSize},
    {"max_split_size_mb", "-inf", kNotASplitSize},
    {"max_split_size_mb", "-", kNotASplitSize},
    {"max_split_size_mb", ".", kNotASplitSize},
    {"max_split_size_mb", "Unlimited", kNotASplitSize},
    {"max_split_size_mb", "[1:2]", kNotASplitSize},
    {"max_split_size_mb", "-32", kSplitRange},
    {"max_split_size_mb", "19", kSplitRange},
    {"max_split_size_mb", "19.99", kSplitRange},
    {"max_split_size_mb", "1048577", kSplitRange},
    {"max_split_size_mb", "18446744073709551616", kSplitRange},
    {"max_split_size_mb", "20.1",
     "is not a whole number of bytes (expected 20–1048576 or unlimited)"},
    {"max_non_split_rounding_mb", "19", "is out of range (expected 20–1048576)"},
    {"max_non_split_rounding_mb", "1048577", "is out of range (expected 20–1048576)"},
    {"max_non_split_rounding_mb", "unlimited", "is not a number (expected 20–1048576)"},
    {"roundup_power2_divisions", "3",
     "is not a power of two (expected a power of two up to 1048576, a list such as "
     "[256:1,512:2,>:8], or off)"},
    {"expandable_segments", "true", kNotABoolean},
    {"expandable_segments", "1", kNotABoolean},
    {"expandable_segments_ipc", "1", kNotABoolean},
    {"caching", "off", kNotABoolean},
    {"expandable_segments_reserve", "0", kReserveRange},
    {"expandable_segments_reserve", "-0.5", kReserveRange},
    {"expandable_segments_reserve", "0G", kReserveRange},
    {"expandable_segments_reserve", "1e999", kReserveRange},
    {"expandable_segments_reserve", "1048577G", kReserveRange},
    {"expandable_segments_reserve", "nan", kReserveSyntax},
    {"expandable_segments_reserve", "infG", kReserveSyntax},
    {"expandable_segments_reserve", "8GiB", kReserveSyntax},
    {"expandable_segments_reserve", "G", kReserveSyntax},
    {"expandable_segments_reserve", "0.1G",
     "is not a whole number of bytes (expected a fraction above 0, GiB up to 1048576G, or unset)"},
    {"expandable_segments_reserve_by_class", "0.5",
     "is not a list (expected a list such as [comm:0.1,compute:8G])"},
    {"expandable_segments_reserve_by_class", "[a:1G,a:2G]",
     "has \"a\" twice (expected a list such as [comm:0.1,compute:8G])"},
    {"garbage_collection_threshold", "0", kThresholdRange},
    {"garbage_collection_threshold", "1", kThresholdRange},
    {"garbage_collection_threshold", "-0.5", kThresholdRange},
    {"garbage_collection_threshold", "1e-999", kThresholdRange},
    {"garbage_collection_threshold", "nan",
     "is not a number (expected above 0 and below 1, or off)"},
    {"per_process_memory_fraction", "1.01", "is out of range (expected 0–1)"},
    {"per_process_memory_fraction", "-0.01", "is out of range (expected 0–1)"},
    {"per_process_memory_fraction", "half", "is not a number (expected 0–1)"},
    {"throw_on_cudamalloc_oom", "yes", kNotABoolean},
    {"throw_on_hipmalloc_oom", "yes", kNotABoolean},
    {"release_lock_on_cudamalloc", "TRUE", kNotABoolean},
    {"graph_capture_record_stream_reuse", "on", kNotABoolean},
    {"pinned_use_background_threads", "0", kNotABoolean},
    {"pinned_use_cuda_host_register", "T", kNotABoolean},
    {"pinned_num_register_threads", "0",
     "is not a power of two (expected a power of two up to 128)"},
    {"pinned_num_register_threads", "3",
     "is not a power of two (expected a power of two up to 128)"},
    {"pinned_num_register_threads", "256", "is out of range (expected a power of two up to 128)"},
    {"pinned_reserve_segment_size_mb", "0", "is out of range (expected 1–1048576 or off)"},
    {"pinned_reserve_segment_size_mb", "1048577", "is out of range (expected 1–1048576 or off)"},
    {"pinned_max_round_threshold_mb", "-1", "is out of range (expected 0–1048576 or unlimited)"},
    {"pinned_max_cached_size_mb", "x", "is not a number (expected 0–1048576 or unlimited)"},
    {"pinned_free_catch_all", "maybe", kNotABoolean},
    {"plugin_library", "[a:b]",
     "is not a path (expected the path of a shared object, without , : [ or ], or none)"},
    {"plugin_alloc", "my-alloc", "is not a name in C (expected the name of a function, or none)"},
    {"plugin_free", "free()", "is not a name in C (expected the name of a function, or none)"},
    {"plugin_hooks", "my.hooks", "is not a name in C (expected the name of a table, or auto)"},
};

TEST(AllocatorOptionTableTest, ErrorNamesOptionValueAndExpectation) {
  for (const InvalidValue& wrong : kInvalidValues) {
    const std::string setting = std::string(wrong.name) + ":" + wrong.value;
    EXPECT_EQ(error_for(setting),
              std::string(wrong.name) + ": \"" + wrong.value + "\" " + wrong.rest_of_message);
  }
}

TEST(AllocatorOptionTableTest, ErrorNamesTheListEntry) {
  EXPECT_EQ(error_for("expandable_segments_reserve_by_class:[a:1G,b:x]"),
            "expandable_segments_reserve_by_class: b: \"x\" is neither a fraction nor a number of "
            "GiB (expected a fraction above 0, or GiB up to 1048576G)");
}

// --- the option table

TEST(AllocatorOptionTableTest, CoversEveryOption) {
  std::set<std::string_view> valid_names;
  for (const ValidValue& each : kValidValues) {
    const std::string_view setting = each.setting;
    valid_names.insert(setting.substr(0, setting.find(':')));
  }
  std::set<std::string_view> invalid_names;
  for (const InvalidValue& each : kInvalidValues) invalid_names.insert(each.name);
  for (const OptionRow& row : allocator_option_table()) {
    EXPECT_TRUE(valid_names.contains(row.name)) << row.name;
    EXPECT_TRUE(invalid_names.contains(row.name)) << row.name;
    EXPECT_TRUE(row.alias.empty() || valid_names.contains(row.alias)) << row.alias;
  }
}

TEST(AllocatorOptionTableTest, AcceptsTheDefaultText) {
  for (const OptionRow& row : allocator_option_table()) {
    EXPECT_EQ(row.print(row, AllocatorOptions()), row.default_text);
    EXPECT_EQ(parse(std::string(row.name) + ":" + std::string(row.default_text)),
              AllocatorOptions());
  }
}

TEST(AllocatorOptionTableTest, DefaultTextResetsTheOption) {
  for (const ValidValue& valid_names : kValidValues) {
    const AllocatorOptions changed = parse(valid_names.setting);
    std::string back;
    for (const OptionRow& row : allocator_option_table()) {
      if (row.print(row, changed) == row.default_text) continue;
      if (!back.empty()) back += ",";
      back.append(row.name).append(":").append(row.default_text);
    }
    EXPECT_EQ(parse(back, changed), AllocatorOptions()) << valid_names.setting << ", then " << back;
  }
}

TEST(AllocatorOptionTableTest, RowsHaveTextsAndUniqueNames) {
  std::set<std::string_view> names;
  for (const OptionRow& row : allocator_option_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " twice";
    EXPECT_TRUE(row.alias.empty() || names.insert(row.alias).second) << row.alias << " twice";
    EXPECT_FALSE(row.type.empty()) << row.name;
    EXPECT_FALSE(row.range.empty()) << row.name;
    EXPECT_FALSE(row.help.empty()) << row.name;
    EXPECT_EQ(row.name.ends_with("_mb"), row.unit == "MiB") << row.name;
  }
}

// --- the user guide

std::string guide() {
  std::ifstream file(ASHLAR_SOURCE_DIR "/docs/reference/options.md");
  std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_FALSE(all.empty()) << "docs/reference/options.md cannot be read";
  return all;
}

TEST(OptionsGuideTest, DocumentsEveryOption) {
  const std::string text = guide();
  for (const OptionRow& row : allocator_option_table()) {
    const std::string line = "\n| `" + std::string(row.name) + "` | " +
                             std::string(row.default_text) + " | " + std::string(row.range) + " | ";
    EXPECT_NE(text.find(line), std::string::npos) << "there is no line " << line;
    EXPECT_THAT(text, HasSubstr(row.alias.empty() ? "" : "`" + std::string(row.alias) + "`"));
  }
}

TEST(OptionsGuideTest, DocumentsNoUnknownOption) {
  std::istringstream lines(guide());
  size_t found = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `")) continue;
    const std::string name = line.substr(3, line.find('`', 3) - 3);
    const std::span<const OptionRow> table = allocator_option_table();
    EXPECT_TRUE(std::any_of(table.begin(), table.end(), [&](const OptionRow& row) {
      return row.name == name;
    })) << name;
    ++found;
  }
  EXPECT_EQ(found, allocator_option_table().size());
}

}  // namespace
}  // namespace ashlar
