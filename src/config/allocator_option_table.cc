// SPDX-License-Identifier: Apache-2.0
//
// The table of options, one row each. A new option is a field of AllocatorOptions and a row here.
// docs/reference/options.md explains the options; a test checks that the page and the table agree.
// The file is long because it has the table of all options.
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

// Access to the fields.

// Returns the field that a pointer to member of AllocatorOptions, PinnedOptions or PluginOptions
// denotes.
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

// Implements OptionRow::set. Parses with kParse, but always accepts the text of the default, such
// as "unlimited" or "off", even if kParse rejects it.
template <auto kField, auto kParse>
Status set(const OptionRow& row, const OptionAssignment& given, AllocatorOptions& options) {
  if (given.value == row.default_text) {
    const AllocatorOptions defaults;
    field<kField>(options) = field<kField>(defaults);
    return Status();
  }
  const auto value = kParse({.given = given, .expected = row.range, .options = options});
  if (!value.ok()) return value.status();
  field<kField>(options) = *value;
  return Status();
}

// Implements OptionRow::print.
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

// Implements OptionRow::print for options that are not stored in a field.
std::string print_default(const OptionRow& row, const AllocatorOptions&) {
  return std::string(row.default_text);
}

// Options with their own parse functions.

Result<EngineKind> parse_engine(const OptionInput& input) {
  if (input.given.value == "classic") return EngineKind::kClassic;
  if (input.given.value == "paged") return EngineKind::kPaged;
  if (input.given.value == "plugin") return EngineKind::kPlugin;
  if (input.given.value == "async") return EngineKind::kAsync;
  return wrong_value(input, "is not an engine of this version");
}

Result<PagedPolicy> parse_policy(const OptionInput& input) {
  if (input.given.value == "fast") return PagedPolicy::kFast;
  if (input.given.value == "balanced") return PagedPolicy::kBalanced;
  if (input.given.value == "lean") return PagedPolicy::kLean;
  return wrong_value(input, "is not a policy of the paged engine");
}

std::string policy_text(PagedPolicy policy) {
  switch (policy) {
    case PagedPolicy::kFast: return "fast";
    case PagedPolicy::kBalanced: return "balanced";
    case PagedPolicy::kLean: return "lean";
  }
  return {};
}

Result<bool> parse_compat(const OptionInput& input) {
  if (input.given.value == "pytorch") return true;
  if (input.given.value == "none") return false;
  return wrong_value(input, "is not known");
}

std::string compat_text(bool pytorch) { return pytorch ? "pytorch" : "none"; }

Status set_backend(const OptionRow& row, const OptionAssignment& given, AllocatorOptions& options) {
  const OptionInput input = {.given = given, .expected = row.range, .options = options};
  if (given.value == "native") return Status();
  const bool is_driver_pool = given.value == "cudaMallocAsync" || given.value == "hipMallocAsync";
  if (!is_driver_pool) return wrong_value(input, "is not a kind of allocator");
  options.engine = EngineKind::kAsync;
  return Status();
}

// Validates pinned_free_catch_all. Freeing pinned memory never throws device errors (see
// HostBuffer::reset), so the option has no effect.
Status set_free_catch_all(const OptionRow& row, const OptionAssignment& given,
                          AllocatorOptions& options) {
  if (given.value == row.default_text) return Status();
  return parse_boolean({.given = given, .expected = row.range, .options = options}).status();
}

