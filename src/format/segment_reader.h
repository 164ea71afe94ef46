// SPDX-License-Identifier: Apache-2.0
//
// Reads the segments of a file with their blocks, and checks the invariants of SnapshotSegment. On
// errors, functions return false and the FieldReader has the message. Not thread safe.
#pragma once

#include <vector>

#include "ashlar/snapshot.h"
#include "format/field_reader.h"
#include "format/stack_reader.h"

namespace ashlar {

class SegmentReader {
 public:
  SegmentReader(FieldReader& fields, StackReader& stacks) : fields_(fields), stacks_(stacks) {}

  // Reads a list of segments. `key` is the key of the list, for messages.
  bool read_segments(Key key, Value list, std::vector<SnapshotSegment>& segments);

 private:
  // Which optional sizes a dict has, and the value of "blocks". Missing sizes are computed.
  struct PresentKeys {
    bool allocated = false;
    bool active = false;
    bool requested = false;
    Value blocks{};
  };

  bool read_segment(Value dict, SnapshotSegment& segment);
  bool read_segment_field(Key key, Value value, SnapshotSegment& segment, PresentKeys& present);
  bool read_blocks(Value list, SnapshotSegment& segment);
  bool read_block(Value dict, SnapshotBlock& block);
  bool read_block_field(Key key, Value value, SnapshotBlock& block, PresentKeys& present);
  bool read_state(Value value, SnapshotBlock& block);
  bool read_history(Value list, SnapshotBlock& block, PresentKeys& present);
  bool read_stack(StackId& stack);
  bool check_tiling(const SnapshotSegment& segment);
  bool check_overlaps(Key key, const std::vector<SnapshotSegment>& segments);

  FieldReader& fields_;
  StackReader& stacks_;
  StackReader::StackValues stack_values_{};
};

}  // namespace ashlar
