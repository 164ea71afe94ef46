// SPDX-License-Identifier: Apache-2.0
//
// Checks of multimem operations on any device with multicast. The functions return an error
// description, or an empty string on success.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "mp/harness/device_rank.h"

namespace ashlar::symm {

// Collective. Runs out-of-place reductions and puts, at aligned and unaligned offsets, with and
// without a stream, and checks results and guard bytes.
std::string run_multimem_program(DeviceRank& own);
// Collective. Each rank in turn puts a range of `bytes` bytes at `offset` of every rank's memory.
std::string check_multimem_put(DeviceRank& own, int64_t offset, size_t bytes,
                               std::optional<StreamId> stream);
// An out-of-place reduction of the memory at `offset`. The output is `shift` bytes after an aligned
// address. With a root, only the root gets the result.
struct MultimemCase {
  std::optional<int> root{};
  int64_t offset = 0;
  size_t shift = 0;
  std::optional<StreamId> stream{};
  Reduction what{ElementType::kI32, ReduceOp::kSum};
};
std::string check_multimem_to_out(DeviceRank& own, const MultimemCase& test_case);

// Called by rank 1 only. Invalid arguments must be rejected before anything is launched.
std::string check_multimem_invalid_arguments(DeviceRank& own);

}  // namespace ashlar::symm
