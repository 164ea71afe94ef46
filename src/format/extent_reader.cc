// SPDX-License-Identifier: Apache-2.0
//
// Converts dicts to views and extents, then checks them against each other.
#include "format/extent_reader.h"

#include <algorithm>
#include <tuple>

#include "base/text.h"

namespace ashlar {
namespace {

// An address range of one device.
struct DeviceRange {
  DeviceIndex device{};
  AddressRange range{};

  friend bool operator<(const DeviceRange& a, const DeviceRange& b) {
    return std::tie(a.device, a.range.begin) < std::tie(b.device, b.range.begin);
  }
  bool contains(const DeviceRange& part) const {
    return device == part.device && range.contains(part.range);
  }
};

// Returns whether one of `ranges` contains `part`. REQUIRES: `ranges` is sorted and without
// overlaps.
bool is_within_any(const std::vector<DeviceRange>& ranges, const DeviceRange& part) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), part);
  return after != ranges.begin() && std::prev(after)->contains(part);
}

// Returns the first range that overlaps its successor; null if there is none.
// REQUIRES: `ranges` is sorted, and no range overflows.
const DeviceRange* find_overlap(const std::vector<DeviceRange>& ranges) {
  for (size_t i = 0; i + 1 < ranges.size(); ++i) {
    const bool is_disjoint = ranges[i].device != ranges[i + 1].device ||
                             ranges[i].range.end() <= ranges[i + 1].range.begin;
    if (!is_disjoint) return &ranges[i];
  }
  return nullptr;
}

template <typename Each>
auto by_address(const Each& a, const Each& b) {
  return std::tie(a.device, a.address) < std::tie(b.device, b.address);
}

}  // namespace

bool ExtentReader::read(Value dict, Snapshot& snapshot) {
  std::span<const Value> items;
  if (!fields_.dict(Key::kAshlar, dict, items)) return false;
  int64_t version = 0;
  for (size_t i = 0; i < items.size(); i += 2) {
    if (items[i] != Value::string(static_cast<uint32_t>(Key::kVersion))) continue;
    if (!fields_.integer(Key::kVersion, items[i + 1], version)) return false;
  }
  if (version < 1) return fields_.fail("\"ashlar\" has no \"version\" (expected 1 or more)");
  snapshot.views.clear();
  snapshot.extents.clear();
  if (version > kExtentsVersion) return true;
  for (size_t i = 0; i < items.size(); i += 2) {
    if (items[i].kind != ValueKind::kString) continue;
    const Key key = key_of(items[i]);
    bool is_valid = true;
    if (key == Key::kViews) {
      is_valid = read_list(key, items[i + 1], snapshot.views, &ExtentReader::read_view_field);
    }
    if (key == Key::kExtents) {
      is_valid = read_list(key, items[i + 1], snapshot.extents, &ExtentReader::read_extent_field);
    }
    if (!is_valid) return false;
  }
  return true;
}

template <typename Each, typename Read>
bool ExtentReader::read_list(Key key, Value list, std::vector<Each>& all, const Read& read_field) {
  std::span<const Value> items;
  if (!fields_.list(key, list, items)) return false;
  all.clear();  // if the key is duplicated, the last value applies
  for (size_t i = 0; i < items.size(); ++i) {
    Each each;
    std::span<const Value> fields;
    bool is_valid = fields_.dict(key, items[i], fields);
    for (size_t j = 0; is_valid && j < fields.size(); j += 2) {
      if (fields[j].kind != ValueKind::kString) continue;
      is_valid = (this->*read_field)(key_of(fields[j]), fields[j + 1], each);
    }
    if (!is_valid) return fields_.fail(text(key_text(key), "[", i, "]: ", fields_.problem()));
    if (!fields_.charge(sizeof(each))) return false;
    all.push_back(std::move(each));
  }
  return true;
}

bool ExtentReader::read_view_field(Key key, Value value, SnapshotView& view) {
  switch (key) {
    case Key::kDevice: return fields_.device(key, value, view.device);
    case Key::kAddress: return read_address(key, value, view.address);
    case Key::kReservedSize: return fields_.bytes(key, value, view.reserved_bytes);
    case Key::kMappedSize: return fields_.bytes(key, value, view.mapped_bytes);
    case Key::kIsLarge: return fields_.boolean(key, value, view.is_large);
    case Key::kStream: return read_stream(key, value, view.stream);
    case Key::kPoolId: return fields_.pool(key, value, view.pool);
    default: return true;
  }
}

bool ExtentReader::read_extent_field(Key key, Value value, SnapshotExtent& extent) {
  uint64_t bits = 0;
  switch (key) {
    case Key::kDevice: return fields_.device(key, value, extent.device);
    case Key::kId:
      if (!fields_.bits(key, value, bits)) return false;
      extent.id = ExtentId(bits);
      return true;
    case Key::kSize: return fields_.bytes(key, value, extent.bytes);
    case Key::kIsLarge: return fields_.boolean(key, value, extent.is_large);
    case Key::kStream: return read_stream(key, value, extent.stream);
    case Key::kPoolId: return fields_.pool(key, value, extent.pool);
    case Key::kHome: return read_address(key, value, extent.attached_address.emplace());
    case Key::kTraced: return read_address(key, value, extent.traced_address.emplace());
    case Key::kMappings:
      return read_list(key, value, extent.mappings, &ExtentReader::read_mapping_field);
    default: return true;
  }
}

