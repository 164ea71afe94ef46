// SPDX-License-Identifier: Apache-2.0
//
// Visits all table positions of a snapshot in the order in which snapshots are written.
#include "format/renumber_tables.h"

#include <utility>

namespace ashlar {
namespace {

// Rebuilds a table with the used elements only, in the order of first use.
template <typename Element>
class TableCompactor {
 public:
  explicit TableCompactor(std::vector<Element>& table) : table_(table), old_(std::move(table)) {
    table_.assign(1, Element());
    new_positions_.resize(old_.size());
  }

  // Replaces `position` by the element's new position. Returns whether this is the first use of the
  // element.
  bool move(uint32_t& position) {
    if (position == 0) return false;
    uint32_t& to = new_positions_[position];
    const bool is_new = to == 0;
    if (is_new) {
      to = static_cast<uint32_t>(table_.size());
      table_.push_back(std::move(old_[position]));
    }
    position = to;
    return is_new;
  }

 private:
  std::vector<Element>& table_;
  std::vector<Element> old_;
  std::vector<uint32_t> new_positions_;  // 0: not used yet
};

class TableRenumbering {
 public:
  explicit TableRenumbering(SnapshotTables& tables)
      : tables_(tables), frames_(tables.frames), stacks_(tables.stacks), strings_(tables.strings) {}

  void visit(std::vector<SnapshotSegment>& segments) {
    for (SnapshotSegment& segment : segments) {
      move(segment.stack);
      for (SnapshotBlock& block : segment.blocks) move(block.stack);
    }
  }
  void visit(std::vector<std::vector<TraceEntry>>& traces) {
    for (std::vector<TraceEntry>& trace : traces) {
      for (TraceEntry& entry : trace) {
        move(entry.compile_context);
        move(entry.user_metadata);
        move(entry.stack);
      }
    }
  }

 private:
  void move(StackId& stack) {
    uint32_t position = stack.value();
    if (stacks_.move(position)) {
      for (uint32_t& frame : tables_.stacks[position].frames) frames_.move(frame);
    }
    stack = StackId(position);
  }
  void move(StringId& string) {
    uint32_t position = string.value();
    strings_.move(position);
    string = StringId(position);
  }

  SnapshotTables& tables_;
  TableCompactor<Frame> frames_;
  TableCompactor<Stack> stacks_;
  TableCompactor<std::string> strings_;
};

}  // namespace

void renumber_tables(Snapshot& snapshot) {
  TableRenumbering renumbering(snapshot.tables);
  renumbering.visit(snapshot.segments);
  renumbering.visit(snapshot.device_traces);
  renumbering.visit(snapshot.host_segments);
  renumbering.visit(snapshot.host_traces);
}

}  // namespace ashlar
