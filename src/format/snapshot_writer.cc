// SPDX-License-Identifier: Apache-2.0
//
// Writes the schema top down, one function per level.
#include "format/snapshot_writer.h"

#include <variant>

#include "format/extent_reader.h"
#include "format/json_writer.h"

namespace ashlar {
namespace {

class SnapshotWriter {
 public:
  SnapshotWriter(const Snapshot& snapshot, ValueWriter& writer)
      : snapshot_(snapshot), tables_(snapshot.tables), writer_(writer) {}

  void write();

 private:
  // How a missing stack is written: trace entries omit the key; segments and blocks have an empty
  // list.
  enum class NoStack { kOmitted, kEmptyList };

  void write_segments(const std::vector<SnapshotSegment>& segments);
  void write_segment(const SnapshotSegment& segment);
  void write_block(const SnapshotBlock& block);
  template <typename Owned>
  void write_owner(const Owned& owned);
  void write_views();
  void write_extents();
  void write_mappings(const std::vector<SnapshotMapping>& mappings);
  void write_traces(const std::vector<std::vector<TraceEntry>>& traces);
  void write_entry(const TraceEntry& entry);
  void write_stack(StackId id, NoStack without);
  void write_frame(uint32_t index);
  void write_settings();
  void write_setting(const SettingValue& value);
  void write_annotations();

  void write_string(StringId id, Key none);

