// SPDX-License-Identifier: Apache-2.0
//
// Builds a Snapshot from the values of a file, for all versions of the schema and both syntaxes
// (docs/reference/formats/snapshot.md). Usage: construct it with an empty store, let the parser
// fill the store, then call build().
#pragma once

#include <cstdint>

#include "ashlar/snapshot.h"
#include "ashlar/status.h"
#include "format/extent_reader.h"
#include "format/field_reader.h"
#include "format/segment_reader.h"
#include "format/stack_reader.h"
#include "format/trace_reader.h"
#include "format/value_store.h"

namespace ashlar {

class SnapshotBuilder {
 public:
  // REQUIRES: the store is empty and outlives the builder.
  explicit SnapshotBuilder(ValueStore& store);
  SnapshotBuilder(const SnapshotBuilder&) = delete;
  SnapshotBuilder& operator=(const SnapshotBuilder&) = delete;

  // `bytes_read` is the length of the input that the values come from.
  // kFormat: a value is missing or invalid. The message names the location.
  // REQUIRES: build() has not been called before.
  Result<Snapshot> build(Value root, uint64_t bytes_read);

 private:
  bool read_root(Value root);
  bool read_annotations(Value list);
  bool read_annotation(Value dict, Annotation& annotation);
  bool read_settings(Value dict);
  bool read_table(Value dict, std::vector<std::pair<std::string, int64_t>>& table);

  Snapshot snapshot_;
  FieldReader fields_;
  StackReader stacks_;
  TraceReader traces_;
  SegmentReader segments_;
  ExtentReader extents_;
};

}  // namespace ashlar
