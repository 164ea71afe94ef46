// SPDX-License-Identifier: Apache-2.0
//
// Random exchanges of rows between ranks with several experts, compared with a simple model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ashlar/device.h"
#include "mp/harness/device_rank.h"

namespace ashlar::symm {

// The memory of one rank, on the host or on a device. Both buffers have at least 64 KiB.
struct ExpertMemory {
  Group& group;
  const Handle& handle;          // the rows to send and the splits
  const SymmetricBuffer& other;  // receives rows, splits and offsets
  const Handle& other_handle;
  Device* device = nullptr;  // null: host memory
};

ExpertMemory expert_memory(DeviceRank& own);

// The functions below return an error description, or an empty string on success.

// Collective. Runs random dispatches and combines: all orders, sizes of rows, alignments and kinds
// of routing, with and without a stream.
std::string check_expert_exchanges(const ExpertMemory& own, uint64_t count);
// Collective. Sends rows to experts and back.
std::string check_round_trip(const ExpertMemory& own);
// Collective over at least 2 ranks. Ranks with invalid splits, small outputs or other arguments.
std::string check_expert_errors(const ExpertMemory& own);
// Collective. REQUIRES: device memory. Launches one graph with different splits and rows.
std::string check_expert_graph(const ExpertMemory& own);

}  // namespace ashlar::symm
