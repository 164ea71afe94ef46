// SPDX-License-Identifier: Apache-2.0
//
// Determines the mappings and the home of each extent at a moment, and cuts the mappings by
// segment.
#include "view/extent_map.h"

#include <algorithm>

namespace ashlar::view {
namespace {

// The maximum error when a mapping time is compared with an entry time. The two times are separate
// clock readings, both rounded down.
constexpr double kClockErrorUs = 1;

// Returns whether the pieces cover the whole range. REQUIRES: pieces are sorted by address, without
// overlaps.
bool is_covered(const std::vector<SegmentPiece>& pieces, AddressRange range) {
  const auto begins_after = [](DeviceAddress at, const SegmentPiece& piece) {
    return at < piece.range.begin;
  };
  auto piece = std::upper_bound(pieces.begin(), pieces.end(), range.begin, begins_after);
  if (piece == pieces.begin()) return false;
  DeviceAddress covered = range.begin;
  for (--piece; piece != pieces.end() && piece->range.contains(covered); ++piece) {
    covered = piece->range.end();
    if (covered >= range.end()) return true;
  }
  return false;
}

class ExtentLocator {
 public:
  ExtentLocator(const Document& document, uint32_t moment)
      : is_last_(moment + 1 == document.entry_count()),
        time_us_(document.time_us(moment)),
        pieces_(document.segments().at(moment)) {}

  // Returns the mappings and the home of an extent at the moment.
  MapExtent locate(const SnapshotExtent& recorded) const {
    MapExtent extent{.recorded = &recorded};
    for (const SnapshotMapping& mapping : recorded.mappings) {
      const bool existed =
          is_last_ || static_cast<double>(mapping.mapped_at_us) <= time_us_ + kClockErrorUs;
      if (existed) extent.addresses.push_back(mapping.address);
    }
    if (is_last_) {
      extent.home = recorded.attached_address;
      return extent;
    }
    size_t covered_count = 0;
    for (const DeviceAddress address : extent.addresses) {
      if (!is_covered(pieces_, {address, recorded.bytes})) continue;
      ++covered_count;
      extent.home = address;
    }
    // If several mappings are covered, the trace is incomplete and the home is unknown. If no
    // mapping is covered, a paused pool has released the memory; otherwise the trace would show the
    // memory as mapped where it was used last.
    if (covered_count != 1) extent.home = {};
    if (covered_count == 0) extent.addresses.clear();
    return extent;
  }

  // Returns whether the extent exists. Before the last moment, an extent without mappings is taken
  // not to exist.
  bool exists(const MapExtent& extent) const { return is_last_ || !extent.addresses.empty(); }

