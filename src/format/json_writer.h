// SPDX-License-Identifier: Apache-2.0
//
// Writes values as JSON. Shared values are repeated, because JSON has no references.
#pragma once

#include <vector>

#include "format/value_writer.h"

namespace ashlar {

class JsonWriter final : public ValueWriter {
 public:
  explicit JsonWriter(ByteSink& sink) : ValueWriter(sink) {}

  void begin_list() override { begin('['); }
  void end_list() override { end(']'); }
  void begin_dict() override { begin('{'); }
  void end_dict() override { end('}'); }
  void key(std::string_view name) override;
  void key(Key name) override { key(key_text(name)); }

  void integer(int64_t value) override;
  void unsigned_integer(uint64_t value) override;
  void floating_point(double value) override;
  void boolean(bool value) override;
  void string(std::string_view value) override;
  void string(Key word) override { string(ashlar::key_text(word)); }
  void pool(PoolId value) override;
  bool reuse(SharedKind /*kind*/, uint32_t /*index*/) override { return false; }
  Status finish() override;

 private:
  void begin(char bracket);
  void end(char bracket);
  void begin_value();

  std::vector<bool> has_items_;  // one flag per open container
  bool has_key_ = false;         // the next value belongs to the key just written
};

// Writes `value` in quotes. Invalid UTF-8 and lone surrogates, which JSON cannot represent, become
// U+FFFD.
void put_json_string(ByteWriter& out, std::string_view value);

}  // namespace ashlar
