// SPDX-License-Identifier: Apache-2.0
//
// Frames are numbered by content first, so that stacks are compared as lists of numbers.
#include "analysis/stack_index.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "analysis/frame_kind.h"

namespace ashlar {
namespace {

// The frames of one snapshot and their kinds. Selects the frames that are shown of a stack.
class FrameTable {
 public:
  explicit FrameTable(const SnapshotTables& tables) : frames_(tables.frames) {
    const FrameClassifier classifier(tables);
    kinds_.reserve(frames_.size());
    for (const Frame& frame : frames_) kinds_.push_back(classifier.kind(frame));
    has_python_ = classifier.has_python();
    is_python_only_ = has_python_ && !classifier.has_native();
  }

  // Returns the frames of a stack that have this kind, as indexes into the snapshot's frames.
  std::vector<uint32_t> select(const std::vector<uint32_t>& stack, FrameKind kind) const {
    std::vector<uint32_t> selected;
    std::copy_if(stack.begin(), stack.end(), std::back_inserter(selected),
                 [&](uint32_t frame) { return frame < kinds_.size() && kinds_[frame] == kind; });
    return selected;
  }

  bool lacks_lines() const {
    if (has_python_) return false;
    for (size_t i = 0; i < frames_.size(); ++i) {
      if (kinds_[i] == FrameKind::kUser && frames_[i].line == 0) return true;
    }
    return false;
  }

  // Returns the label of a stack without user code; empty if it has none.
  std::string label_of(const std::vector<uint32_t>& stack) const {
    if (stack.empty()) return is_python_only_ ? "no Python frame (usually the backward pass)" : "";
    std::string_view node;
    bool is_backward = false;
    for (const uint32_t frame : stack) {
      if (frame >= frames_.size()) continue;
      is_backward = is_backward || is_backward_engine(frames_[frame]);
      if (node.empty()) node = backward_node(frames_[frame]);
    }
    std::string label = is_backward || !node.empty() ? "backward pass (autograd thread)" : "";
    if (!node.empty()) label += ": " + std::string(node);
    return label;
  }

 private:
  const std::vector<Frame>& frames_;
  std::vector<FrameKind> kinds_{};
  bool has_python_ = false;
  bool is_python_only_ = false;
};

}  // namespace

StackIndex::StackIndex(StackDetail detail) : detail_(detail) {
  number_of({}, {});
  number_of({label_number("allocated before the recording")}, {});
}

std::vector<uint32_t> StackIndex::add(const SnapshotTables& tables) {
  const FrameTable table(tables);
  lacks_lines_ = lacks_lines_ || table.lacks_lines();
  FrameNumbers frame_numbers;
  frame_numbers.reserve(tables.frames.size());
  for (const Frame& frame : tables.frames) frame_numbers.push_back(frame_number(frame));
  const auto numbered = [&](const std::vector<uint32_t>& stack) {
    FrameNumbers numbers;
    for (const uint32_t frame : stack) {
      if (frame < frame_numbers.size()) numbers.push_back(frame_numbers[frame]);
    }
    return numbers;
  };
  const auto shown = [&](const std::vector<uint32_t>& stack, const FrameNumbers& all) {
    if (detail_ == StackDetail::kFull && !stack.empty()) return all;
    const std::vector<uint32_t> user = table.select(stack, FrameKind::kUser);
    if (!user.empty()) return numbered(user);
    FrameNumbers other = numbered(table.select(stack, FrameKind::kLibrary));
    if (std::string label = table.label_of(stack); !label.empty()) {
      other.insert(other.begin(), label_number(std::move(label)));
    }
    if (other.empty()) other = numbered(table.select(stack, FrameKind::kNative));
    return other.empty() ? all : other;
  };

  std::vector<uint32_t> numbers;
  numbers.reserve(tables.stacks.size());
  for (const Stack& stack : tables.stacks) {
    const FrameNumbers all = numbered(stack.frames);
    // The first stack of the tables means "none". Other stacks without frames were recorded so.
    numbers.push_back(numbers.empty() ? kNoStack : number_of(shown(stack.frames, all), all));
  }
  return numbers;
}

std::vector<const Frame*> StackIndex::frames(uint32_t number) const {
  return frames_of(*shown_[number]);
}

std::vector<const Frame*> StackIndex::full_frames(uint32_t number) const {
  return frames_of(full_[number]);
}

std::vector<const Frame*> StackIndex::frames_of(const FrameNumbers& numbers) const {
  std::vector<const Frame*> found;
  found.reserve(numbers.size());
  for (const uint32_t frame : numbers) found.push_back(frames_[frame]);
  return found;
}

uint32_t StackIndex::frame_number(const Frame& frame) {
  const auto [place, is_new] = frame_numbers_.try_emplace(
      FrameKey(frame.name, frame.filename, frame.line), static_cast<uint32_t>(frames_.size()));
  if (is_new) frames_.push_back(&frame);
  return place->second;
}

uint32_t StackIndex::label_number(std::string text) {
  // The name of a known label must not be replaced, because frame_numbers_ refers to it.
  const auto [place, is_new] = labels_.try_emplace(text);
  if (is_new) place->second.name = std::move(text);
  return frame_number(place->second);
}

uint32_t StackIndex::number_of(FrameNumbers shown, const FrameNumbers& all) {
  const auto [place, is_new] =
      stack_numbers_.try_emplace(std::move(shown), static_cast<uint32_t>(shown_.size()));
  if (is_new) {
    shown_.push_back(&place->first);
    full_.push_back(all);
  }
  return place->second;
}

}  // namespace ashlar
