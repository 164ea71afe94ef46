// SPDX-License-Identifier: Apache-2.0
//
// A list of operations, run on the engine and on the model side by side: drawn from a seed, printed
// in words, and cut down to the few that matter when the two disagree.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ashlar/options.h"

namespace ashlar::model {

enum class Kind {
  kAllocate,  // `number` bytes on stream `which`
  kFree,      // the live block `number`, counted round and round
  kUse,       // the same block, on stream `which`
  kFinish,    // stream `which` gets past its work
  kTrim,
  kFraction,  // one of a few limits
  kRoute,     // stream `which` to pool `number`, which is made if it is not there
  kUnroute,   // pool `number`
  kDrop,      // nobody holds pool `number` any more
  kCapture,   // stream `which` begins to capture, if none does, routed to pool `number`
  kWork,      // stream `which` works, if it is capturing
  kOrder,     // a captured stream before stream `which`, which joins; or `which` before it
  kEnd,       // the capture ends
};

struct Operation {
  Kind kind = Kind::kAllocate;
  uint64_t number = 0;
  size_t which = 0;
  size_t id = 0;  // its place in the list as drawn, from 1
  // For kFree and kUse: the block that operation allocated, if it is live, whatever `number` says.
  // So a list can be cut without changing what the rest of it means.
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
