// SPDX-License-Identifier: Apache-2.0
//
// Frames are numbered by content first, so that stacks are compared as lists of numbers.
#include "analysis/stack_index.h"

#include <algorithm>
#include <array>

namespace ashlar {
namespace {

// The same lists as in PyTorch's tools, so that both show the same stacks.
constexpr std::array<std::string_view, 8> kNoiseInNames = {
    "unwind::unwind",    "CapturedTraceback::gather",
    "gather_with_cpp",   "_start",
    "__libc_start_main", "PyEval_",
    "PyObject_",         "PyFunction_",
};
constexpr std::array<std::string_view, 10> kNoiseInFiles = {
    "core/boxing",
    "/Register",
    "/Redispatch",
    "pythonrun.c",
    "Modules/main.c",
    "Objects/call.c",
    "Objects/methodobject.c",
    "pycore_ceval.h",
    "ceval.c",
    "cpython/abstract.h",
};

template <size_t kCount>
bool contains_any(std::string_view text, const std::array<std::string_view, kCount>& parts) {
  return std::any_of(parts.begin(), parts.end(), [text](std::string_view part) {
    return text.find(part) != std::string_view::npos;
  });
}

}  // namespace

bool is_boilerplate(const Frame& frame) {
  return contains_any(frame.name, kNoiseInNames) || contains_any(frame.filename, kNoiseInFiles);
}

std::vector<uint32_t> StackIndex::add(const SnapshotTables& tables) {
  std::vector<uint32_t> frame_numbers;
  std::vector<bool> noise;
  for (const Frame& frame : tables.frames) {
    const auto [place, is_new] = frame_numbers_.try_emplace(
        FrameKey(frame.name, frame.filename, frame.line), static_cast<uint32_t>(frames_.size()));
    if (is_new) frames_.push_back(&frame);
    frame_numbers.push_back(place->second);
    noise.push_back(is_boilerplate(frame));
  }

  std::vector<uint32_t> numbers;
  for (const Stack& stack : tables.stacks) {
    std::vector<uint32_t> all;
    std::vector<uint32_t> useful;
    for (uint32_t frame : stack.frames) {
      if (frame >= frame_numbers.size()) continue;
      all.push_back(frame_numbers[frame]);
      if (!noise[frame]) useful.push_back(frame_numbers[frame]);
    }
    numbers.push_back(number_of(useful.empty() ? std::move(all) : std::move(useful)));
  }
  return numbers;
}

std::vector<const Frame*> StackIndex::frames(uint32_t number) const {
  std::vector<const Frame*> found;
  for (uint32_t frame : *stacks_[number]) found.push_back(frames_[frame]);
  return found;
}

uint32_t StackIndex::number_of(std::vector<uint32_t> frames) {
  const auto [place, is_new] =
      stack_numbers_.try_emplace(std::move(frames), static_cast<uint32_t>(stacks_.size()));
  if (is_new) stacks_.push_back(&place->first);
  return place->second;
}

}  // namespace ashlar
