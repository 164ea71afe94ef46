// SPDX-License-Identifier: Apache-2.0
//
// The table of options: one row each. A new option is a field of AllocatorOptions and a row here;
// docs/guide/options.md says what it is good for, and a test holds the two together. Long because
// there are so many.
#include <array>

#include "config/allocator_options.h"
#include "config/option_values.h"
#include "config/roundup_divisions.h"

namespace ashlar {
std::string engine_text(EngineKind engine) {
  switch (engine) {
    case EngineKind::kClassic: return "classic";
    case EngineKind::kPaged: return "paged";
    case EngineKind::kPlugin: return "plugin";
    case EngineKind::kAsync: return "async";
  }
  return {};
}

namespace {

// --- the fields behind the rows --------------------------------------------------------------

// The field of AllocatorOptions, or of one of its parts, that a member pointer names.
template <auto kField, typename Options>
auto& field(Options& options) {
  if constexpr (requires { options.*kField; }) {
    return options.*kField;
  } else if constexpr (requires { options.pinned.*kField; }) {
    return options.pinned.*kField;
  } else {
    return options.plugin.*kField;
  }
}

// Reads with kRead. The default's text is a value as well, even where it is not of the kind that
// kRead reads: "unlimited", "off".
template <auto kField, auto kRead>
Status set(const OptionRow& row, const OptionAssignment& given, AllocatorOptions& options) {
  if (given.value == row.default_text) {
    const AllocatorOptions defaults;
    field<kField>(options) = field<kField>(defaults);
    return Status();
  }
  const auto value = kRead({.given = given, .expected = row.range, .options = options});
  if (!value.ok()) return value.status();
  field<kField>(options) = *value;
  return Status();
}

template <auto kField, auto kToText>
std::string print(const OptionRow& row, const AllocatorOptions& options) {
  const AllocatorOptions defaults;
  const auto& value = field<kField>(options);
  if (value == field<kField>(defaults)) return std::string(row.default_text);
  if constexpr (requires { value.has_value(); }) {
    return kToText(*value);
  } else {
    return kToText(value);
  }
}

std::string print_default(const OptionRow& row, const AllocatorOptions&) {
  return std::string(row.default_text);
}

// --- options with a meaning of their own -----------------------------------------------------

Result<EngineKind> read_engine(const Reading& reading) {
  if (reading.given.value == "classic") return EngineKind::kClassic;
  if (reading.given.value == "paged") return EngineKind::kPaged;
  if (reading.given.value == "plugin") return EngineKind::kPlugin;
  if (reading.given.value == "async") return EngineKind::kAsync;
  return wrong_value(reading, "is not an engine of this version");
}

Result<PagedPolicy> read_policy(const Reading& reading) {
  if (reading.given.value == "fast") return PagedPolicy::kFast;
  if (reading.given.value == "balanced") return PagedPolicy::kBalanced;
  if (reading.given.value == "lean") return PagedPolicy::kLean;
  return wrong_value(reading, "is not a policy of the paged engine");
}

std::string policy_text(PagedPolicy policy) {
  switch (policy) {
    case PagedPolicy::kFast: return "fast";
    case PagedPolicy::kBalanced: return "balanced";
    case PagedPolicy::kLean: return "lean";
  }
  return {};
}

Result<bool> read_compat(const Reading& reading) {
  if (reading.given.value == "pytorch") return true;
  if (reading.given.value == "none") return false;
  return wrong_value(reading, "is not known");
}

std::string compat_text(bool pytorch) { return pytorch ? "pytorch" : "none"; }

Status set_backend(const OptionRow& row, const OptionAssignment& given, AllocatorOptions& options) {
  const Reading reading = {.given = given, .expected = row.range, .options = options};
  if (given.value == "native") return Status();
  const bool is_driver_pool = given.value == "cudaMallocAsync" || given.value == "hipMallocAsync";
  if (!is_driver_pool) return wrong_value(reading, "is not a kind of allocator");
  options.engine = EngineKind::kAsync;
  return Status();
}

// Frees never throw here, so there is nothing to switch on or off.
Status set_free_catch_all(const OptionRow& row, const OptionAssignment& given,
                          AllocatorOptions& options) {
  if (given.value == row.default_text) return Status();
  return read_boolean({.given = given, .expected = row.range, .options = options}).status();
}

// --- the table -------------------------------------------------------------------------------

constexpr std::array kOptions = {
    OptionRow{
        .name = "engine",
        .type = "choice",
        .default_text = "paged",
        .range = "paged, classic, async or plugin",
        .help = "Which policy hands out the memory: paged does not fragment, classic is PyTorch's, "
                "async is the driver's stream-ordered pool, plugin is somebody else's functions.",
        .set = set<&AllocatorOptions::engine, read_engine>,
        .print = print<&AllocatorOptions::engine, engine_text>,
    },
    OptionRow{
        .name = "policy",
        .type = "choice",
        .default_text = "balanced",
        .range = "fast, balanced or lean",
        .help = "How much driver time the paged engine spends to save memory.",
        .set = set<&AllocatorOptions::policy, read_policy>,
        .print = print<&AllocatorOptions::policy, policy_text>,
    },
    OptionRow{
        .name = "compat",
        .type = "choice",
        .default_text = "none",
        .range = "pytorch or none",
        .help = "With pytorch, behaves as PyTorch does to the last act, known weaknesses included; "
                "means engine:classic unless an engine is named.",
        .set = set<&AllocatorOptions::pytorch_compatible, read_compat>,
        .print = print<&AllocatorOptions::pytorch_compatible, compat_text>,
    },
    OptionRow{
        .name = "backend",
        .type = "choice",
        .default_text = "native",
        .range = "native, cudaMallocAsync or hipMallocAsync",
        .help = "PyTorch's switch to the driver's own pool: all but native mean engine:async.",
        .set = set_backend,
        .print = print_default,
    },
    OptionRow{
        .name = "large_segment_size_mb",
        .type = "size",
        .unit = "MiB",
        .default_text = "20",
        .range = "11–1048576",
        .help = "Size of the segments that requests from 1 to 10 MiB share, and of the granules of "
                "large expandable segments.",
        .set = set<&AllocatorOptions::large_segment_bytes, read_size<11>>,
        .print = print<&AllocatorOptions::large_segment_bytes, size_text>,
    },
    OptionRow{
        .name = "max_split_size_mb",
        .type = "size",
        .unit = "MiB",
        .default_text = "unlimited",
        .range = "large_segment_size_mb–1048576 or unlimited",
        .help = "Larger blocks are never split, and serve only requests of nearly their own size.",
        .set = set<&AllocatorOptions::max_split_bytes, read_size_from_large_segment>,
        .print = print<&AllocatorOptions::max_split_bytes, size_text>,
    },
    OptionRow{
        .name = "max_non_split_rounding_mb",
        .type = "size",
        .unit = "MiB",
        .default_text = "large_segment_size_mb",
        .range = "large_segment_size_mb–1048576",
        .help = "How much larger than a request above max_split_size_mb its block may be.",
        .set = set<&AllocatorOptions::max_non_split_rounding_bytes, read_size_from_large_segment>,
        .print = print<&AllocatorOptions::max_non_split_rounding_bytes, size_text>,
    },
    OptionRow{
        .name = "roundup_power2_divisions",
        .type = "divisions",
        .default_text = "off",
        .range = "a power of two up to 1048576, a list such as [256:1,512:2,>:8], or off",
        .help = "Rounds requests up to one of so many steps between two powers of two; the list "
                "gives the number by size in MiB.",
        .set = set<&AllocatorOptions::roundup_power2_divisions, read_roundup_divisions>,
        .print = print<&AllocatorOptions::roundup_power2_divisions, roundup_divisions_text>,
    },
    OptionRow{
        .name = "expandable_segments",
        .type = "boolean",
        .default_text = "False",
        .range = "True or False",
        .help = "Segments grow in place, on devices with virtual memory.",
        .set = set<&AllocatorOptions::expandable_segments, read_boolean>,
        .print = print<&AllocatorOptions::expandable_segments, boolean_text>,
    },
    OptionRow{
        .name = "expandable_segments_ipc",
        .type = "boolean",
        .default_text = "False",
        .range = "True or False",
        .help = "Memory of expandable segments can be shared with other processes; costs the "
                "system one object per granule.",
        .set = set<&AllocatorOptions::shareable_expandable_segments, read_boolean>,
        .print = print<&AllocatorOptions::shareable_expandable_segments, boolean_text>,
    },
    OptionRow{
        .name = "expandable_segments_reserve",
        .type = "reserve",
        .default_text = "unset",
        .range = "a fraction above 0, GiB up to 1048576G, or unset",
        .help =
            "Addresses that an expandable segment reserves, as a share of the device's capacity "
            "or in GiB; unset: 9/8 of the capacity, which is also the most. A bad value is an "
            "error even under compat:pytorch, where PyTorch warns and ignores it.",
        .set = set<&AllocatorOptions::expandable_reserve, read_reserve>,
        .print = print<&AllocatorOptions::expandable_reserve, reserve_text>,
    },
    OptionRow{
        .name = "expandable_segments_reserve_by_class",
        .type = "list",
        .default_text = "[]",
        .range = "a list such as [comm:0.1,compute:8G]",
        .help = "The same for the streams of a class, by the name of the class.",
        .set = set<&AllocatorOptions::expandable_reserve_by_class, read_reserve_by_class>,
        .print = print<&AllocatorOptions::expandable_reserve_by_class, reserve_by_class_text>,
    },
    OptionRow{
        .name = "caching",
        .type = "boolean",
        .default_text = "True",
        .range = "True or False",
        .help = "With False, every allocation is the device's own and goes back to it when freed: "
                "for tools that check memory accesses.",
        .set = set<&AllocatorOptions::caching, read_boolean>,
        .print = print<&AllocatorOptions::caching, boolean_text>,
    },
    OptionRow{
        .name = "garbage_collection_threshold",
        .type = "fraction",
        .default_text = "off",
        .range = "above 0 and below 1, or off",
        .help = "Above this share of the limit that per_process_memory_fraction sets, segments "
                "unused for long are given back before the device is asked for more.",
        .set = set<&AllocatorOptions::garbage_collection_threshold, read_fraction_between>,
        .print = print<&AllocatorOptions::garbage_collection_threshold, fraction_text>,
    },
    OptionRow{
        .name = "per_process_memory_fraction",
        .type = "fraction",
        .default_text = "1",
        .range = "0–1",
        .help = "Share of the device's capacity that may be held; 1 sets no limit.",
        .set = set<&AllocatorOptions::memory_fraction, read_fraction>,
        .print = print<&AllocatorOptions::memory_fraction, fraction_text>,
    },
    OptionRow{
        .name = "throw_on_cudamalloc_oom",
        .alias = "throw_on_hipmalloc_oom",
        .type = "boolean",
        .default_text = "False",
        .range = "True or False",
        .help = "Refuses what would pass the limit without asking the device.",
        .set = set<&AllocatorOptions::reject_before_device_oom, read_boolean>,
        .print = print<&AllocatorOptions::reject_before_device_oom, boolean_text>,
    },
    OptionRow{
        .name = "release_lock_on_cudamalloc",
        .alias = "release_lock_on_hipmalloc",
        .type = "boolean",
        .default_text = "False",
        .range = "True or False",
        .help = "Others may allocate while one waits for the device to allocate; without "
                "compat:pytorch they always may.",
        .set = set<&AllocatorOptions::unlock_during_device_allocate, read_boolean>,
        .print = print<&AllocatorOptions::unlock_during_device_allocate, boolean_text>,
    },
    OptionRow{
        .name = "graph_capture_record_stream_reuse",
        .type = "boolean",
        .default_text = "False",
        .range = "True or False",
        .help = "Reuses blocks within a capture where its graph proves that this is safe.",
        .set = set<&AllocatorOptions::capture_stream_reuse, read_boolean>,
        .print = print<&AllocatorOptions::capture_stream_reuse, boolean_text>,
    },
    OptionRow{
        .name = "pinned_use_background_threads",
        .type = "boolean",
        .default_text = "False",
        .range = "True or False",
        .help = "A thread of its own looks for pinned blocks whose work is done.",
        .set = set<&PinnedOptions::use_background_threads, read_boolean>,
        .print = print<&PinnedOptions::use_background_threads, boolean_text>,
    },
    OptionRow{
        .name = "pinned_use_cuda_host_register",
        .alias = "pinned_use_hip_host_register",
        .type = "boolean",
        .default_text = "False",
        .range = "True or False",
        .help = "Pinned memory is allocated, touched and registered, instead of asked for pinned.",
        .set = set<&PinnedOptions::use_host_register, read_boolean>,
        .print = print<&PinnedOptions::use_host_register, boolean_text>,
    },
    OptionRow{
        .name = "pinned_num_register_threads",
        .type = "count",
        .default_text = "1",
        .range = "a power of two up to 128",
        .help = "Threads that touch the pages before they are registered.",
        .set = set<&PinnedOptions::register_thread_count, read_register_thread_count>,
        .print = print<&PinnedOptions::register_thread_count, count_text>,
    },
    OptionRow{
        .name = "pinned_reserve_segment_size_mb",
        .type = "size",
        .unit = "MiB",
        .default_text = "off",
        .range = "1–1048576 or off",
        .help = "Pinned memory taken at the start and never given back.",
        .set = set<&PinnedOptions::reserve_segment_bytes, read_size<1>>,
        .print = print<&PinnedOptions::reserve_segment_bytes, size_text>,
    },
    OptionRow{
        .name = "pinned_max_round_threshold_mb",
        .type = "size",
        .unit = "MiB",
        .default_text = "unlimited",
        .range = "0–1048576 or unlimited",
        .help = "Larger requests for pinned memory are not rounded up.",
        .set = set<&PinnedOptions::max_round_bytes, read_size<0>>,
        .print = print<&PinnedOptions::max_round_bytes, size_text>,
    },
    OptionRow{
        .name = "pinned_max_cached_size_mb",
        .type = "size",
        .unit = "MiB",
        .default_text = "unlimited",
        .range = "0–1048576 or unlimited",
        .help = "Larger pinned blocks are given back instead of cached.",
        .set = set<&PinnedOptions::max_cached_bytes, read_size<0>>,
        .print = print<&PinnedOptions::max_cached_bytes, size_text>,
    },
    OptionRow{
        .name = "pinned_free_catch_all",
        .type = "boolean",
        .default_text = "ignored",
        .range = "True or False",
        .help = "Accepted for PyTorch's sake and without effect: here no free throws.",
        .set = set_free_catch_all,
        .print = print_default,
    },
    OptionRow{
        .name = "plugin_library",
        .type = "path",
        .default_text = "none",
        .range = "the path of a shared object, without , : [ or ], or none",
        .help = "Where memory comes from instead of the device: with engine:plugin every "
                "allocation, with engine:classic the segments.",
        .set = set<&PluginOptions::library, read_path>,
        .print = print<&PluginOptions::library, plain_text>,
    },
    OptionRow{
        .name = "plugin_alloc",
        .type = "name",
        .default_text = "none",
        .range = "the name of a function, or none",
        .help = "Its function that allocates, in PyTorch's shape: alloc(size, device, stream).",
        .set = set<&PluginOptions::alloc_symbol, read_symbol>,
        .print = print<&PluginOptions::alloc_symbol, plain_text>,
    },
    OptionRow{
        .name = "plugin_free",
        .type = "name",
        .default_text = "none",
        .range = "the name of a function, or none",
        .help = "Its function that frees: free(ptr, size, device, stream).",
        .set = set<&PluginOptions::free_symbol, read_symbol>,
        .print = print<&PluginOptions::free_symbol, plain_text>,
    },
    OptionRow{
        .name = "plugin_hooks",
        .type = "name",
        .default_text = "auto",
        .range = "the name of a table, or auto",
        .help = "Its table of further functions; auto: ashlar_plugin_hooks, if it has one.",
        .set = set<&PluginOptions::hooks_symbol, read_symbol>,
        .print = print<&PluginOptions::hooks_symbol, plain_text>,
    },
};

}  // namespace

std::span<const OptionRow> allocator_option_table() { return kOptions; }

}  // namespace ashlar
