// SPDX-License-Identifier: Apache-2.0
//
// Lists of operations for an engine and its model. Lists are drawn from a seed, can be printed, and
// are shrunk to the relevant operations when engine and model disagree.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ashlar/options.h"

namespace ashlar::model {

enum class OperationKind {
  kAllocate,  // allocates `number` bytes on stream `which`
  kFree,      // frees the live block with index `number` modulo the number of live blocks
  kUse,       // uses the block that kFree would free, on stream `which`
  kFinish,    // stream `which` finishes its work
  kTrim,
  kFraction,  // sets the memory fraction to one of a few values
  kRoute,     // routes stream `which` to pool `number`, which is created if necessary
  kUnroute,   // ends the routing to pool `number`
  kDrop,      // releases pool `number` completely
  kCapture,   // begins a capture of stream `which`, if none is in progress, routed to pool `number`
  kWork,      // queues work on stream `which` if it is capturing
  kOrder,     // makes stream `which` wait for a captured stream, or the reverse
  kEnd,       // ends the capture
};

struct Operation {
  OperationKind kind = OperationKind::kAllocate;
  uint64_t number = 0;
  size_t which = 0;
  size_t id = 0;  // position in the original list, from 1
  // For kFree and kUse: the id of the operation that allocated the block. If set, it replaces
  // `number`. The id identifies the same block after other operations were removed from the list.
  std::optional<size_t> target{};
};

struct ClassicSetting {
  AllocatorOptions options;
  size_t capacity_bytes = 0;
};

struct Disagreement {
  size_t step = 0;
  std::string what;
};

ClassicSetting draw_classic_setting(uint64_t seed);
std::vector<Operation> draw_operations(uint64_t seed, size_t count);
std::string to_text(const ClassicSetting& setting);
std::string to_text(const std::vector<Operation>& operations);

}  // namespace ashlar::model
