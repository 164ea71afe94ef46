// SPDX-License-Identifier: Apache-2.0
//
// Converts dicts to trace entries, and lists of dicts to traces.
#include "format/trace_reader.h"

#include "base/text.h"

namespace ashlar {
namespace {

// The number that adopt() gives to entries that are not kept.
constexpr uint32_t kNotKept = UINT32_MAX;
// Memory of an entry and of what analyses derive from it: an allocation, a point of the timeline,
// and a block in a replay.
constexpr size_t kEntryBytes = sizeof(TraceEntry) + 192;

bool has_key(std::span<const Value> items, Key key) {
  for (size_t i = 0; i < items.size(); i += 2) {
    if (items[i].kind == ValueKind::kString && key_of(items[i]) == key) return true;
  }
  return false;
}

}  // namespace

DictAdopter::Outcome TraceReader::adopt(std::span<const Value> items, uint32_t& number) {
  if (!has_key(items, Key::kAction) || !has_key(items, Key::kSize)) return Outcome::kDeclined;
  Entry made;
  if (!read(items, made)) return Outcome::kInvalid;
  if (!made.is_kept) {
    number = kNotKept;
    return Outcome::kAdopted;
  }
  if (!charge(made.entry)) return Outcome::kInvalid;
  number = static_cast<uint32_t>(adopted_.size());
  adopted_.push_back(made.entry);
  return Outcome::kAdopted;
}

bool TraceReader::read_traces(Key key, Value lists, std::vector<std::vector<TraceEntry>>& traces) {
  std::span<const Value> items;
  if (!fields_.list(key, lists, items)) return false;
  if (items.size() > kMaxDevices) {
    return fields_.fail(key, lists, text("traces of at most ", kMaxDevices, " devices"));
  }
  traces.assign(items.size(), {});
  for (size_t device = 0; device < items.size(); ++device) {
    if (!read_trace(items[device], traces[device])) {
      return fields_.fail(text(key_text(key), "[", device, "]", fields_.problem()));
    }
    for (TraceEntry& entry : traces[device]) entry.device = DeviceIndex(device);
  }
  return true;
}

bool TraceReader::read_trace(Value list, std::vector<TraceEntry>& trace) {
  std::span<const Value> items;
  if (!fields_.list(Key::kDeviceTraces, list, items)) return fields_.fail(": " + fields_.problem());
  if (take_whole(items, trace)) return true;
  for (size_t i = 0; i < items.size(); ++i) {
    const bool is_dict = items[i].kind == ValueKind::kDict;
    const std::optional<uint32_t> adopted =
        is_dict ? fields_.store().adopted(items[i]) : std::nullopt;
    if (adopted && is_taken_) {
      return fields_.fail(text("[", i, "]: an entry of another trace (expected each entry once)"));
    }
    if (adopted == kNotKept) continue;
    Entry made;
    std::span<const Value> fields;
    if (adopted) {
      made.entry = adopted_[*adopted];
    } else if (!fields_.dict(Key::kDeviceTraces, items[i], fields) || !read(fields, made)) {
      return fields_.fail(text("[", i, "]: ", fields_.problem()));
    }
    if (!made.is_kept) continue;
    // A list can contain the same entry many times, so each copy is charged.
    if (!charge(made.entry)) return fields_.fail(text("[", i, "]: ", fields_.problem()));
    trace.push_back(made.entry);
  }
  return true;
}

bool TraceReader::charge(const TraceEntry& entry) {
  return fields_.charge(kEntryBytes) &&
         fields_.charge_text(stacks_.text_bytes(entry.stack) +
                             stacks_.text_bytes(entry.compile_context) +
                             stacks_.text_bytes(entry.user_metadata));
}

// Fast path for a file with one trace: moves all adopted entries instead of copying them. Later
// traces that refer to the same entries are rejected.
bool TraceReader::take_whole(std::span<const Value> items, std::vector<TraceEntry>& trace) {
  if (items.empty() || items.size() != adopted_.size() || is_taken_) return false;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].kind != ValueKind::kDict || fields_.store().adopted(items[i]) != i) return false;
  }
  is_taken_ = true;
  trace = std::move(adopted_);
  return true;
}

bool TraceReader::read(std::span<const Value> items, Entry& made) {
  TraceEntry& entry = made.entry;
  entry.has_pool = entry.has_time = entry.has_compile_context = entry.has_user_metadata = false;
  stack_values_ = {};
  bool has_action = false;
  Value size;
  for (size_t i = 0; i < items.size(); i += 2) {
    if (items[i].kind != ValueKind::kString) continue;
    const Key key = key_of(items[i]);
    if (!read_field(key, items[i + 1], made)) return false;
    has_action |= key == Key::kAction;
    if (key == Key::kSize) size = items[i + 1];
  }
  if (!has_action) return fields_.fail("\"action\" is missing (expected a string)");
  if (size.kind == ValueKind::kNone) {
    if (made.is_kept) return fields_.fail("\"size\" is missing (expected a number)");
  } else if (entry.action != TraceAction::kOom && !fields_.bytes(Key::kSize, size, entry.bytes)) {
    return false;  // only a failed request can exceed the available memory
  }
  return stacks_.read(stack_values_, entry.stack);
}

bool TraceReader::read_field(Key key, Value value, Entry& made) {
  TraceEntry& entry = made.entry;
  uint64_t bits = 0;
  switch (key) {
    case Key::kAction: return read_action(value, made);
    case Key::kAddr:
    case Key::kDeviceFree:
      if (!fields_.bits(key, value, bits)) return false;
      entry.address = DeviceAddress(bits);
      return true;
    case Key::kSize: return fields_.requested_bytes(key, value, entry.bytes);
    case Key::kStream:
      if (!fields_.bits(key, value, bits)) return false;
      entry.stream = StreamId(bits);
      return true;
    case Key::kTimeUs: entry.has_time = true; return fields_.integer(key, value, entry.time_us);
    case Key::kCompileContext:
      if (!fields_.string(key, value)) return false;
      entry.has_compile_context = true;
      return stacks_.intern_string(value, Key::kNotAvailable, entry.compile_context);
    case Key::kUserMetadata:
      if (!fields_.string(key, value)) return false;
      entry.has_user_metadata = true;
      return stacks_.intern_string(value, Key::kNothing, entry.user_metadata);
    case Key::kPoolId: entry.has_pool = true; return fields_.pool(key, value, entry.pool);
    case Key::kFrames: stack_values_.frames = value; return true;
    case Key::kForwardFrames: stack_values_.forward = value; return true;
    default: return true;
  }
}

bool TraceReader::read_action(Value value, Entry& made) {
  if (!fields_.string(Key::kAction, value)) return false;
  const Key action = key_of(value);
  if (action >= Key::kAlloc && action <= Key::kAnnotate) {
    made.entry.action = static_cast<TraceAction>(static_cast<uint32_t>(action) -
                                                 static_cast<uint32_t>(Key::kAlloc));
    return true;
  }
  if (action == Key::kFree) {
    made.entry.action = TraceAction::kFreeCompleted;
    return true;
  }
  made.is_kept = action != Key::kUserDefined;
  return !made.is_kept || fields_.fail(Key::kAction, value, "the name of an action, such as alloc");
}

}  // namespace ashlar
