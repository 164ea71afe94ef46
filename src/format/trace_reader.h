// SPDX-License-Identifier: Apache-2.0
//
// Reads the trace entries of a file. A file may have millions of entries, so this class is the
// ValueStore's adopter: each dict becomes a TraceEntry as soon as it is complete, and its values
// are dropped. Not thread safe.
#pragma once

#include <vector>

#include "ashlar/snapshot.h"
#include "format/field_reader.h"
#include "format/stack_reader.h"

namespace ashlar {

class TraceReader final : public DictAdopter {
 public:
  TraceReader(FieldReader& fields, StackReader& stacks) : fields_(fields), stacks_(stacks) {}

  // Adopts dicts that have the keys "action" and "size".
  Outcome adopt(std::span<const Value> items, uint32_t& number) override;
  const std::string& problem() const override { return fields_.problem(); }

  // Reads one list of entries per device. `key` is the key of the lists, for messages.
  bool read_traces(Key key, Value lists, std::vector<std::vector<TraceEntry>>& traces);

 private:
  // A parsed entry. Legacy "user_defined" entries are not kept.
  struct Entry {
    TraceEntry entry{};
    bool is_kept = true;
  };

  bool read(std::span<const Value> items, Entry& made);
  bool read_field(Key key, Value value, Entry& made);
  bool read_action(Value value, Entry& made);
  bool read_trace(Value list, std::vector<TraceEntry>& trace);
  bool charge(const TraceEntry& entry);
  bool take_whole(std::span<const Value> items, std::vector<TraceEntry>& trace);

  FieldReader& fields_;
  StackReader& stacks_;
  StackReader::StackValues stack_values_{};
  std::vector<TraceEntry> adopted_;
  bool is_taken_ = false;  // take_whole() moved adopted_ into a trace
};

}  // namespace ashlar
