// SPDX-License-Identifier: Apache-2.0
//
// How an allocator behaves: plain values, given to it when it is made. Each allocator has its own.
// The same as text: "expandable_segments:True,max_split_size_mb:512", under the names that
// `ashlar config` lists and docs/guide/options.md explains.
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
  kClassic,  // PyTorch's policy
  kPaged,    // memory moves between views instead of fragmenting; whole segments where it cannot
  kPlugin,   // somebody else's functions see every allocation: PluginOptions says which
  kAsync,    // the driver's stream-ordered pool, on devices that have one
};

// Of the paged engine: how much driver time may be spent to save how much memory. The measured
// curve is in docs/guide/paged.md.
enum class PagedPolicy { kFast, kBalanced, kLean };

// How many addresses an expandable segment reserves: a share of the device's capacity or a number
// of bytes, whichever is set. Never more than 9/8 of the capacity.
struct ReserveSize {
  double capacity_fraction = 0;
  size_t bytes = 0;
  friend bool operator==(const ReserveSize&, const ReserveSize&) = default;
};

// Pinned host memory.
struct PinnedOptions {
  bool use_background_threads = false;  // poll events from a thread of its own
  bool use_host_register = false;       // allocate, touch and register, instead of allocate_host
  size_t register_thread_count = 1;     // threads that touch pages before registering; power of two
  size_t reserve_segment_bytes = 0;     // one segment taken at the start and never given back
  // Larger requests are not rounded, larger blocks are given back instead of cached.
  std::optional<size_t> max_round_bytes{};
  std::optional<size_t> max_cached_bytes{};
  friend bool operator==(const PinnedOptions&, const PinnedOptions&) = default;
};

// Somebody else's alloc and free, by name, in a shared object: include/ashlar/c/plugin.h has their
// shape. The plugin engine passes every allocation on to them, the classic one takes its segments
// there, and a pool may: see ashlar/plugin.h. Without a library, there is none.
struct PluginOptions {
  std::string library{};
  std::string alloc_symbol{};
  std::string free_symbol{};
  std::string hooks_symbol{};  // of a table that must be there; empty: the usual one, if it is
  friend bool operator==(const PluginOptions&, const PluginOptions&) = default;
};

struct AllocatorOptions {
  // One entry per power of two from 1 MiB on: index floor(log2(bytes)) - 20, kept in range.
  static constexpr size_t kRoundupSlotCount = 16;

  EngineKind engine = EngineKind::kPaged;
  PagedPolicy policy = PagedPolicy::kBalanced;
  // Behave as PyTorch's allocator to the last act, its known weaknesses included: for replays, and
  // for moving over step by step. Together with kClassic, which a text that says compat:pytorch
  // means as well, unless it names an engine. docs/guide/options.md lists what changes.
  bool pytorch_compatible = false;

  // --- where blocks come from -----------------------------------------------------------------
  size_t large_segment_bytes = size_t{20} << 20;  // from 11 MiB; also the expandable granule
  std::optional<size_t> max_split_bytes{};        // larger blocks are never split
  // How much larger than a request above max_split_bytes its block may be. Unset: a large segment.
  std::optional<size_t> max_non_split_rounding_bytes{};
  std::array<uint32_t, kRoundupSlotCount> roundup_power2_divisions{};  // 0 and 1: off
  bool expandable_segments = false;
  // Their memory can be shared with other processes. Each granule then is an object of its own to
  // the system, which on the simulated device costs a file descriptor.
  bool shareable_expandable_segments = false;
  std::optional<ReserveSize> expandable_reserve{};
  std::map<std::string, ReserveSize> expandable_reserve_by_class{};

  bool caching = true;  // false: every allocation is the device's own; for memory checkers

  // --- limits and giving back -------------------------------------------------------------------
  double memory_fraction = 1.0;             // of the device's capacity; 1: no limit of our own
  double garbage_collection_threshold = 0;  // of the limit; 0: off
  bool reject_before_device_oom = false;    // refuse above the limit without asking the device

  // --- concurrency and capture
  // --------------------------------------------------------------------
  bool unlock_during_device_allocate = false;
  bool capture_stream_reuse =
      false;  // reuse blocks within a capture where its graph proves it safe

  PinnedOptions pinned;
  PluginOptions plugin;

  friend bool operator==(const AllocatorOptions&, const AllocatorOptions&) = default;
};

// `base` with the changes that the text asks for. Throws InvalidArgument, which names the option,
// the value and what was expected.
ASHLAR_EXPORT AllocatorOptions parse_options(std::string_view text,
                                             const AllocatorOptions& base = {});
// What is not as it is by default, as text that reads back to the same.
ASHLAR_EXPORT std::string format_options(const AllocatorOptions& options);
// What ASHLAR_ALLOC_CONF, or one of PyTorch's variables, asks for. Throws as parse_options does.
// Must not run while another thread changes the environment.
ASHLAR_EXPORT AllocatorOptions options_from_environment();

}  // namespace ashlar
