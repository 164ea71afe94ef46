// SPDX-License-Identifier: Apache-2.0
//
// Views and extents of a file, which stand under a key of our own; checked, so that those who get
// them may rely on what SnapshotView and SnapshotExtent promise.
#pragma once

#include <vector>

#include "ashlar/snapshot.h"
#include "format/fields.h"

namespace ashlar {

// Files that say more are of a later Ashlar: what stands there has another meaning.
inline constexpr int64_t kExtentsVersion = 1;

class ExtentReader {
 public:
  explicit ExtentReader(Fields& fields) : fields_(fields) {}

  // Of a version that is not known, nothing is read.
  bool read(Value dict, Snapshot& snapshot);
  // To be called when everything has been read: whether views, extents and segments agree.
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

  Fields& fields_;
};

}  // namespace ashlar
