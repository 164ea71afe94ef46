// The machine builds values, the builder makes a snapshot of them.
#include "format/pickle_machine.h"
#include "format/snapshot_builder.h"
#include "format/snapshot_pickle.h"

namespace ashlar {

Result<Snapshot> read_snapshot_pickle(ByteSource& source, const ReadLimits& limits) {
  ValueStore store(limits);
  SnapshotBuilder builder(store);
  uint64_t bytes_read = 0;
  Value root;
  {
    // The machine's memo and stack are large, and done with before the rest is built.
    PickleMachine machine(source, store);
    const Result<Value> value = machine.run();
    if (!value.ok()) return value.status();
    root = *value;
    bytes_read = machine.bytes_read();
  }
  return builder.build(root, bytes_read);
}

}  // namespace ashlar
