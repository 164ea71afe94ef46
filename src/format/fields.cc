// SPDX-License-Identifier: Apache-2.0
//
// Checks of kind and range.
#include "format/fields.h"

#include "base/text.h"

namespace ashlar {

bool Fields::bytes(Key key, Value value, size_t& out) {
  if (value.kind != ValueKind::kInteger || value.bits >> 63 != 0) {
    return fail(key, value, "a number of bytes");
  }
  out = static_cast<size_t>(value.bits);
  return true;
}

bool Fields::bits(Key key, Value value, uint64_t& out) {
  if (!value.is_integer()) return fail(key, value, "a whole number");
  out = value.bits;
  return true;
}

bool Fields::integer(Key key, Value value, int64_t& out) {
  if (value.kind != ValueKind::kInteger) return fail(key, value, "a whole number below 2^63");
  out = static_cast<int64_t>(value.bits);
  return true;
}

bool Fields::flag(Key key, Value value, bool& out) {
  if (value.kind != ValueKind::kBool) return fail(key, value, "a flag");
  out = value.bits != 0;
  return true;
}

bool Fields::device(Key key, Value value, DeviceIndex& out) {
  if (value.kind != ValueKind::kInteger || value.bits >= kMostDevices) {
    return fail(key, value, text("a device from 0 to ", kMostDevices - 1));
  }
  out = DeviceIndex(value.bits);
  return true;
}

bool Fields::pool(Key key, Value value, PoolId& out) {
  std::span<const Value> items;
  if (!list(key, value, items)) return false;
  if (items.size() != 2 || !items[0].is_integer() || !items[1].is_integer()) {
    return fail(key, value, "two whole numbers");
  }
  out = {.capture = items[0].bits, .user = items[1].bits};
  return true;
}

bool Fields::string(Key key, Value value) {
  return value.kind == ValueKind::kString || fail(key, value, "a string");
}

bool Fields::list(Key key, Value value, std::span<const Value>& out) {
  if (value.kind != ValueKind::kList && value.kind != ValueKind::kTuple) {
    return fail(key, value, "a list");
  }
  if (store_.converted(value)) return fail(key, value, "a list that is not also a stack");
  out = store_.items(value);
  return visit(out);
}

bool Fields::dict(Key key, Value value, std::span<const Value>& out) {
  if (value.kind != ValueKind::kDict) return fail(key, value, "a dict");
  if (store_.adopted(value)) return fail(key, value, "a dict that is not a trace entry");
  if (store_.converted(value)) return fail(key, value, "a dict that is not also a frame");
  out = store_.items(value);
  return visit(out);
}

bool Fields::fail(Key key, Value found, std::string_view expected) {
  std::string what(name(found.kind));
  if (found.kind == ValueKind::kInteger) what = text(static_cast<int64_t>(found.bits));
  if (found.kind == ValueKind::kLargeInteger) what = text(found.bits);
  if (found.kind == ValueKind::kString) what = text('"', text_of(found).substr(0, 60), '"');
  return fail(text('"', word(key), "\": found ", what, " (expected ", expected, ")"));
}

bool Fields::fail(std::string problem) {
  problem_ = std::move(problem);
  return false;
}

bool Fields::visit(std::span<const Value> items) {
  if (items.size() > allowance_) {
    return fail(
        "the file shares its parts so often that it would grow beyond all measure (expected: about "
        "as many values as bytes)");
  }
  allowance_ -= items.size();
  return true;
}

}  // namespace ashlar
