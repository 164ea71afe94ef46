// SPDX-License-Identifier: Apache-2.0
//
// Perfetto export: one process per device, with counter tracks and one thread of annotations.
#include "format/trace_export.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>

#include "base/text.h"
#include "format/byte_writer.h"
#include "format/json_writer.h"

namespace ashlar {
namespace {

// Bytes of one device, according to the trace.
struct Counters {
  int64_t allocated = 0;  // requested and not freed
  int64_t active = 0;     // requested and not yet reusable
  int64_t reserved = 0;   // obtained from the device
  friend bool operator==(const Counters&, const Counters&) = default;
};

void apply(const TraceEntry& entry, Counters& counters) {
  const int64_t bytes = static_cast<int64_t>(entry.bytes);
  switch (entry.action) {
    case TraceAction::kAlloc:
      counters.allocated += bytes;
      counters.active += bytes;
      break;
    case TraceAction::kFreeRequested: counters.allocated -= bytes; break;
    case TraceAction::kFreeCompleted: counters.active -= bytes; break;
    case TraceAction::kSegmentAlloc:
    case TraceAction::kSegmentMap: counters.reserved += bytes; break;
    case TraceAction::kSegmentFree:
    case TraceAction::kSegmentUnmap: counters.reserved -= bytes; break;
    default: break;
  }
}

// Returns the counters before the first entry: the final values, taken from the segments, minus all
// changes in the trace. If the trace is complete, the counters are zero.
Counters initial_counters(const Snapshot& snapshot, size_t device) {
  Counters counters;
  for (const SnapshotSegment& segment : snapshot.segments) {
    if (segment.device.value() != device) continue;
    counters.reserved += static_cast<int64_t>(segment.reserved_bytes());
    for (const SnapshotBlock& block : segment.blocks) {
      const int64_t bytes = static_cast<int64_t>(block.requested_bytes);
      if (block.state == SnapshotBlockState::kAllocated) counters.allocated += bytes;
      if (block.state != SnapshotBlockState::kInactive) counters.active += bytes;
    }
  }
  Counters change;
  for (const TraceEntry& entry : snapshot.device_traces[device]) apply(entry, change);
  return {.allocated = std::max<int64_t>(0, counters.allocated - change.allocated),
          .active = std::max<int64_t>(0, counters.active - change.active),
          .reserved = std::max<int64_t>(0, counters.reserved - change.reserved)};
}

// Returns the earliest time in the snapshot, which is the origin of the exported times.
int64_t first_time(const Snapshot& snapshot) {
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const std::vector<TraceEntry>& trace : snapshot.device_traces) {
    for (const TraceEntry& entry : trace) {
      if (entry.has_time) first = std::min(first, entry.time_us);
    }
  }
  for (const Annotation& annotation : snapshot.annotations) {
    first = std::min(first, annotation.time_us);
  }
  return first == std::numeric_limits<int64_t>::max() ? 0 : first;
}

std::optional<std::string_view> field(const Annotation& annotation, std::string_view wanted) {
  for (const auto& [name, value] : annotation.fields) {
    if (name == wanted) return value;
  }
  return std::nullopt;
}

class PerfettoWriter {
 public:
  PerfettoWriter(const Snapshot& snapshot, ByteSink& sink)
      : snapshot_(snapshot), out_(sink), first_time_(first_time(snapshot)) {}

  Status write() {
    out_.put("{\"displayTimeUnit\": \"ms\", \"otherData\": {\"first_time_us\": \"");
    out_.put_number(first_time_);
    out_.put("\"}, \"traceEvents\": [");
    for (size_t device = 0; device < snapshot_.device_traces.size(); ++device) {
      write_name(device);
      write_trace(device);
    }
    for (const Annotation& annotation : snapshot_.annotations) write_annotation(annotation);
    out_.put("]}\n");
    return out_.finish();
  }

 private:
  // Fields common to all events.
  struct Event {
    std::string_view name;
    char phase;
    uint64_t device;
    int64_t time_us;
  };

