// SPDX-License-Identifier: Apache-2.0
//
// What an allocator remembers and holds, for programs: history on and off, annotations, snapshots.
#include <map>

#include "api/allocator_parts.h"
#include "api/unwrap.h"
#include "config/snapshot_settings.h"
#include "format/file_sink.h"
#include "format/snapshot_pickle.h"
#include "observe/symbols.h"

namespace ashlar {
namespace {

// Puts names behind the history's stacks, those that the snapshot uses, and names them anew.
void resolve_stacks(Snapshot& snapshot, const StackTable& stacks) {
  const Symbols symbols;
  StackTable::Added added;
  const auto resolve = [&](StackId& stack) {
    stack = stacks.add_to(snapshot.tables, stack, added, symbols);
  };
  for (SnapshotSegment& segment : snapshot.segments) {
    resolve(segment.stack);
    for (SnapshotBlock& block : segment.blocks) resolve(block.stack);
  }
  for (std::vector<TraceEntry>& trace : snapshot.device_traces) {
    for (TraceEntry& entry : trace) resolve(entry.stack);
  }
}

// Before names are looked up, which takes longest.
void forget_before(int64_t since_us, Snapshot& snapshot) {
  const auto is_older = [since_us](const auto& each) { return each.time_us < since_us; };
  for (std::vector<TraceEntry>& trace : snapshot.device_traces) std::erase_if(trace, is_older);
  std::erase_if(snapshot.annotations, is_older);
}

}  // namespace

void Allocator::start_history(HistoryOptions options) {
  unwrap(parts_->engine->history().start(std::move(options)));
}

void Allocator::stop_history() { parts_->engine->history().stop(); }
bool Allocator::is_history_on() const { return parts_->engine->history().is_on(); }

void Allocator::annotate(std::vector<std::pair<std::string, std::string>> fields) {
  parts_->engine->history().annotate(parts_->device.properties().index, std::move(fields));
}

void Allocator::annotate(DeviceAddress address, const std::string& text) {
  unwrap(parts_->engine->annotate(address, text));
}

Snapshot Allocator::snapshot(const SnapshotOptions& options) {
  Snapshot snapshot;
  Engine& engine = *parts_->engine;
  EngineSnapshot held = engine.take_snapshot(options.pool);
  snapshot.segments = std::move(held.segments);
  snapshot.views = std::move(held.views);
  snapshot.extents = std::move(held.extents);
  const DeviceIndex device = parts_->device.properties().index;
  snapshot.device_traces.resize(device.value() + 1);
  if (options.include_traces) {
    engine.history().read_into(snapshot, device, held.position);
  } else {
    engine.history().convert_times(snapshot.extents);
  }
  forget_before(options.since_us, snapshot);
  snapshot.settings = settings_of(parts_->options);
  resolve_stacks(snapshot, engine.history().stacks());
  return snapshot;
}

void save_snapshot(const Snapshot& snapshot, const std::string& path) {
  FileSink sink = unwrap(FileSink::open(path));
  unwrap(write_snapshot_pickle(snapshot, sink));
  unwrap(sink.close());
}

Region::Region(Allocator& allocator, std::string name)
    : allocator_(allocator), name_(std::move(name)) {
  allocator_.annotate({{"name", name_}, {"stage", "START"}});
}

Region::~Region() { allocator_.annotate({{"name", name_}, {"stage", "END"}}); }

}  // namespace ashlar
