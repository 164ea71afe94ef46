// SPDX-License-Identifier: Apache-2.0
//
// Adds separators, and quotes and escapes strings.
#include "format/json_writer.h"

#include <cmath>

#include "format/utf8.h"

namespace ashlar {

Status JsonWriter::finish() {
  out_.put('\n');
  return out_.finish();
}

void JsonWriter::begin(char bracket) {
  begin_value();
  out_.put(bracket);
  has_items_.push_back(false);
}

void JsonWriter::end(char bracket) {
  has_items_.pop_back();
  out_.put(bracket);
}

void JsonWriter::begin_value() {
  if (has_key_ || has_items_.empty()) {
    has_key_ = false;
    return;
  }
  if (has_items_.back()) out_.put(", ");
  has_items_.back() = true;
}

void JsonWriter::key(std::string_view name) {
  begin_value();
  put_json_string(out_, name);
  out_.put(": ");
  has_key_ = true;
}

void JsonWriter::integer(int64_t value) {
  begin_value();
  out_.put_number(value);
}

void JsonWriter::unsigned_integer(uint64_t value) {
  begin_value();
  out_.put_number(value);
}

void JsonWriter::floating_point(double value) {
  begin_value();
  if (!std::isfinite(value)) return out_.put("null");
  out_.put_double(value);
}

void JsonWriter::boolean(bool value) {
  begin_value();
  out_.put(value ? "true" : "false");
}

void JsonWriter::string(std::string_view value) {
  begin_value();
  put_json_string(out_, value);
}

void JsonWriter::pool(PoolId value) {
  begin_list();
  unsigned_integer(value.capture);
  unsigned_integer(value.user);
  end_list();
}

void put_json_string(ByteWriter& out, std::string_view value) {
  constexpr std::string_view kHexDigits = "0123456789abcdef";
  constexpr std::string_view kReplacement = "\xef\xbf\xbd";
  out.put('"');
  while (!value.empty()) {
    const size_t count = utf8_character_bytes(value);
    const char first = value.front();
    if (count == 0 || is_surrogate(value)) {
      out.put(kReplacement);
    } else if (first == '"' || first == '\\') {
      out.put('\\');
      out.put(first);
    } else if (static_cast<unsigned char>(first) < 0x20 || first == 0x7f) {
      out.put("\\u00");
      out.put(kHexDigits[static_cast<unsigned char>(first) >> 4]);
      out.put(kHexDigits[first & 0xf]);
    } else {
      out.put(value.substr(0, count));
    }
    value.remove_prefix(count == 0 ? 1 : count);
  }
  out.put('"');
}

}  // namespace ashlar
