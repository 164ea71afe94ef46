// SPDX-License-Identifier: Apache-2.0
//
// One rank of symmetric memory, as a user's program has it, for tests with real processes.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>

#include "ashlar/errors.h"
#include "ashlar/symmetric.h"
#include "mp/ranks.h"

namespace ashlar::symm {

// What tests of ranks are written with.
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// No wait in a test that goes well comes near it.
inline constexpr std::chrono::seconds kPatience{60};

struct SymmetricRank {
  SymmetricRank(const BareRank& own, size_t bytes, const HeapOptions& options = heap_options())
      : SymmetricRank(own, bytes, options, group_options(own)) {}
  SymmetricRank(const BareRank& own, size_t bytes, const HeapOptions& heap_options,
                const GroupOptions& group_options);

  static HeapOptions heap_options();
  static GroupOptions group_options(const BareRank& own);

  Heap heap;
  Group group;
  Buffer buffer;
  Handle handle;
};

// Every rank joins, runs `body` with `bytes` of symmetric memory, and leaves. What each says in the
// end: nothing, when all went well.
using SymmetricBody = std::function<std::string(SymmetricRank& own)>;
BareBody with_memory(size_t bytes, const SymmetricBody& body);

// The parameter is the number of ranks; rows that need a certain one are plain tests.
class SymmetricMemory : public ::testing::TestWithParam<int> {};

// What `act` throws, in words; "nothing" if it does not.
std::string thrown_by(const std::function<void()>& act);
// By a InvalidArgument, and nothing else.
bool is_refused(const std::function<void()>& act);

}  // namespace ashlar::symm
