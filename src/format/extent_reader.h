// SPDX-License-Identifier: Apache-2.0
//
// Reads the views and extents of a file from the key "ashlar", and checks the invariants of
// SnapshotView and SnapshotExtent. On errors, functions return false and the FieldReader has the
// message. Not thread safe.
#pragma once

#include <vector>

#include "ashlar/snapshot.h"
#include "format/field_reader.h"

namespace ashlar {

// The version of the format under the key "ashlar". The reader ignores data of later versions.
inline constexpr int64_t kExtentsVersion = 1;

class ExtentReader {
 public:
  explicit ExtentReader(FieldReader& fields) : fields_(fields) {}

  // Replaces the views and extents of the snapshot by those of the dict. If the dict has a later
  // version than kExtentsVersion, only removes them.
  bool read(Value dict, Snapshot& snapshot);
  // Sorts views and extents, and checks them against each other and against the segments.
  // REQUIRES: the whole file has been read.
  bool check(Snapshot& snapshot);

 private:
  template <typename Each, typename Read>
  bool read_list(Key key, Value list, std::vector<Each>& all, const Read& read_field);
  bool read_view_field(Key key, Value value, SnapshotView& view);
  bool read_extent_field(Key key, Value value, SnapshotExtent& extent);
  bool read_mapping_field(Key key, Value value, SnapshotMapping& mapping);
  bool read_address(Key key, Value value, DeviceAddress& address);
  bool read_stream(Key key, Value value, StreamId& stream);
  bool check_views(const std::vector<SnapshotView>& views);
  bool check_extent(const SnapshotExtent& extent);
  bool check_mappings(const Snapshot& snapshot);
  bool check_homes(const Snapshot& snapshot);

  FieldReader& fields_;
};

}  // namespace ashlar
