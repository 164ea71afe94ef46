// SPDX-License-Identifier: Apache-2.0
//
// Combines the pickle machine with the snapshot builder, and the schema writer with the pickle
// syntax.
#include "format/snapshot_pickle.h"

#include "format/pickle_machine.h"
#include "format/pickle_writer.h"
#include "format/snapshot_builder.h"
#include "format/snapshot_writer.h"

namespace ashlar {

Result<Snapshot> read_snapshot_pickle(ByteSource& source, const ReadLimits& limits) {
  ValueStore store(limits);
  SnapshotBuilder builder(store);
  uint64_t bytes_read = 0;
  Value root;
  {
    // A scope of its own frees the machine's large memo and stack before the snapshot is built.
    PickleMachine machine(source, store);
    const Result<Value> value = machine.run();
    if (!value.ok()) return value.status();
    root = *value;
    bytes_read = machine.bytes_read();
  }
  return builder.build(root, bytes_read);
}

Status write_snapshot_pickle(const Snapshot& snapshot, ByteSink& sink) {
  PickleWriter writer(sink);
  write_snapshot(snapshot, writer);
  return writer.finish();
}

}  // namespace ashlar
