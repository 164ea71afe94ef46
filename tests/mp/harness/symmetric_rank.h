// SPDX-License-Identifier: Apache-2.0
//
// One rank that uses the public API of symmetric memory, for multi-process tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "ashlar/errors.h"
#include "ashlar/symmetric.h"
#include "mp/harness/ranks.h"

namespace ashlar::symm {

// Names that most of these tests use.
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A timeout that never expires in a passing test.
inline constexpr std::chrono::seconds kTestTimeout{60};
inline constexpr Reduction kSumOfInt{ElementType::kI32, ReduceOp::kSum};

struct SymmetricRank {
  SymmetricRank(const RankSpec& own, size_t bytes, const HeapOptions& options = heap_options())
      : SymmetricRank(own, bytes, options, group_options(own)) {}
  SymmetricRank(const RankSpec& own, size_t bytes, const HeapOptions& heap_options,
                const GroupOptions& group_options);

  static HeapOptions heap_options();
  static GroupOptions group_options(const RankSpec& own);

  Heap heap;
  Group group;
  SymmetricBuffer buffer;
  Handle handle;
};

// A rank's function. Returns an error description, or an empty string on success.
using SymmetricBody = std::function<std::string(SymmetricRank& own)>;
// Every rank joins, runs `body` with `bytes` of symmetric memory, and leaves unless `body` returns
// an error.
RankMain with_memory(size_t bytes, const SymmetricBody& body);

// The parameter is the number of ranks. Tests that need a certain number of ranks use TEST instead.
class SymmetricMemory : public ::testing::TestWithParam<int> {};

// Returns the message of the Error that `operation` throws, or "nothing" if it throws no Error.
std::string error_message(const std::function<void()>& operation);
// Repeats `operation` while it times out with a message that does not contain `expected`, for at
// most kTestTimeout. Returns the last message. Used for timeouts that name the missing ranks: on a
// loaded machine, the first messages may also name ranks that are not delayed on purpose.
std::string error_message_naming(std::string_view expected, const std::function<void()>& operation);
// Returns whether `operation` throws InvalidArgument.
bool throws_invalid_argument(const std::function<void()>& operation);

}  // namespace ashlar::symm
