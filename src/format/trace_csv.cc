// SPDX-License-Identifier: Apache-2.0
//
// CSV export: rows and quoting as in RFC 4180.
#include "format/trace_export.h"

#include <string>
#include <string_view>

#include "base/text.h"
#include "format/byte_writer.h"
#include "format/utf8.h"

namespace ashlar {
namespace {

constexpr std::string_view kColumns =
    "memory,device,index,time_us,action,address,size,stream,pool_capture,pool_user,"
    "compile_context,user_metadata,stack,innermost_frame\r\n";

// Writes a text cell, quoted if necessary. The file may be shown in a terminal, so characters that
// change how it is displayed are escaped.
void put_cell(ByteWriter& out, std::string_view original) {
  const std::string text = escape_unprintable(original);
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return out.put(text);
  out.put('"');
  for (const char letter : text) {
    if (letter == '"') out.put('"');
    out.put(letter);
  }
  out.put('"');
}

class TraceTable {
 public:
  TraceTable(const SnapshotTables& tables, ByteWriter& out) : tables_(tables), out_(out) {}

  void put_traces(std::string_view memory, const std::vector<std::vector<TraceEntry>>& traces) {
    for (const std::vector<TraceEntry>& trace : traces) {
      for (size_t i = 0; i < trace.size(); ++i) {
        out_.put(memory);
        put_entry(i, trace[i]);
      }
    }
  }

 private:
  // Writes one row. Times, pools, strings and stacks that the file does not contain are empty
  // cells.
  void put_entry(size_t index, const TraceEntry& entry) {
    put_number(entry.device.value());
    put_number(index);
    out_.put(',');
    if (entry.has_time) out_.put_number(entry.time_us);
    out_.put(',');
    out_.put(name(entry.action));
    put_number(entry.address.value());
    put_number(entry.bytes);
    put_number(static_cast<int64_t>(entry.stream.value()));
    out_.put(',');
    if (entry.has_pool) out_.put_number(entry.pool.capture);
    out_.put(',');
    if (entry.has_pool) out_.put_number(entry.pool.user);
    out_.put(',');
    put_cell(out_, tables_.strings[entry.compile_context.value()]);
    out_.put(',');
    put_cell(out_, tables_.strings[entry.user_metadata.value()]);
    put_stack(entry.stack);
    out_.put("\r\n");
  }

  void put_stack(StackId id) {
    out_.put(',');
    if (id != StackId()) out_.put_number(id.value());
    out_.put(',');
    const Stack& stack = tables_.stacks[id.value()];
    if (stack.frames.empty()) return;
    const Frame& frame = tables_.frames[stack.frames.front()];
    put_cell(out_, text(frame.name, " ", frame.filename, ":", frame.line));
  }

  template <typename Number>
  void put_number(Number number) {
    out_.put(',');
    out_.put_number(number);
  }

  const SnapshotTables& tables_;
  ByteWriter& out_;
};

}  // namespace

Status write_trace_csv(const Snapshot& snapshot, ByteSink& sink) {
  ByteWriter out(sink);
  out.put(kColumns);
  TraceTable table(snapshot.tables, out);
  table.put_traces("device", snapshot.device_traces);
  table.put_traces("host", snapshot.host_traces);
  return out.finish();
}

}  // namespace ashlar