constexpr std::array kOptions = {
    OptionRow{
        .name = "engine",
        .type = "choice",
        .default_text = "paged",
        .range = "paged, classic, async or plugin",
        .help = "Allocation policy: paged does not fragment, classic is PyTorch's, "
                "async is the driver's stream-ordered pool, plugin calls your functions.",
        .set = set<&AllocatorOptions::engine, parse_engine>,
        .print = print<&AllocatorOptions::engine, engine_text>,
    },
    OptionRow{
        .name = "policy",
        .type = "choice",
        .default_text = "balanced",
        .range = "fast, balanced or lean",
        .help = "How much driver time the paged engine spends to save memory.",
        .set = set<&AllocatorOptions::policy, parse_policy>,
        .print = print<&AllocatorOptions::policy, policy_text>,
    },
    OptionRow{
        .name = "compat",
        .type = "choice",
        .default_text = "none",
        .range = "pytorch or none",
        .help = "pytorch reproduces PyTorch's behaviour exactly, including known weaknesses, and "
                "selects engine:classic unless an engine is named.",
        .set = set<&AllocatorOptions::pytorch_compatible, parse_compat>,
        .print = print<&AllocatorOptions::pytorch_compatible, compat_text>,
    },
    OptionRow{
        .name = "backend",
        .type = "choice",
        .default_text = "native",
        .range = "native, cudaMallocAsync or hipMallocAsync",
        .help = "PyTorch's name for the driver's pool: any value but native selects engine:async.",
        .set = set_backend,
        .print = print_default,
    },
    OptionRow{
        .name = "large_segment_size_mb",
        .type = "size",
        .unit = "MiB",
        .default_text = "20",
        .range = "11–1048576",
        .help = "Size of the segments shared by requests of 1 to 10 MiB, and of the granules of "
                "large expandable segments.",
        .set = set<&AllocatorOptions::large_segment_bytes, parse_size<11>>,
        .print = print<&AllocatorOptions::large_segment_bytes, size_text>,
    },
    OptionRow{
        .name = "max_split_size_mb",
        .type = "size",
        .unit = "MiB",
        .default_text = "unlimited",
        .range = "large_segment_size_mb–1048576 or unlimited",
        .help = "Blocks of this size or more are never split and serve only requests of nearly "
                "their size.",
        .set = set<&AllocatorOptions::max_split_bytes, parse_size_from_large_segment>,
        .print = print<&AllocatorOptions::max_split_bytes, size_text>,
    },
    OptionRow{
        .name = "max_non_split_rounding_mb",
        .type = "size",
        .unit = "MiB",
        .default_text = "large_segment_size_mb",
        .range = "large_segment_size_mb–1048576",
        .help = "How much larger than its request a block of max_split_size_mb or more may be.",
        .set = set<&AllocatorOptions::max_non_split_rounding_bytes, parse_size_from_large_segment>,
        .print = print<&AllocatorOptions::max_non_split_rounding_bytes, size_text>,
    },
    OptionRow{
        .name = "roundup_power2_divisions",
        .type = "divisions",
        .default_text = "off",
        .range = "a power of two up to 1048576, a list such as [256:1,512:2,>:8], or off",
        .help = "Rounds requests up to one of this many steps between powers of two; a list sets "
                "the number by size in MiB.",
        .set = set<&AllocatorOptions::roundup_power2_divisions, parse_roundup_divisions>,
        .print = print<&AllocatorOptions::roundup_power2_divisions, roundup_divisions_text>,
    },
    OptionRow{
        .name = "expandable_segments",
        .type = "boolean",
        .default_text = "False",
        .range = "True or False",
        .help = "Lets segments grow in place on devices with virtual memory.",
        .set = set<&AllocatorOptions::expandable_segments, parse_boolean>,
        .print = print<&AllocatorOptions::expandable_segments, boolean_text>,
    },
    OptionRow{
        .name = "expandable_segments_ipc",
        .type = "boolean",
        .default_text = "False",
        .range = "True or False",
        .help = "Makes expandable segments shareable with other processes, at the cost of one "
                "system object per granule.",
        .set = set<&AllocatorOptions::shareable_expandable_segments, parse_boolean>,
        .print = print<&AllocatorOptions::shareable_expandable_segments, boolean_text>,
    },
    OptionRow{
        .name = "expandable_segments_reserve",
        .type = "reserve",
        .default_text = "unset",
        .range = "a fraction above 0, GiB up to 1048576G, or unset",
        .help =
            "Address space reserved by an expandable segment, as a fraction of the capacity or in "
            "GiB. Default and maximum: 9/8 of the capacity. An invalid value is an error even "
            "under compat:pytorch, where PyTorch only warns.",
        .set = set<&AllocatorOptions::expandable_reserve, parse_reserve>,
        .print = print<&AllocatorOptions::expandable_reserve, reserve_text>,
    },
    OptionRow{
        .name = "expandable_segments_reserve_by_class",
        .type = "list",
        .default_text = "[]",
        .range = "a list such as [comm:0.1,compute:8G]",
        .help = "Address space reserved by an expandable segment, by stream class.",
        .set = set<&AllocatorOptions::expandable_reserve_by_class, parse_reserve_by_class>,
        .print = print<&AllocatorOptions::expandable_reserve_by_class, reserve_by_class_text>,
    },
    OptionRow{
        .name = "caching",
        .type = "boolean",
        .default_text = "True",
        .range = "True or False",
        .help =
            "With False, every allocation is a separate device allocation that is released when "
            "freed, as memory-access checkers need.",
        .set = set<&AllocatorOptions::caching, parse_boolean>,
        .print = print<&AllocatorOptions::caching, boolean_text>,
    },
    OptionRow{
        .name = "garbage_collection_threshold",
        .type = "fraction",
        .default_text = "off",
        .range = "above 0 and below 1, or off",
        .help = "Above this fraction of the limit set by per_process_memory_fraction, long-unused "
                "segments are released before more device memory is requested.",
        .set = set<&AllocatorOptions::garbage_collection_threshold, parse_fraction_exclusive>,
        .print = print<&AllocatorOptions::garbage_collection_threshold, fraction_text>,
    },
    OptionRow{
        .name = "per_process_memory_fraction",
        .type = "fraction",
        .default_text = "1",
        .range = "0–1",
        .help = "Fraction of the device's capacity that may be reserved; 1 means no limit.",
        .set = set<&AllocatorOptions::memory_fraction, parse_fraction>,
        .print = print<&AllocatorOptions::memory_fraction, fraction_text>,
    },
    OptionRow{
        .name = "throw_on_cudamalloc_oom",
        .alias = "throw_on_hipmalloc_oom",
        .type = "boolean",
        .default_text = "False",
        .range = "True or False",
        .help = "Rejects requests above the limit without calling the device.",
        .set = set<&AllocatorOptions::reject_before_device_oom, parse_boolean>,
        .print = print<&AllocatorOptions::reject_before_device_oom, boolean_text>,
    },
    OptionRow{
        .name = "release_lock_on_cudamalloc",
        .alias = "release_lock_on_hipmalloc",
        .type = "boolean",
        .default_text = "False",
        .range = "True or False",
        .help = "Lets other threads allocate during a device allocation. Always on without "
                "compat:pytorch.",
        .set = set<&AllocatorOptions::unlock_during_device_allocate, parse_boolean>,
        .print = print<&AllocatorOptions::unlock_during_device_allocate, boolean_text>,
    },
    OptionRow{
        .name = "graph_capture_record_stream_reuse",
        .type = "boolean",
        .default_text = "False",
        .range = "True or False",
        .help = "Reuses blocks within a capture if the graph orders the uses.",
        .set = set<&AllocatorOptions::capture_stream_reuse, parse_boolean>,
        .print = print<&AllocatorOptions::capture_stream_reuse, boolean_text>,
    },
    OptionRow{
        .name = "pinned_use_background_threads",
        .type = "boolean",
        .default_text = "False",
        .range = "True or False",
        .help = "A background thread polls for pinned blocks whose work has finished.",
        .set = set<&PinnedOptions::use_background_threads, parse_boolean>,
        .print = print<&PinnedOptions::use_background_threads, boolean_text>,
    },
    OptionRow{
        .name = "pinned_use_cuda_host_register",
        .alias = "pinned_use_hip_host_register",
        .type = "boolean",
        .default_text = "False",
        .range = "True or False",
        .help = "Allocates, touches and registers host memory instead of allocating it pinned.",
        .set = set<&PinnedOptions::use_host_register, parse_boolean>,
        .print = print<&PinnedOptions::use_host_register, boolean_text>,
    },
    OptionRow{
        .name = "pinned_num_register_threads",
        .type = "count",
        .default_text = "1",
        .range = "a power of two up to 128",
        .help = "Number of threads that touch pages before registration.",
        .set = set<&PinnedOptions::register_thread_count, parse_register_thread_count>,
        .print = print<&PinnedOptions::register_thread_count, count_text>,
    },
    OptionRow{
        .name = "pinned_reserve_segment_size_mb",
        .type = "size",
        .unit = "MiB",
        .default_text = "off",
        .range = "1–1048576 or off",
        .help = "Pinned memory allocated at start and never released.",
        .set = set<&PinnedOptions::reserve_segment_bytes, parse_size<1>>,
        .print = print<&PinnedOptions::reserve_segment_bytes, size_text>,
    },
    OptionRow{
        .name = "pinned_max_round_threshold_mb",
        .type = "size",
        .unit = "MiB",
        .default_text = "unlimited",
        .range = "0–1048576 or unlimited",
        .help = "Pinned requests above this size are not rounded up.",
        .set = set<&PinnedOptions::max_round_bytes, parse_size<0>>,
        .print = print<&PinnedOptions::max_round_bytes, size_text>,
    },
    OptionRow{
        .name = "pinned_max_cached_size_mb",
        .type = "size",
        .unit = "MiB",
        .default_text = "unlimited",
        .range = "0–1048576 or unlimited",
        .help = "Pinned blocks above this size are released instead of cached.",
        .set = set<&PinnedOptions::max_cached_bytes, parse_size<0>>,
        .print = print<&PinnedOptions::max_cached_bytes, size_text>,
    },
    OptionRow{
        .name = "pinned_free_catch_all",
        .type = "boolean",
        .default_text = "ignored",
        .range = "True or False",
        .help = "Accepted for compatibility with PyTorch; has no effect, because no free throws.",
        .set = set_free_catch_all,
        .print = print_default,
    },
    OptionRow{
        .name = "plugin_library",
        .type = "path",
        .default_text = "none",
        .range = "the path of a shared object, without , : [ or ], or none",
        .help =
            "Source of memory instead of the device: of every allocation with engine:plugin, of "
            "segments with engine:classic.",
        .set = set<&PluginOptions::library, parse_path>,
        .print = print<&PluginOptions::library, plain_text>,
    },
    OptionRow{
        .name = "plugin_alloc",
        .type = "name",
        .default_text = "none",
        .range = "the name of a function, or none",
        .help = "The library's allocation function, as in PyTorch: alloc(size, device, stream).",
        .set = set<&PluginOptions::alloc_symbol, parse_symbol>,
        .print = print<&PluginOptions::alloc_symbol, plain_text>,
    },
    OptionRow{
        .name = "plugin_free",
        .type = "name",
        .default_text = "none",
        .range = "the name of a function, or none",
        .help = "The library's free function: free(ptr, size, device, stream).",
        .set = set<&PluginOptions::free_symbol, parse_symbol>,
        .print = print<&PluginOptions::free_symbol, plain_text>,
    },
    OptionRow{
        .name = "plugin_hooks",
        .type = "name",
        .default_text = "auto",
        .range = "the name of a table, or auto",
        .help = "The library's table of hooks; auto: ashlar_plugin_hooks, if present.",
        .set = set<&PluginOptions::hooks_symbol, parse_symbol>,
        .print = print<&PluginOptions::hooks_symbol, plain_text>,
    },
};

}  // namespace

std::span<const OptionRow> allocator_option_table() { return kOptions; }

}  // namespace ashlar
