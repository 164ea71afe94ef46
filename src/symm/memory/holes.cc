// SPDX-License-Identifier: Apache-2.0
//
// Taking, and giving back with merging.
#include "symm/memory/holes.h"

#include <iterator>

namespace ashlar::symm {

void Holes::add_segment(uint64_t segment, size_t bytes) {
  segments_.emplace(segment, bytes);
  add({.segment = segment, .offset = 0}, bytes);
}

std::optional<Holes::Place> Holes::take(size_t bytes) {
  const auto fitting = by_size_.lower_bound({bytes, Place{}});
  if (fitting == by_size_.end()) return std::nullopt;
  const auto [hole_bytes, place] = *fitting;
  remove(by_place_.find(place));
  if (hole_bytes > bytes) add({place.segment, place.offset + bytes}, hole_bytes - bytes);
  return place;
}

void Holes::give_back(Place place, size_t bytes) {
  auto after = by_place_.upper_bound(place);
  if (after != by_place_.end() && after->first == Place{place.segment, place.offset + bytes}) {
    bytes += after->second;
    remove(after);
  }
  after = by_place_.upper_bound(place);
  if (after != by_place_.begin()) {
    const auto before = std::prev(after);
    const Place begin = before->first;
    if (begin.segment == place.segment && begin.offset + before->second == place.offset) {
      bytes += before->second;
      remove(before);
      place = begin;
    }
  }
  add(place, bytes);
}

std::vector<uint64_t> Holes::remove_empty_segments() {
  std::vector<uint64_t> removed;
  for (auto segment = segments_.begin(); segment != segments_.end();) {
    const auto hole = by_place_.find({segment->first, 0});
    if (hole == by_place_.end() || hole->second != segment->second) {
      ++segment;
      continue;
    }
    removed.push_back(segment->first);
    remove(hole);
    segment = segments_.erase(segment);
  }
  return removed;
}

void Holes::add(Place place, size_t bytes) {
  by_place_.emplace(place, bytes);
  by_size_.emplace(bytes, place);
  free_bytes_ += bytes;
}

void Holes::remove(std::map<Place, size_t>::iterator hole) {
  by_size_.erase({hole->second, hole->first});
  free_bytes_ -= hole->second;
  by_place_.erase(hole);
}

}  // namespace ashlar::symm
