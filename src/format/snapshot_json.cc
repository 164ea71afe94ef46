// SPDX-License-Identifier: Apache-2.0
//
// The schema in the syntax of JSON.
#include "format/snapshot_json.h"

#include "format/json_writer.h"
#include "format/snapshot_writer.h"

namespace ashlar {

Status write_snapshot_json(const Snapshot& snapshot, ByteSink& sink) {
  JsonWriter writer(sink);
  write_snapshot(snapshot, writer);
  return writer.finish();
}

}  // namespace ashlar
