// SPDX-License-Identifier: Apache-2.0
//
// JSON. Nothing can be shared in it, and its numbers are as long as they need to be.
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
  void key(Key name) override { key(word(name)); }

  void integer(int64_t value) override;
  void natural(uint64_t value) override;
  void real(double value) override;
  void flag(bool value) override;
  void string(std::string_view value) override;
  void string(Key word) override { string(ashlar::word(word)); }
  void pool(PoolId value) override;
  bool reuse(Shared /*kind*/, uint32_t /*index*/) override { return false; }
  Status finish() override;

 private:
  void begin(char bracket);
  void end(char bracket);
  void begin_value();

  std::vector<bool> has_items_;  // of the open containers
  bool has_key_ = false;         // what comes next is its value
};

// Puts `value` between quotes. What is not UTF-8, or half a surrogate pair, becomes U+FFFD: JSON
// has no way to say it.
void put_json_string(ByteWriter& out, std::string_view value);

}  // namespace ashlar
