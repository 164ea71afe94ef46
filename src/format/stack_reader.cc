// SPDX-License-Identifier: Apache-2.0
//
// Interns stacks first by the identity of their list, which is cheap, then by content.
#include "format/stack_reader.h"

#include <algorithm>
#include <string_view>

#include "base/text.h"

namespace ashlar {
namespace {

// Estimated memory of a frame or stack besides its contents.
constexpr size_t kTableEntryBytes = 192;
// Estimated text of a frame besides its strings.
constexpr size_t kFrameTextBytes = 48;
// Estimated memory of a frame in a report besides its strings. Reports repeat the frames in each
// stack.
constexpr size_t kReportedFrameBytes = 128;
// Marks forward stacks in the number of a converted list.
constexpr uint32_t kForwardBit = uint32_t{1} << 31;

// Index keys are concatenations of numbers and texts. Each text is prefixed with its length, so
// that different contents have different keys.
void append_number(std::string& key, uint64_t number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void append_text(std::string& key, std::string_view part) {
  append_number(key, part.size());
  key += part;
}

}  // namespace

bool StackReader::read(const StackValues& values, StackId& stack) {
  stack = StackId();
  if (values.forward.kind != ValueKind::kNone) return read_with_forward(values, stack);
  return values.frames.kind == ValueKind::kNone || read_frames(values.frames, stack);
}

bool StackReader::read_frames(Value list, StackId& stack) {
  ValueStore& store = fields_.store();
  if (list.kind != ValueKind::kList) return fields_.fail(Key::kFrames, list, "a list");
  if (const std::optional<uint32_t> known = store.converted(list)) {
    stack = StackId(*known & ~kForwardBit);
    return (*known & kForwardBit) == 0 ||
           fields_.fail(Key::kFrames, list, "a list that is not also a forward stack");
  }
  std::span<const Value> items;
  if (!fields_.list(Key::kFrames, list, items)) return false;
  frames_.resize(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    if (!read_frame(items[i], frames_[i])) return false;
  }
  if (!intern(frames_, {}, stack)) return false;
  if (!items.empty()) store.mark_converted(list, stack.value());
  return true;
}

bool StackReader::read_with_forward(const StackValues& values, StackId& stack) {
  StackId backward;
  uint32_t forward = 0;
  if (values.frames.kind != ValueKind::kNone && !read_frames(values.frames, backward)) return false;
  if (!read_forward(values.forward, forward)) return false;
  const auto [place, is_new] =
      pair_index_.try_emplace(uint64_t{backward.value()} << 32 | forward, uint32_t{0});
  if (is_new) {
    frames_ = tables_.stacks[backward.value()].frames;
    if (!intern(frames_, forward_stacks_[forward], stack)) return false;
    place->second = stack.value();
  }
  stack = StackId(place->second);
  return true;
}

bool StackReader::read_forward(Value list, uint32_t& forward) {
  if (list.kind != ValueKind::kList) return fields_.fail(Key::kForwardFrames, list, "a list");
  if (const std::optional<uint32_t> known = fields_.store().converted(list)) {
    forward = *known & ~kForwardBit;
    return (*known & kForwardBit) != 0 ||
           fields_.fail(Key::kForwardFrames, list, "a list that is not also a stack");
  }
  std::span<const Value> lines;
  if (!fields_.list(Key::kForwardFrames, list, lines)) return false;
  std::vector<std::string> made;
  for (const Value& line : lines) {
    if (!fields_.string(Key::kForwardFrames, line)) return false;
    if (!fields_.charge(kTableEntryBytes + 2 * fields_.text_of(line).size())) return false;
    made.emplace_back(fields_.text_of(line));
  }
  forward = static_cast<uint32_t>(forward_stacks_.size());
  forward_stacks_.push_back(std::move(made));
  if (!lines.empty()) fields_.store().mark_converted(list, forward | kForwardBit);
  return fields_.charge(kTableEntryBytes);
}

bool StackReader::read_frame(Value dict, uint32_t& frame) {
  if (dict.kind == ValueKind::kDict) {
    if (const std::optional<uint32_t> known = fields_.store().converted(dict)) {
      frame = *known;
      return true;
    }
  }
  std::span<const Value> items;
  if (!fields_.dict(Key::kFrames, dict, items) || !make_frame(items, frame)) return false;
  fields_.store().mark_converted(dict, frame);
  return true;
}

// Finds or adds a frame. Strings are added to the tables only if the frame is new.
bool StackReader::make_frame(std::span<const Value> items, uint32_t& frame) {
  std::string_view name;
  std::string_view filename;
  int64_t line = 0;
  extra_.clear();
  for (size_t i = 0; i < items.size(); i += 2) {
    if (items[i].kind != ValueKind::kString) continue;
    const Value value = items[i + 1];
    const Key key = key_of(items[i]);
    if (key == Key::kName || key == Key::kFilename) {
      if (!fields_.string(key, value)) return false;
      (key == Key::kName ? name : filename) = fields_.text_of(value);
    } else if (key == Key::kLine) {
      uint64_t bits = 0;
      if (!fields_.bits(key, value, bits)) return false;
      // Python 3.13 has frames with line -1, which PyTorch writes as 2^64 - 1.
      line = std::max<int64_t>(static_cast<int64_t>(bits), 0);
    } else if (fields_.text_of(items[i]).starts_with("fx_") && value.kind == ValueKind::kString) {
      extra_.emplace_back(fields_.text_of(items[i]), fields_.text_of(value));
    }
  }
  size_t text_bytes = name.size() + filename.size();
  for (const auto& [first, second] : extra_) {
    text_bytes += sizeof(Frame::extra.front()) + first.size() + second.size();
  }
  // The key and the frame each hold a copy of the texts.
  const size_t frame_bytes = kTableEntryBytes + 2 * text_bytes;
  if (!fields_.can_hold(frame_bytes)) return false;
  std::string key;
  append_text(key, name);
  append_text(key, filename);
  append_number(key, static_cast<uint64_t>(line));
  for (const auto& [first, second] : extra_) {
    append_text(key, first);
    append_text(key, second);
  }
  const auto [place, is_new] =
      frame_index_.try_emplace(std::move(key), static_cast<uint32_t>(tables_.frames.size()));
  frame = place->second;
  if (!is_new) return true;
  Frame made{.name = std::string(name), .filename = std::string(filename), .line = line};
  for (const auto& [first, second] : extra_) made.extra.emplace_back(first, second);
  tables_.frames.push_back(std::move(made));
  return fields_.charge(frame_bytes);
}

size_t frame_text_bytes(const Frame& frame) {
  size_t bytes = kFrameTextBytes + frame.name.size() + frame.filename.size();
  for (const auto& [name, value] : frame.extra) bytes += name.size() + value.size();
  return bytes;
}

bool StackReader::intern(std::span<const uint32_t> frames, std::span<const std::string> forward,
                         StackId& stack) {
  size_t bytes = frames.size_bytes();
  size_t text_bytes = 0;
  for (const uint32_t frame : frames) text_bytes += frame_text_bytes(tables_.frames[frame]);
  for (const std::string& line : forward) {
    bytes += sizeof(std::string) + line.size();
    text_bytes += line.size();
  }
  // The index and the table each hold a copy of `bytes`, and a report may hold the text.
  const size_t stack_bytes =
      kTableEntryBytes + 2 * bytes + kReportedFrameBytes * frames.size() + text_bytes;
  if (!fields_.can_hold(stack_bytes)) return false;
  key_.clear();
  append_text(key_, {reinterpret_cast<const char*>(frames.data()), frames.size_bytes()});
  for (const std::string& line : forward) append_text(key_, line);
  if (const auto known = stack_index_.find(key_); known != stack_index_.end()) {
    stack = StackId(known->second);
    return true;
  }
  stack = StackId(static_cast<uint32_t>(tables_.stacks.size()));
  stack_index_.emplace(key_, stack.value());
  tables_.stacks.push_back(
      {.frames = {frames.begin(), frames.end()}, .forward = {forward.begin(), forward.end()}});
  stack_text_bytes_.push_back(text_bytes);
  return fields_.charge(stack_bytes);
}

bool StackReader::intern_string(Value string, Key none, StringId& made) {
  made = StringId();
  if (key_of(string) == none) return true;
  const uint32_t index = string.index();
  if (index >= string_ids_.size()) string_ids_.resize(fields_.store().string_count());
  uint32_t& id = string_ids_[index];
  if (id == 0) {
    if (!fields_.charge(sizeof(std::string) + fields_.text_of(string).size())) return false;
    id = static_cast<uint32_t>(tables_.strings.size());
    tables_.strings.emplace_back(fields_.text_of(string));
  }
  made = StringId(id);
  return true;
}

}  // namespace ashlar
