// SPDX-License-Identifier: Apache-2.0
//
// A recorded run as its documents share it: the snapshot, what it was recorded under, and its
// stacks by content. Constant once made, and so thread safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analysis/stack_index.h"
#include "ashlar/options.h"
#include "ashlar/snapshot.h"

namespace ashlar::view {

struct Recording {
  std::string name{};  // as a user calls it
  Snapshot snapshot{};
  AllocatorOptions options{};
  std::string ignored{};  // what of its settings could not be understood; empty: nothing
  StackIndex stacks{};
  std::vector<uint32_t> stack_numbers{};  // by StackId
  std::vector<DeviceIndex> devices{};     // those that it says something of; never empty
  std::vector<bool> has_history{};        // by device, as listed in `devices`
};

// Fills in what the file does not tell and what the documents need. A device without a history
// gets one entry, so that what it held has a moment. Its second owners are the documents made of
// it: the last of them ends it.
std::shared_ptr<const Recording> make_recording(std::string name, Snapshot snapshot);

}  // namespace ashlar::view