  const Snapshot& snapshot_;
  const SnapshotTables& tables_;
  ValueWriter& writer_;
};

void SnapshotWriter::write() {
  writer_.begin_dict();
  writer_.key(Key::kSegments);
  write_segments(snapshot_.segments);
  writer_.key(Key::kDeviceTraces);
  write_traces(snapshot_.device_traces);
  writer_.key(Key::kAllocatorSettings);
  write_settings();
  writer_.key(Key::kExternalAnnotations);
  write_annotations();
  if (!snapshot_.host_segments.empty() || !snapshot_.host_traces.empty()) {
    writer_.key(Key::kHostSegments);
    write_segments(snapshot_.host_segments);
    writer_.key(Key::kHostTraces);
    write_traces(snapshot_.host_traces);
  }
  if (!snapshot_.views.empty() || !snapshot_.extents.empty()) {
    writer_.key(Key::kAshlar);
    writer_.begin_dict();
    writer_.key(Key::kVersion);
    writer_.integer(kExtentsVersion);
    writer_.key(Key::kViews);
    write_views();
    writer_.key(Key::kExtents);
    write_extents();
    writer_.end_dict();
  }
  writer_.end_dict();
}

void SnapshotWriter::write_segments(const std::vector<SnapshotSegment>& segments) {
  writer_.begin_list();
  for (const SnapshotSegment& segment : segments) write_segment(segment);
  writer_.end_list();
}

void SnapshotWriter::write_segment(const SnapshotSegment& segment) {
  writer_.begin_dict();
  writer_.key(Key::kDevice);
  writer_.unsigned_integer(segment.device.value());
  writer_.key(Key::kAddress);
  writer_.unsigned_integer(segment.address.value());
  writer_.key(Key::kTotalSize);
  writer_.unsigned_integer(segment.total_bytes);
  writer_.key(Key::kAllocatedSize);
  writer_.unsigned_integer(segment.allocated_bytes);
  writer_.key(Key::kActiveSize);
  writer_.unsigned_integer(segment.active_bytes);
  writer_.key(Key::kRequestedSize);
  writer_.unsigned_integer(segment.requested_bytes);
  writer_.key(Key::kStream);
  writer_.integer(static_cast<int64_t>(segment.stream.value()));
  writer_.key(Key::kSegmentType);
  writer_.string(segment.is_large ? Key::kLarge : Key::kSmall);
  writer_.key(Key::kSegmentPoolId);
  writer_.pool(segment.pool);
  writer_.key(Key::kIsExpandable);
  writer_.boolean(segment.is_expandable);
  if (segment.is_paused) {
    writer_.key(Key::kIsPaused);
    writer_.boolean(true);
  }
  write_stack(segment.stack, NoStack::kEmptyList);
  writer_.key(Key::kBlocks);
  writer_.begin_list();
  for (const SnapshotBlock& block : segment.blocks) write_block(block);
  writer_.end_list();
  writer_.end_dict();
}

void SnapshotWriter::write_block(const SnapshotBlock& block) {
  writer_.begin_dict();
  writer_.key(Key::kAddress);
  writer_.unsigned_integer(block.address.value());
  writer_.key(Key::kSize);
  writer_.unsigned_integer(block.bytes);
  writer_.key(Key::kRequestedSize);
  writer_.unsigned_integer(block.requested_bytes);
  writer_.key(Key::kState);
  writer_.string(block.state == SnapshotBlockState::kAllocated     ? Key::kActiveAllocated
                 : block.state == SnapshotBlockState::kPendingFree ? Key::kActivePendingFree
                                                                   : Key::kInactive);
  write_stack(block.stack, NoStack::kEmptyList);
  writer_.end_dict();
}

// Writes the keys that views and extents have in common.
template <typename Owned>
void SnapshotWriter::write_owner(const Owned& owned) {
  writer_.key(Key::kDevice);
  writer_.unsigned_integer(owned.device.value());
  writer_.key(Key::kIsLarge);
  writer_.boolean(owned.is_large);
  writer_.key(Key::kStream);
  writer_.integer(static_cast<int64_t>(owned.stream.value()));
  writer_.key(Key::kPoolId);
  writer_.pool(owned.pool);
}

void SnapshotWriter::write_views() {
  writer_.begin_list();
  for (const SnapshotView& view : snapshot_.views) {
    writer_.begin_dict();
    write_owner(view);
    writer_.key(Key::kAddress);
    writer_.unsigned_integer(view.address.value());
    writer_.key(Key::kReservedSize);
    writer_.unsigned_integer(view.reserved_bytes);
    writer_.key(Key::kMappedSize);
    writer_.unsigned_integer(view.mapped_bytes);
    writer_.end_dict();
  }
  writer_.end_list();
}

void SnapshotWriter::write_extents() {
  writer_.begin_list();
  for (const SnapshotExtent& extent : snapshot_.extents) {
    writer_.begin_dict();
    write_owner(extent);
    writer_.key(Key::kId);
    writer_.unsigned_integer(extent.id.value());
    writer_.key(Key::kSize);
    writer_.unsigned_integer(extent.bytes);
    if (extent.attached_address) {
      writer_.key(Key::kHome);
      writer_.unsigned_integer(extent.attached_address->value());
    }
    if (extent.traced_address) {
      writer_.key(Key::kTraced);
      writer_.unsigned_integer(extent.traced_address->value());
    }
    writer_.key(Key::kMappings);
    write_mappings(extent.mappings);
    writer_.end_dict();
  }
  writer_.end_list();
}

void SnapshotWriter::write_mappings(const std::vector<SnapshotMapping>& mappings) {
  writer_.begin_list();
  for (const SnapshotMapping& mapping : mappings) {
    writer_.begin_dict();
    writer_.key(Key::kAddress);
    writer_.unsigned_integer(mapping.address.value());
    writer_.key(Key::kMadeUs);
    writer_.integer(mapping.mapped_at_us);
    writer_.end_dict();
  }
  writer_.end_list();
}

void SnapshotWriter::write_traces(const std::vector<std::vector<TraceEntry>>& traces) {
  writer_.begin_list();
  for (const std::vector<TraceEntry>& trace : traces) {
    writer_.begin_list();
    for (const TraceEntry& entry : trace) write_entry(entry);
    writer_.end_list();
  }
  writer_.end_list();
}

void SnapshotWriter::write_entry(const TraceEntry& entry) {
  writer_.begin_dict();
  writer_.key(Key::kAction);
  writer_.string(
      static_cast<Key>(static_cast<uint32_t>(Key::kAlloc) + static_cast<uint32_t>(entry.action)));
  writer_.key(entry.action == TraceAction::kOom ? Key::kDeviceFree : Key::kAddr);
  writer_.unsigned_integer(entry.address.value());
  writer_.key(Key::kSize);
  writer_.unsigned_integer(entry.bytes);
  writer_.key(Key::kStream);
  writer_.integer(static_cast<int64_t>(entry.stream.value()));
  if (entry.has_time) {
    writer_.key(Key::kTimeUs);
    writer_.integer(entry.time_us);
  }
  if (entry.has_compile_context) {
    writer_.key(Key::kCompileContext);
    write_string(entry.compile_context, Key::kNotAvailable);
  }
  if (entry.has_user_metadata) {
    writer_.key(Key::kUserMetadata);
    write_string(entry.user_metadata, Key::kNothing);
  }
  if (entry.has_pool) {
    writer_.key(Key::kPoolId);
    writer_.pool(entry.pool);
  }
  write_stack(entry.stack, NoStack::kOmitted);
  writer_.end_dict();
}

void SnapshotWriter::write_string(StringId id, Key none) {
  if (id == StringId()) return writer_.string(none);
  writer_.string(tables_.strings[id.value()]);
}

void SnapshotWriter::write_stack(StackId id, NoStack without) {
  if (id == StackId() && without == NoStack::kOmitted) return;
  const Stack& stack = tables_.stacks[id.value()];
  writer_.key(Key::kFrames);
  if (!writer_.reuse(SharedKind::kStack, id.value())) {
    writer_.begin_list();
    for (const uint32_t frame : stack.frames) write_frame(frame);
    writer_.end_list();
  }
  if (stack.forward.empty()) return;
  writer_.key(Key::kForwardFrames);
  if (writer_.reuse(SharedKind::kForward, id.value())) return;
  writer_.begin_list();
  for (const std::string& line : stack.forward) writer_.string(line);
  writer_.end_list();
}

void SnapshotWriter::write_frame(uint32_t index) {
  if (writer_.reuse(SharedKind::kFrame, index)) return;
  const Frame& frame = tables_.frames[index];
  writer_.begin_dict();
  writer_.key(Key::kName);
  writer_.string(frame.name);
  writer_.key(Key::kFilename);
  writer_.string(frame.filename);
  writer_.key(Key::kLine);
  writer_.integer(frame.line);
  for (const auto& [name, value] : frame.extra) {
    writer_.key(name);
    writer_.string(value);
  }
  writer_.end_dict();
}

void SnapshotWriter::write_settings() {
  writer_.begin_dict();
  for (const auto& [name, value] : snapshot_.settings) {
    writer_.key(name);
    write_setting(value);
  }
  writer_.end_dict();
}

void SnapshotWriter::write_setting(const SettingValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return writer_.boolean(*flag);
  if (const int64_t* number = std::get_if<int64_t>(&value)) return writer_.integer(*number);
  if (const double* number = std::get_if<double>(&value)) return writer_.floating_point(*number);
  if (const std::string* words = std::get_if<std::string>(&value)) return writer_.string(*words);
  writer_.begin_dict();
  for (const auto& [name, number] : std::get<4>(value)) {
    writer_.key(name);
    writer_.integer(number);
  }
  writer_.end_dict();
}

void SnapshotWriter::write_annotations() {
  writer_.begin_list();
  for (const Annotation& annotation : snapshot_.annotations) {
    writer_.begin_dict();
    for (const auto& [name, value] : annotation.fields) {
      writer_.key(name);
      writer_.string(value);
    }
    writer_.key(Key::kDevice);
    writer_.unsigned_integer(annotation.device.value());
    writer_.key(Key::kTimeUs);
    writer_.integer(annotation.time_us);
    writer_.end_dict();
  }
  writer_.end_list();
}

}  // namespace

void write_snapshot(const Snapshot& snapshot, ValueWriter& writer) {
  SnapshotWriter(snapshot, writer).write();
}

Status write_snapshot_json(const Snapshot& snapshot, ByteSink& sink) {
  JsonWriter writer(sink);
  write_snapshot(snapshot, writer);
  return writer.finish();
}

}  // namespace ashlar
