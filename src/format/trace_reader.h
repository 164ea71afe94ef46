// SPDX-License-Identifier: Apache-2.0
//
// Trace entries of a file. There may be millions, so each is turned into a TraceEntry as soon as
// its dict is complete, and only then forgotten as a dict: this is the adopter of the ValueStore.
#pragma once

#include <vector>

#include "ashlar/snapshot.h"
#include "format/fields.h"
#include "format/stack_reader.h"

namespace ashlar {

class TraceReader final : public DictAdopter {
 public:
  TraceReader(Fields& fields, StackReader& stacks) : fields_(fields), stacks_(stacks) {}

  // Takes dicts that have an "action" and a "size".
  Answer adopt(std::span<const Value> items, uint32_t& number) override;
  const std::string& problem() const override { return fields_.problem(); }

  // One list of entries per device. `key` is where they stand, for messages.
  bool read_traces(Key key, Value lists, std::vector<std::vector<TraceEntry>>& traces);

 private:
  // An act, and whether it is to be kept: legacy marks of a user's own are not.
  struct Entry {
    TraceEntry entry{};
    bool is_kept = true;
  };

  bool read(std::span<const Value> items, Entry& made);
  bool read_field(Key key, Value value, Entry& made);
  bool read_action(Value value, Entry& made);
  bool read_trace(Value list, std::vector<TraceEntry>& trace);
  bool take_whole(std::span<const Value> items, std::vector<TraceEntry>& trace);

  Fields& fields_;
  StackReader& stacks_;
  StackReader::Parts stack_parts_{};
  std::vector<TraceEntry> adopted_;
  bool is_taken_ = false;  // all that was adopted belongs to one trace
};

}  // namespace ashlar
