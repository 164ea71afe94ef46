// SPDX-License-Identifier: Apache-2.0
//
// Checks the type and range of each value, and formats the mismatch.
#include "format/field_reader.h"

#include "base/text.h"

namespace ashlar {

bool FieldReader::bytes(Key key, Value value, size_t& out) {
  if (!requested_bytes(key, value, out)) return false;
  return out <= kMaxSizeBytes || fail(key, value, "a number of bytes up to 2^47");
}

bool FieldReader::requested_bytes(Key key, Value value, size_t& out) {
  if (value.kind != ValueKind::kInteger || value.bits >> 63 != 0) {
    return fail(key, value, "a number of bytes");
  }
  out = static_cast<size_t>(value.bits);
  return true;
}

bool FieldReader::bits(Key key, Value value, uint64_t& out) {
  if (!value.is_integer()) return fail(key, value, "an integer");
  out = value.bits;
  return true;
}

bool FieldReader::integer(Key key, Value value, int64_t& out) {
  if (value.kind != ValueKind::kInteger) return fail(key, value, "an integer below 2^63");
  out = static_cast<int64_t>(value.bits);
  return true;
}

bool FieldReader::boolean(Key key, Value value, bool& out) {
  if (value.kind != ValueKind::kBool) return fail(key, value, "a boolean");
  out = value.bits != 0;
  return true;
}

bool FieldReader::device(Key key, Value value, DeviceIndex& out) {
  if (value.kind != ValueKind::kInteger || value.bits >= kMaxDevices) {
    return fail(key, value, text("a device from 0 to ", kMaxDevices - 1));
  }
  out = DeviceIndex(value.bits);
  return true;
}

bool FieldReader::pool(Key key, Value value, PoolId& out) {
  std::span<const Value> items;
  if (!list(key, value, items)) return false;
  if (items.size() != 2 || !items[0].is_integer() || !items[1].is_integer()) {
    return fail(key, value, "two integers");
  }
  out = {.capture = items[0].bits, .user = items[1].bits};
  return true;
}

bool FieldReader::string(Key key, Value value) {
  return value.kind == ValueKind::kString || fail(key, value, "a string");
}

bool FieldReader::list(Key key, Value value, std::span<const Value>& out) {
  if (value.kind != ValueKind::kList && value.kind != ValueKind::kTuple) {
    return fail(key, value, "a list");
  }
  if (store_.converted(value)) return fail(key, value, "a list that is not also a stack");
  out = store_.items(value);
  return visit(out);
}

bool FieldReader::dict(Key key, Value value, std::span<const Value>& out) {
  if (value.kind != ValueKind::kDict) return fail(key, value, "a dict");
  if (store_.adopted(value)) return fail(key, value, "a dict that is not a trace entry");
  if (store_.converted(value)) return fail(key, value, "a dict that is not also a frame");
  out = store_.items(value);
  return visit(out);
}

bool FieldReader::charge(size_t bytes) { return store_.charge(bytes) || fail(store_.problem()); }

bool FieldReader::can_hold(size_t bytes) {
  return store_.can_hold(bytes) || fail(store_.problem());
}

bool FieldReader::charge_text(size_t bytes) {
  return store_.charge_text(bytes) || fail(store_.problem());
}

bool FieldReader::append_strings(Value first, Value second, StringPairs& out) {
  const std::string_view left = text_of(first);
  const std::string_view right = text_of(second);
  if (!charge(sizeof(out.front()) + left.size() + right.size())) return false;
  out.emplace_back(left, right);
  return true;
}

bool FieldReader::fail(Key key, Value found, std::string_view expected) {
  std::string what(name(found.kind));
  if (found.kind == ValueKind::kInteger) what = text(static_cast<int64_t>(found.bits));
  if (found.kind == ValueKind::kLargeInteger) what = text(found.bits);
  if (found.kind == ValueKind::kString) what = text('"', text_of(found).substr(0, 60), '"');
  return fail(text('"', key_text(key), "\": found ", what, " (expected ", expected, ")"));
}

bool FieldReader::fail(std::string problem) {
  problem_ = std::move(problem);
  return false;
}

bool FieldReader::visit(std::span<const Value> items) {
  if (items.size() > allowance_) {
    return fail(
        "the shared parts of the file expand to too many values (expected at most eight values "
        "per byte)");
  }
  allowance_ -= items.size();
  return true;
}

}  // namespace ashlar
