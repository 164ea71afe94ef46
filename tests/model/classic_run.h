// SPDX-License-Identifier: Apache-2.0
//
// A list of operations for the engine and the model: drawn from a seed, printable, and shrunk to
// the relevant ones when the two disagree.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ashlar/options.h"

namespace ashlar::model {

enum class Kind {
  kAllocate,  // `number` bytes on stream `which`
  kFree,      // the live block `number` modulo their count
  kUse,       // the same block, on stream `which`
  kFinish,    // stream `which` finishes its work
  kTrim,
  kFraction,  // one of a few limits
  kRoute,     // stream `which` to pool `number`, which is created if necessary
  kUnroute,   // pool `number`
  kDrop,      // releases pool `number` completely
  kCapture,   // stream `which` begins a capture, if none is in progress, routed to pool `number`
  kWork,      // stream `which` works if it is capturing
  kOrder,     // orders a captured stream before stream `which`, which joins, or vice versa
  kEnd,       // the capture ends
};

struct Operation {
  Kind kind = Kind::kAllocate;
  uint64_t number = 0;
  size_t which = 0;
  size_t id = 0;  // position in the original list, from 1
  // For kFree and kUse: the block that this operation allocated, if live, instead of `number`. This
  // keeps the meaning when the list is shrunk.
  std::optional<size_t> target{};
};

struct Setting {
  AllocatorOptions options;
  size_t capacity_bytes = 0;
};

struct Disagreement {
  size_t step = 0;
  std::string what;
};

Setting draw_setting(uint64_t seed);
std::vector<Operation> draw_operations(uint64_t seed, size_t count);
std::string to_text(const Setting& setting);
std::string to_text(const std::vector<Operation>& operations);

}  // namespace ashlar::model