 private:
  bool is_last_;
  double time_us_;  // NaN if unknown; then no mapping counts as existing
  std::vector<SegmentPiece> pieces_;
};

// Adds a mapped range for each intersection of the range with a segment.
void add_mapped_ranges(const std::vector<MapSegment>& segments, AddressRange range,
                       const MappedRange& mapped_range, ExtentMap& map) {
  const auto ends_before = [](const MapSegment& segment, DeviceAddress at) {
    return segment.range.end() <= at;
  };
  auto segment = std::lower_bound(segments.begin(), segments.end(), range.begin, ends_before);
  for (; segment != segments.end() && segment->range.begin < range.end(); ++segment) {
    const DeviceAddress begin = std::max(range.begin, segment->range.begin);
    const DeviceAddress end = std::min(range.end(), segment->range.end());
    MappedRange part = mapped_range;
    part.offset = begin - segment->range.begin;
    part.bytes = end - begin;
    map.mapped_ranges[static_cast<size_t>(segment - segments.begin())].push_back(part);
  }
}

size_t count_mapped_ranges(const ExtentMap& map) {
  size_t count = 0;
  for (const std::vector<MappedRange>& each : map.mapped_ranges) count += each.size();
  return count;
}

void merge_below(uint64_t min_bytes, std::vector<MappedRange>& mapped_ranges) {
  std::vector<MappedRange> merged;
  for (const MappedRange& mapped_range : mapped_ranges) {
    MappedRange* last = merged.empty() ? nullptr : &merged.back();
    const bool joins = last != nullptr && last->offset + last->bytes == mapped_range.offset &&
                       last->is_home == mapped_range.is_home && last->bytes < min_bytes &&
                       mapped_range.bytes < min_bytes;
    if (!joins) {
      merged.push_back(mapped_range);
      continue;
    }
    last->bytes += mapped_range.bytes;
    last->extent = kNoIndex;
  }
  mapped_ranges = std::move(merged);
}

}  // namespace

ExtentMap find_extents(const Document& document, uint32_t moment,
                       const std::vector<MapSegment>& segments) {
  ExtentMap map;
  map.mapped_ranges.resize(segments.size());
  const ExtentLocator locator(document, moment);
  for (const SnapshotExtent& recorded : document.recording().snapshot().extents) {
    if (recorded.device != document.device()) continue;
    MapExtent extent = locator.locate(recorded);
    if (!locator.exists(extent)) continue;
    const auto number = static_cast<uint32_t>(map.extents.size());
    for (const DeviceAddress address : extent.addresses) {
      add_mapped_ranges(segments, {address, recorded.bytes},
                        {.extent = number, .is_home = address == extent.home}, map);
    }
    map.extents.push_back(std::move(extent));
  }
  for (std::vector<MappedRange>& each : map.mapped_ranges) {
    std::sort(each.begin(), each.end(),
              [](const MappedRange& a, const MappedRange& b) { return a.offset < b.offset; });
  }
  return map;
}

void merge_small_mapped_ranges(ExtentMap& map, size_t max_mapped_ranges) {
  uint64_t total_bytes = 0;
  for (const std::vector<MappedRange>& each : map.mapped_ranges) {
    for (const MappedRange& mapped_range : each) total_bytes += mapped_range.bytes;
  }
  merge_until(
      max_mapped_ranges, total_bytes, [&] { return count_mapped_ranges(map); },
      [&](uint64_t min_bytes) {
        for (std::vector<MappedRange>& each : map.mapped_ranges) merge_below(min_bytes, each);
      });
}

namespace {

void add_mapped_ranges(const ExtentMap& map, Columns& response) {
  std::vector<uint32_t> firsts;
  std::vector<MappedRange> all;
  for (const std::vector<MappedRange>& each : map.mapped_ranges) {
    firsts.push_back(static_cast<uint32_t>(all.size()));
    all.insert(all.end(), each.begin(), each.end());
  }
  firsts.push_back(static_cast<uint32_t>(all.size()));
  response.add("range_first", firsts);
  response.add("range_offset", all,
               [](const MappedRange& each) { return static_cast<double>(each.offset); });
  response.add("range_bytes", all,
               [](const MappedRange& each) { return static_cast<double>(each.bytes); });
  response.add("range_extent", all, [](const MappedRange& each) { return each.extent; });
  response.add("range_is_home", all,
               [](const MappedRange& each) { return static_cast<uint8_t>(each.is_home ? 1 : 0); });
}

}  // namespace

void add_extents(const Document& document, const ExtentMap& map, Columns& response) {
  using Each = const MapExtent&;
  response.add("extent_id", map.extents, [](Each each) { return each.recorded->id.value(); });
  response.add("extent_bytes", map.extents,
               [](Each each) { return static_cast<double>(each.recorded->bytes); });
  response.add("extent_stream", map.extents,
               [&](Each each) { return document.stream_of(each.recorded->stream); });
  response.add("extent_pool", map.extents,
               [&](Each each) { return document.pool_of(each.recorded->pool); });
  response.add("extent_is_large", map.extents,
               [](Each each) { return static_cast<uint8_t>(each.recorded->is_large ? 1 : 0); });
  response.add("extent_has_home", map.extents,
               [](Each each) { return static_cast<uint8_t>(each.home ? 1 : 0); });
  response.add("extent_home", map.extents,
               [](Each each) { return each.home.value_or(DeviceAddress()).value(); });
  std::vector<uint32_t> firsts;
  std::vector<uint64_t> addresses;
  for (Each extent : map.extents) {
    firsts.push_back(static_cast<uint32_t>(addresses.size()));
    for (const DeviceAddress address : extent.addresses) addresses.push_back(address.value());
  }
  firsts.push_back(static_cast<uint32_t>(addresses.size()));
  response.add("mapping_first", firsts);
  response.add("mapping_address", addresses);
  add_mapped_ranges(map, response);
}

}  // namespace ashlar::view
