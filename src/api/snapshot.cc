// SPDX-License-Identifier: Apache-2.0
//
// Implements the history and the snapshots of the public allocator. Resolves stacks to names only
// when a snapshot is taken.
#include "ashlar/snapshot.h"

#include "api/allocator_impl.h"
#include "api/unwrap.h"
#include "config/snapshot_settings.h"
#include "format/file_sink.h"
#include "format/snapshot_pickle.h"
#include "observe/symbols.h"

namespace ashlar {
namespace {

// Replaces the history's stack ids with indexes into the snapshot's tables, and resolves the stacks
// that the snapshot uses.
void resolve_stacks(Snapshot& snapshot, const StackTable& stacks) {
  const Symbolizer symbolizer;
  StackTable::SnapshotCache cache;
  const auto resolve = [&](StackId& stack) {
    stack = stacks.add_to(snapshot.tables, stack, cache, symbolizer);
  };
  for (SnapshotSegment& segment : snapshot.segments) {
    resolve(segment.stack);
    for (SnapshotBlock& block : segment.blocks) resolve(block.stack);
  }
  for (std::vector<TraceEntry>& trace : snapshot.device_traces) {
    for (TraceEntry& entry : trace) resolve(entry.stack);
  }
}

// Called before resolve_stacks, which takes much longer, so that dropped entries are not resolved.
void drop_entries_before(int64_t since_us, Snapshot& snapshot) {
  const auto is_older = [since_us](const auto& each) { return each.time_us < since_us; };
  for (std::vector<TraceEntry>& trace : snapshot.device_traces) std::erase_if(trace, is_older);
  std::erase_if(snapshot.annotations, is_older);
}

}  // namespace

std::vector<Frame> stack_of(Engine& engine, DeviceAddress address) {
  SnapshotTables tables;
  StackTable::SnapshotCache cache;
  const StackId recorded = block_at(engine, address)->stack;
  const StackId stack = engine.history().stacks().add_to(tables, recorded, cache, Symbolizer());
  std::vector<Frame> frames;
  for (const uint32_t frame : tables.stacks[stack.value()].frames) {
    frames.push_back(tables.frames[frame]);
  }
  return frames;
}

void AllocatorHistory::start(HistoryOptions options) {
  unwrap(usable(engine_).history().start(std::move(options)));
}

void AllocatorHistory::stop() { usable(engine_).history().stop(); }
bool AllocatorHistory::is_recording() const { return usable(engine_).history().is_on(); }

void AllocatorHistory::annotate(std::vector<std::pair<std::string, std::string>> fields) {
  usable(engine_).history().annotate(engine_.device().properties().index, std::move(fields));
}

void AllocatorHistory::annotate(DeviceAddress address, const std::string& text) {
  unwrap(usable(engine_).annotate(address, text));
}

Snapshot Allocator::snapshot(const SnapshotOptions& options) {
  Snapshot snapshot;
  Engine& engine = usable(*impl_->engine);
  EngineSnapshot state = engine.take_snapshot(options.pool);
  snapshot.segments = std::move(state.segments);
  snapshot.views = std::move(state.views);
  snapshot.extents = std::move(state.extents);
  const DeviceIndex device = impl_->device.properties().index;
  snapshot.device_traces.resize(device.value() + 1);
  if (options.include_traces) {
    engine.history().read_into(snapshot, device, state.position);
  } else {
    engine.history().convert_times(snapshot.extents);
  }
  drop_entries_before(options.since_us, snapshot);
  snapshot.settings = settings_of(impl_->options);
  resolve_stacks(snapshot, engine.history().stacks());
  return snapshot;
}

void save_snapshot(const Snapshot& snapshot, const std::string& path) {
  FileSink sink = unwrap(FileSink::open(path));
  unwrap(write_snapshot_pickle(snapshot, sink));
  unwrap(sink.close());
}

Region::Region(Allocator& allocator, std::string name)
    : history_(allocator.history()), name_(std::move(name)) {
  history_.annotate({{"name", name_}, {"stage", "START"}});
}

// Records no END annotation in a forked child, which must not use the history, or if host memory
// runs out.
Region::~Region() {
  try {
    history_.annotate({{"name", name_}, {"stage", "END"}});
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): see above
  }
}

}  // namespace ashlar
