// SPDX-License-Identifier: Apache-2.0
//
// The options of an allocator: plain values, passed to its constructor. They can also be written as
// text, such as "expandable_segments:True,max_split_size_mb:512". `ashlar config` lists the names;
// docs/reference/options.md explains them.
//
// Errors: functions throw.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "ashlar/export.h"

namespace ashlar {

enum class EngineKind {
  kClassic,  // PyTorch's caching policy
  kPaged,    // moves extents between address ranges instead of fragmenting
  kPlugin,   // passes every allocation to user functions (PluginOptions)
  kAsync,    // the driver's stream-ordered pool
};

// The trade-off of the paged engine between driver calls and memory. docs/how-to/paged.md has
// measurements.
enum class PagedPolicy { kFast, kBalanced, kLean };

// The address space that an expandable segment reserves: `bytes` or, if that is 0, a fraction of
// the device's capacity. The maximum is 9/8 of the capacity; larger values count as the maximum.
struct ReserveSize {
  double capacity_fraction = 0;
  size_t bytes = 0;
  friend bool operator==(const ReserveSize&, const ReserveSize&) = default;
};

// Options of pinned host memory (HostAllocator).
struct PinnedOptions {
  bool use_background_threads = false;  // poll events from a background thread
  bool use_host_register = false;       // pin host memory with register_host, not allocate_host
  size_t register_thread_count = 1;     // threads that touch pages before pinning; a power of two
  size_t reserve_segment_bytes = 0;     // size of a segment that is pinned at construction and kept
  std::optional<size_t> max_round_bytes{};   // larger requests are not rounded
  std::optional<size_t> max_cached_bytes{};  // larger blocks are freed instead of cached
  friend bool operator==(const PinnedOptions&, const PinnedOptions&) = default;
};

// User-supplied allocation functions in a shared object; ashlar/c/plugin.h declares their types.
// The plugin engine passes every allocation to them, the classic engine obtains its segments from
// them, and a pool can use them as its source (ashlar/plugin.h).
struct PluginOptions {
  std::string library{};  // empty: no plug-in
  std::string alloc_symbol{};
  std::string free_symbol{};
  // Symbol of the hook table, which must exist if it is named here. If empty, the table is
  // ASHLAR_PLUGIN_HOOKS_SYMBOL, provided that the library has that symbol.
  std::string hooks_symbol{};
  friend bool operator==(const PluginOptions&, const PluginOptions&) = default;
};

struct AllocatorOptions {
  // Number of entries in roundup_power2_divisions, which has one entry per power of two, starting
  // at 1 MiB. A request uses the entry at index floor(log2(bytes)) - 20, clamped to the array.
  static constexpr size_t kRoundupSlotCount = 16;

  EngineKind engine = EngineKind::kPaged;
  PagedPolicy policy = PagedPolicy::kBalanced;
  // With kClassic, reproduces PyTorch's allocator exactly, including its known weaknesses, for
  // replays and for gradual migration; docs/reference/options.md lists what changes. The paged
  // engine ignores this option. As text, "compat:pytorch" selects the classic engine unless another
  // is named.
  bool pytorch_compatible = false;

  // Segments.

  // Size of the segments shared by requests of 1 to 10 MiB, and of the granules of large expandable
  // segments. At least 11 MiB.
  size_t large_segment_bytes = size_t{20} << 20;
  std::optional<size_t> max_split_bytes{};  // blocks of this size or more are never split
  // A block of max_split_bytes or more may exceed the request that it serves by at most this many
  // bytes. If unset, large_segment_bytes applies.
  std::optional<size_t> max_non_split_rounding_bytes{};
  std::array<uint32_t, kRoundupSlotCount> roundup_power2_divisions{};  // 0 and 1: no rounding
  bool expandable_segments = false;  // segments grow in place, on devices with virtual memory
  // Makes the memory of the paged engine and of expandable segments shareable with other processes.
  // Each extent is then a separate system object; on the simulated device it costs a file
  // descriptor. As text, the option is called expandable_segments_ipc.
  bool shareable_expandable_segments = false;
  // The address space of an expandable segment, for all streams and by name of a stream class
  // (Allocator::set_stream_class). If unset, a segment reserves 9/8 of the capacity, unless
  // Allocator::set_default_class_fraction sets another size.
  std::optional<ReserveSize> expandable_reserve{};
  std::map<std::string, ReserveSize> expandable_reserve_by_class{};

  bool caching = true;  // false, for memory checkers: every allocation is a device allocation

  // Limits.
  double memory_fraction = 1.0;  // fraction of the device's capacity; 1: no limit
  // Above this fraction of the limit, long-unused segments are released before more device memory
  // is requested. 0: off.
  double garbage_collection_threshold = 0;
  bool reject_before_device_oom = false;  // reject requests above the limit without a device call

  // Concurrency and capture.
  // Lets other threads allocate during a device allocation. Always on unless `pytorch_compatible`.
  bool unlock_during_device_allocate = false;
  bool capture_stream_reuse = false;  // reuse blocks within a capture if the graph orders the uses

  PinnedOptions pinned;
  PluginOptions plugin;

  friend bool operator==(const AllocatorOptions&, const AllocatorOptions&) = default;
};

// Selects whether trim_to may block the host.
enum class TrimWait {
  kNever,    // keeps memory that queued work may still use; a later trim returns it
  kForWork,  // waits for the streams that use freed memory and for pending frees
};

struct TrimOptions {
  TrimWait wait = TrimWait::kNever;
};

// Selects what happens to the contents of blocks while their pool is paused.
enum class PauseBackup {
  kNone,  // contents are lost
  kHost,  // contents are copied to host memory and restored by resume
};

struct PauseOptions {
  PauseBackup backup = PauseBackup::kNone;
};

// Applies the options in `text` to `base`. Throws InvalidArgument with a message that names the
// option, the value and the expected range.
ASHLAR_EXPORT AllocatorOptions parse_options(std::string_view text,
                                             const AllocatorOptions& base = {});
// Formats the non-default options. parse_options accepts the result.
ASHLAR_EXPORT std::string format_options(const AllocatorOptions& options);
// Returns the options in ASHLAR_ALLOC_CONF or, if it is not set, in PyTorch's variable for options,
// such as PYTORCH_CUDA_ALLOC_CONF. Switches such as PYTORCH_NO_CUDA_MEMORY_CACHING apply to options
// that this variable does not set. Throws like parse_options, and for unknown variables that begin
// with ASHLAR_. REQUIRES: no other thread modifies the environment.
ASHLAR_EXPORT AllocatorOptions options_from_environment();

}  // namespace ashlar
