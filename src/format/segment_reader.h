// SPDX-License-Identifier: Apache-2.0
//
// Segments of a file, with their blocks; checked, so that those who get them may rely on what
// SnapshotSegment promises.
#pragma once

#include <vector>

#include "ashlar/snapshot.h"
#include "format/fields.h"
#include "format/stack_reader.h"

namespace ashlar {

class SegmentReader {
 public:
  SegmentReader(Fields& fields, StackReader& stacks) : fields_(fields), stacks_(stacks) {}

  // `key` is where the list stands, for messages.
  bool read_segments(Key key, Value list, std::vector<SnapshotSegment>& segments);

 private:
  // Older files lack keys; what was there decides what is computed instead.
  struct Present {
    bool address = false;
    bool allocated = false;
    bool active = false;
    bool requested = false;
    Value blocks{};
  };

  bool read_segment(Value dict, SnapshotSegment& segment);
  bool read_segment_field(Key key, Value value, SnapshotSegment& segment, Present& present);
  bool read_blocks(Value list, SnapshotSegment& segment);
  bool read_block(Value dict, SnapshotBlock& block);
  bool read_block_field(Key key, Value value, SnapshotBlock& block, Present& present);
  bool read_state(Value value, SnapshotBlock& block);
  bool read_history(Value list, SnapshotBlock& block, Present& present);
  bool read_stack(StackId& stack);
  bool check_tiling(const SnapshotSegment& segment);

  Fields& fields_;
  StackReader& stacks_;
  StackReader::Parts stack_parts_{};
};

}  // namespace ashlar
