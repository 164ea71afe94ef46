// SPDX-License-Identifier: Apache-2.0
//
// One walk over everything that has a position, in the order in which it is written.
#include "format/renumber.h"

#include <utility>

namespace ashlar {
namespace {

// Moves what is used from an old table to a new one.
template <typename Thing>
class Mover {
 public:
  explicit Mover(std::vector<Thing>& table) : table_(table), old_(std::move(table)) {
    table_.assign(1, Thing());
    moved_to_.resize(old_.size());
  }

  // Whether it had not been used before.
  bool move(uint32_t& position) {
    if (position == 0) return false;
    uint32_t& to = moved_to_[position];
    const bool is_new = to == 0;
    if (is_new) {
      to = static_cast<uint32_t>(table_.size());
      table_.push_back(std::move(old_[position]));
    }
    position = to;
    return is_new;
  }

 private:
  std::vector<Thing>& table_;
  std::vector<Thing> old_;
  std::vector<uint32_t> moved_to_;  // 0: not yet
};

class Renumbering {
 public:
  explicit Renumbering(SnapshotTables& tables)
      : tables_(tables), frames_(tables.frames), stacks_(tables.stacks), strings_(tables.strings) {}

  void walk(std::vector<SnapshotSegment>& segments) {
    for (SnapshotSegment& segment : segments) {
      move(segment.stack);
      for (SnapshotBlock& block : segment.blocks) move(block.stack);
    }
  }
  void walk(std::vector<std::vector<TraceEntry>>& traces) {
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
  Mover<Frame> frames_;
  Mover<Stack> stacks_;
  Mover<std::string> strings_;
};

}  // namespace

void renumber_tables(Snapshot& snapshot) {
  Renumbering renumbering(snapshot.tables);
  renumbering.walk(snapshot.segments);
  renumbering.walk(snapshot.device_traces);
  renumbering.walk(snapshot.host_segments);
  renumbering.walk(snapshot.host_traces);
}

}  // namespace ashlar