  // Begins an event and leaves its JSON object open for more fields.
  void begin_event(const Event& event) {
    out_.put(has_events_ ? ",\n{\"name\": " : "\n{\"name\": ");
    has_events_ = true;
    put_json_string(out_, event.name);
    out_.put(", \"ph\": \"");
    out_.put(event.phase);
    out_.put("\", \"pid\": ");
    out_.put_number(event.device);
    out_.put(", \"tid\": 0, \"ts\": ");
    // Subtracts unsigned numbers, because the difference of arbitrary times from a file may
    // overflow.
    out_.put_number(static_cast<int64_t>(static_cast<uint64_t>(event.time_us) -
                                         static_cast<uint64_t>(first_time_)));
  }

  void put_argument(std::string_view before, int64_t value) {
    out_.put(before);
    out_.put_number(value);
  }

  void write_name(size_t device) {
    begin_event({"process_name", 'M', device, first_time_});
    out_.put(text(", \"args\": {\"name\": \"device ", device, "\"}}"));
    begin_event({"thread_name", 'M', device, first_time_});
    out_.put(", \"args\": {\"name\": \"annotations\"}}");
  }

  void write_trace(size_t device) {
    const std::vector<TraceEntry>& trace = snapshot_.device_traces[device];
    Counters counters = initial_counters(snapshot_, device);
    Counters shown = {.allocated = -1, .active = -1, .reserved = -1};
    for (size_t i = 0; i < trace.size(); ++i) {
      // Entries without times are placed one microsecond apart.
      const int64_t time =
          trace[i].has_time ? trace[i].time_us : first_time_ + static_cast<int64_t>(i);
      apply(trace[i], counters);
      if (counters != shown) write_counters({"memory", 'C', device, time}, counters, shown);
      shown = counters;
      if (trace[i].action == TraceAction::kOom) {
        begin_event({"OOM", 'i', device, time});
        put_argument(", \"s\": \"p\", \"args\": {\"size\": ", static_cast<int64_t>(trace[i].bytes));
        put_argument(", \"device_free\": ", static_cast<int64_t>(trace[i].address.value()));
        out_.put("}}");
      }
    }
  }

  // Writes only the counters that changed; Perfetto keeps the previous values of the other
  // counters.
  void write_counters(const Event& event, const Counters& now, const Counters& shown) {
    begin_event(event);
    std::string_view before = ", \"args\": {";
    const auto put = [&](std::string_view name, int64_t value, int64_t old) {
      if (value == old) return;
      out_.put(before);
      out_.put(name);
      out_.put_number(value);
      before = ", ";
    };
    put("\"allocated\": ", now.allocated, shown.allocated);
    put("\"active\": ", now.active, shown.active);
    put("\"reserved\": ", now.reserved, shown.reserved);
    out_.put("}}");
  }

  void write_annotation(const Annotation& annotation) {
    const std::string_view stage = field(annotation, "stage").value_or("");
    const char phase = stage == "START" ? 'B' : stage == "END" ? 'E' : 'i';
    begin_event({field(annotation, "name").value_or("annotation"), phase, annotation.device.value(),
                 annotation.time_us});
    if (phase == 'i') out_.put(", \"s\": \"t\"");
    out_.put(", \"args\": {");
    std::string_view before;
    for (const auto& [name, value] : annotation.fields) {
      if (name == "name" || name == "stage") continue;
      out_.put(before);
      put_json_string(out_, name);
      out_.put(": ");
      put_json_string(out_, value);
      before = ", ";
    }
    out_.put("}}");
  }

  const Snapshot& snapshot_;
  ByteWriter out_;
  const int64_t first_time_;
  bool has_events_ = false;
};

}  // namespace

Status write_perfetto(const Snapshot& snapshot, ByteSink& sink) {
  return PerfettoWriter(snapshot, sink).write();
}

}  // namespace ashlar
