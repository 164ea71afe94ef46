// SPDX-License-Identifier: Apache-2.0
//
// Lists the strings of the keys, in the order of Key.
#include "format/snapshot_keys.h"

#include <array>

#include "base/check.h"

namespace ashlar {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(Key::kCount)> kKeyTexts = {
    "action",
    "active_size",
    "addr",
    "address",
    "allocated_size",
    "allocator_settings",
    "ashlar",
    "blocks",
    "compile_context",
    "device",
    "device_free",
    "device_traces",
    "extents",
    "external_annotations",
    "filename",
    "forward_frames",
    "frames",
    "history",
    "home",
    "host_segments",
    "host_traces",
    "id",
    "is_expandable",
    "is_large",
    "is_paused",
    "line",
    "made_us",
    "mapped_size",
    "mappings",
    "name",
    "pool_id",
    "real_size",
    "requested_size",
    "reserved_size",
    "segment_pool_id",
    "segment_type",
    "segments",
    "size",
    "state",
    "stream",
    "time_us",
    "total_size",
    "traced",
    "user_metadata",
    "version",
    "views",
    "N/A",
    "",
    "large",
    "small",
    "active_allocated",
    "active_pending_free",
    "active_awaiting_free",
    "inactive",
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "snapshot",
    "oom",
    "annotate",
    "free",
    "user_defined",
};

}  // namespace

std::string_view key_text(Key key) { return kKeyTexts[static_cast<size_t>(key)]; }

void add_key_texts(ValueStore& store) {
  ASHLAR_CHECK(store.string_count() == 0);
  for (const std::string_view word : kKeyTexts) {
    Value added;
    const bool has_room = store.add_string(word, added);
    ASHLAR_CHECK(has_room);
  }
}

}  // namespace ashlar
