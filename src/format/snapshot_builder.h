// SPDX-License-Identifier: Apache-2.0
//
// From the values of a file to a Snapshot: the schema, in all its versions, whatever the syntax was
// (docs/formats/snapshot.md). Make it with a fresh store, fill the store, then build.
#pragma once

#include <cstdint>

#include "ashlar/snapshot.h"
#include "ashlar/status.h"
#include "format/extent_reader.h"
#include "format/fields.h"
#include "format/segment_reader.h"
#include "format/stack_reader.h"
#include "format/trace_reader.h"
#include "format/value_store.h"

namespace ashlar {

class SnapshotBuilder {
 public:
  // REQUIRES: the store is empty; it outlives this.
  explicit SnapshotBuilder(ValueStore& store);
  SnapshotBuilder(const SnapshotBuilder&) = delete;
  SnapshotBuilder& operator=(const SnapshotBuilder&) = delete;

  // To be called once. `bytes_read` is the length of the text the values come from.
  // kFormat: a key has a value of the wrong kind; the message says where.
  Result<Snapshot> build(Value root, uint64_t bytes_read);

 private:
  bool read_root(Value root);
  bool read_annotations(Value list);
  bool read_annotation(Value dict, Annotation& annotation);
  bool read_settings(Value dict);
  bool read_table(Value dict, std::vector<std::pair<std::string, int64_t>>& table);

  Snapshot snapshot_;
  Fields fields_;
  StackReader stacks_;
  TraceReader traces_;
  SegmentReader segments_;
  ExtentReader extents_;
};

}  // namespace ashlar