bool ExtentReader::read_mapping_field(Key key, Value value, SnapshotMapping& mapping) {
  switch (key) {
    case Key::kAddress: return read_address(key, value, mapping.address);
    case Key::kMadeUs: return fields_.integer(key, value, mapping.mapped_at_us);
    default: return true;
  }
}

bool ExtentReader::read_address(Key key, Value value, DeviceAddress& address) {
  uint64_t bits = 0;
  if (!fields_.bits(key, value, bits)) return false;
  address = DeviceAddress(bits);
  return true;
}

bool ExtentReader::read_stream(Key key, Value value, StreamId& stream) {
  uint64_t bits = 0;
  if (!fields_.bits(key, value, bits)) return false;
  stream = StreamId(bits);
  return true;
}

bool ExtentReader::check(Snapshot& snapshot) {
  std::sort(snapshot.views.begin(), snapshot.views.end(), by_address<SnapshotView>);
  if (!check_views(snapshot.views)) return false;
  for (SnapshotExtent& extent : snapshot.extents) {
    std::sort(extent.mappings.begin(), extent.mappings.end(),
              [](const auto& a, const auto& b) { return a.address < b.address; });
    if (!check_extent(extent)) return false;
  }
  std::vector<SnapshotExtent>& extents = snapshot.extents;
  const auto device_and_id = [](const SnapshotExtent& extent) {
    return std::tuple(extent.device, extent.id);
  };
  std::sort(extents.begin(), extents.end(),
            [&](const auto& a, const auto& b) { return device_and_id(a) < device_and_id(b); });
  const auto twice = std::adjacent_find(
      extents.begin(), extents.end(),
      [&](const auto& a, const auto& b) { return device_and_id(a) == device_and_id(b); });
  if (twice != extents.end()) {
    return fields_.fail(text("extent ", twice->id.value(), " occurs twice (expected once)"));
  }
  return check_mappings(snapshot) && check_homes(snapshot);
}

bool ExtentReader::check_views(const std::vector<SnapshotView>& views) {
  std::vector<DeviceRange> reserved;
  for (const SnapshotView& view : views) {
    const AddressRange range{view.address, view.reserved_bytes};
    if (range.bytes == 0 || range.overflows() || view.mapped_bytes > range.bytes) {
      return fields_.fail(text("the view at ", view.address, " has ", view.mapped_bytes, " of ",
                               range.bytes,
                               " bytes mapped (expected a valid address range, mapped in part)"));
    }
    reserved.push_back({view.device, range});
  }
  const DeviceRange* overlap = find_overlap(reserved);
  return overlap == nullptr || fields_.fail(text("the view at ", overlap->range.begin,
                                                 " overlaps the next one (expected no overlaps)"));
}

bool ExtentReader::check_extent(const SnapshotExtent& extent) {
  if (extent.bytes == 0) {
    return fields_.fail(text("extent ", extent.id.value(), " has size 0 (expected more)"));
  }
  if (extent.traced_address && AddressRange{*extent.traced_address, extent.bytes}.overflows()) {
    return fields_.fail(text("extent ", extent.id.value(), " has \"traced\" ",
                             *extent.traced_address,
                             ", which overflows the address space (expected less)"));
  }
  if (!extent.attached_address) return true;
  const bool is_mapped = std::any_of(
      extent.mappings.begin(), extent.mappings.end(),
      [&](const SnapshotMapping& each) { return each.address == *extent.attached_address; });
  return is_mapped ||
         fields_.fail(text("extent ", extent.id.value(), " has \"home\" ", *extent.attached_address,
                           ", where it is not mapped (expected one of its mappings)"));
}

bool ExtentReader::check_mappings(const Snapshot& snapshot) {
  std::vector<DeviceRange> views;
  for (const SnapshotView& view : snapshot.views) {
    if (view.mapped_bytes == 0) continue;
    views.push_back({view.device, {view.address, view.mapped_bytes}});
  }
  std::vector<DeviceRange> mapped;
  for (const SnapshotExtent& extent : snapshot.extents) {
    for (const SnapshotMapping& mapping : extent.mappings) {
      mapped.push_back({extent.device, {mapping.address, extent.bytes}});
      if (is_within_any(views, mapped.back())) continue;
      return fields_.fail(text("extent ", extent.id.value(), " is mapped at ", mapping.address,
                               ", outside of every view (expected the mapped part of a view)"));
    }
  }
  std::sort(mapped.begin(), mapped.end());
  const DeviceRange* overlap = find_overlap(mapped);
  return overlap == nullptr ||
         fields_.fail(text("the extent mapped at ", overlap->range.begin,
                           " overlaps the next one (expected one extent per address)"));
}

// Checks that each attached address, called "home" in files, lies within an expandable segment.
bool ExtentReader::check_homes(const Snapshot& snapshot) {
  std::vector<DeviceRange> segments;
  for (const SnapshotSegment& segment : snapshot.segments) {
    if (!segment.is_expandable) continue;
    segments.push_back({segment.device, {segment.address, segment.total_bytes}});
  }
  std::sort(segments.begin(), segments.end());
  for (const SnapshotExtent& extent : snapshot.extents) {
    if (!extent.attached_address ||
        is_within_any(segments, {extent.device, {*extent.attached_address, extent.bytes}})) {
      continue;
    }
    return fields_.fail(text("extent ", extent.id.value(), " has \"home\" ",
                             *extent.attached_address,
                             ", outside of every expandable segment (expected inside one)"));
  }
  return true;
}

}  // namespace ashlar
