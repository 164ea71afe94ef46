// SPDX-License-Identifier: Apache-2.0
//
// Results of collectives in several processes: offsets, bitwise equality, and argument checks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "mp/harness/symmetric_program.h"
#include "mp/harness/symmetric_rank.h"

namespace ashlar::symm {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;

const Reduction kSumOfI32{ElementType::kI32, ReduceOp::kSum};

TEST_P(SymmetricMemory, HonoursOffsetsOfInteriorPointers) {
  RankProcesses ranks(
      GetParam(), with_memory(kProgramBytes, [](SymmetricRank& own) -> std::string {
        for (const size_t begin : {size_t{4}, size_t{1000}, kProgramBytes - 256}) {
          const Handle inside = own.group.rendezvous(own.buffer.data() + begin, kTestTimeout);
          if (inside.offset() != begin) return "wrong offset";
          const std::string wrong = check_collectives(own, inside);
          if (!wrong.empty()) return wrong;
          if (error_message([&] { inside.view<std::byte>(0, 257, kProgramBytes - begin - 256); }) ==
              "nothing") {
            return "view beyond the end";
          }
        }
        return {};
      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST_P(SymmetricMemory, ResultsAreBitwiseEqualOnAllRanks) {
  RankProcesses ranks(GetParam(), with_memory(kProgramBytes, check_reduction_bits));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

CollectiveOptions at(int64_t offset_bytes, void* out = nullptr) {
  return {offset_bytes, out, kTestTimeout};
}

// Describes the calls that do not throw InvalidArgument.
std::string accepted_calls(std::span<const std::function<void()>> invalid_calls) {
  std::string wrong;
  for (size_t i = 0; i < invalid_calls.size(); ++i) {
    if (!throws_invalid_argument(invalid_calls[i]))
      wrong += text("invalid call ", i, ": ", error_message(invalid_calls[i]), "; ");
  }
  return wrong;
}

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

std::string check_collective_arguments(SymmetricRank& own) {
  const Handle& handle = own.handle;
  std::vector<std::byte> out(64);
  const std::vector<int64_t> negative{1, -1, 1};
  std::vector<int64_t> heard(3);
  const std::function<void()> invalid_calls[] = {
      [&] { handle.all_reduce(kProgramBytes / 4 + 1, kSumOfI32); },
      [&] { handle.all_reduce(-1, kSumOfI32); },
      [&] { handle.all_reduce(kMax, kSumOfI32); },
      [&] { handle.all_reduce(1, kSumOfI32, at(-4)); },
      [&] { handle.all_reduce(1, kSumOfI32, at(kMax - 3)); },
      [&] { handle.all_reduce(1, kSumOfI32, at(2)); },
      [&] { handle.all_reduce(1, kSumOfI32, at(0, out.data() + 1)); },
      [&] { handle.all_reduce(1, kSumOfI32, at(0, own.buffer.data())); },
      [&] {
        handle.all_reduce(1, {ElementType::kF32, ReduceOp::kAnd});
      },
      [&] { handle.all_reduce(1, {static_cast<ElementType>(12)}); },
      [&] {
        handle.all_reduce(1, {ElementType::kI32, static_cast<ReduceOp>(-1)});
      },
      [&] { handle.reduce(1, 3, kSumOfI32, at(0, out.data())); },
      [&] { handle.reduce(1, -1, kSumOfI32, at(0, out.data())); },
      [&] { handle.reduce(1, 1, kSumOfI32, at(0)); },
      [&] { handle.reduce(1, 1, kSumOfI32, at(0, out.data() + 1)); },
      [&] { handle.reduce(1, 1, kSumOfI32, at(0, own.buffer.data())); },
      [&] { handle.reduce(-1, 1, kSumOfI32, at(0, out.data())); },
      [&] { handle.reduce(kMax, 1, kSumOfI32, at(0, out.data())); },
      [&] { handle.reduce(1, 1, kSumOfI32, at(kProgramBytes, out.data())); },
      [&] { handle.reduce_scatter(kProgramBytes / 4 / 3 + 1, kSumOfI32, at(0, out.data())); },
      [&] { handle.reduce_scatter(1, kSumOfI32, at(0)); },
      [&] { handle.all_gather(out.data(), kProgramBytes / 3 + 1); },
      [&] { handle.all_gather(out.data(), kMax / 2); },
      [&] { handle.broadcast(4, 3); },
      [&] { handle.broadcast(4, -1); },
      [&] { handle.all_to_all(-8, at(0, out.data())); },
      [&] {
        handle.all_to_all_v({4, negative, 64, heard, heard}, at(0, out.data()));
      },
      [&] {
        handle.all_to_all_v({0, heard, 64, heard, heard}, at(0, out.data()));
      },
  };
  return accepted_calls(invalid_calls);
}

std::string check_local_arguments(SymmetricRank& own) {
  const Handle& handle = own.handle;
  const Handle odd = own.group.rendezvous(own.buffer.data() + 2, kTestTimeout);
  std::vector<std::byte> out(64);
  const std::function<void()> invalid_calls[] = {
      [&] { handle.put(3, out); },
      [&] { handle.put(0, out, -1); },
      [&] { handle.get(0, out, kProgramBytes - 63); },
      [&] { handle.get(0, out, kMax); },
      [&] { handle.store_words(3, {}); },
      [&] { handle.store_words(-1, {}); },
      [&] { handle.store_words(0, {.count = 0}); },
      [&] { handle.store_words(0, {.count = -1}); },
      [&] { handle.store_words(0, {.count = kMax}); },
      [&] { handle.store_words(0, {.count = kProgramBytes / 4 + 1}); },
      [&] { handle.store_words(0, {.offset = -1}); },
      [&] { handle.store_words(0, {.offset = kProgramBytes / 4}); },
      [&] { handle.store_words(0, {.offset = kMax}); },
      [&] { handle.store_words(0, {.offset = kMax / 4}); },
      [&] { handle.store_words(3, {.memory = WordFill::Memory::kSignalPad}); },
      [&] { handle.store_words(0, {.memory = WordFill::Memory::kSignalPad, .offset = 9216 / 4}); },
      [&] {
        handle.store_words(
            0, {.memory = WordFill::Memory::kSignalPad, .offset = 9215 / 4, .count = 2});
      },
      [&] { handle.store_words(0, {.memory = WordFill::Memory::kSignalPad, .offset = -1}); },
      [&] { odd.store_words(0, {}); },
      [&] { (void)handle.global_rank(3); },
      [&] { (void)handle.global_rank(-1); },
      [&] { (void)own.group.global_rank(3); },
      [&] { handle.put_signal(3); },
      [&] { handle.put_signal(1, 32); },
      [&] { handle.wait_signal(-1); },
      [&] { handle.barrier(-1); },
      [&] { handle.barrier(32); },
      [&] { (void)handle.view<int>(0, 1, -1); },
      [&] { (void)handle.view<int>(0, kMax / 2); },
      [&] { (void)handle.view<int>(0, 1, kMax / 4); },
      [&] { (void)handle.signal_pad(0, 1, -1); },
  };
  return accepted_calls(invalid_calls);
}

// One rank makes the invalid calls; the other ranks are unaffected.
TEST(SymmetricMemory, ChecksArgumentsBeforeCommunicating) {
  RankProcesses ranks(3, with_memory(kProgramBytes, [](SymmetricRank& own) -> std::string {
                        const auto words = own.buffer.as<int32_t>();
                        words[0] = own.handle.rank() + 1;
                        words[1] = 5;
                        std::string wrong;
                        if (own.handle.rank() == 1) {
                          wrong = check_collective_arguments(own) + check_local_arguments(own);
                        }
                        own.handle.all_reduce(1, kSumOfI32, at(0));
                        if (words[0] != 6 || words[1] != 5) return "wrong sum";
                        return wrong;
                      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST(SymmetricMemory, MismatchedCallsFailOnAllRanks) {
  RankProcesses ranks(
      3, with_memory(kProgramBytes, [](SymmetricRank& own) -> std::string {
        const int64_t count = own.handle.rank() == 2 ? 5 : 4;
        const std::string message = error_message([&] {
          own.handle.one_shot_all_reduce(count, kSumOfI32, {0, nullptr, kTestTimeout});
        });
        if (message.find("rank 2") == std::string::npos) return "unexpected: " + message;
        own.buffer.as<int32_t>()[0] = 2;
        own.handle.all_reduce(1, kSumOfI32, {0, nullptr, kTestTimeout});
        return own.buffer.as<int32_t>()[0] == 6 ? "" : "wrong sum";
      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

TEST(SymmetricMemory, RejectsUnsupportedOptions) {
  RankProcesses ranks(1, with_memory(kProgramBytes, [](SymmetricRank& own) -> std::string {
                        float in = 1;
                        const std::function<void()> unsupported[] = {
                            [&] {
                              own.handle.all_reduce(1, {ElementType::kBf16, ReduceOp::kXor});
                            },
                            [&] {
                              own.handle.all_gather(&in, 4, {0, &in, kTestTimeout});
                            },
                            [&] { own.handle.all_to_all(4, {}); },
                            [&] {
                              own.handle.multimem_all_reduce(1, {}, {0, &in, kTestTimeout});
                            },
                            [&] {
                              own.handle.multimem_reduce(1, 0, {}, {0, &in, kTestTimeout});
                            },
                            [&] { own.handle.multimem_put(std::as_bytes(std::span(&in, 1))); },
                            [&] { own.handle.store_words(0, {}, kDefaultStream); },
                            [&] { const Heap heap({.backend = "cuda"}); },
                        };
                        return accepted_calls(unsupported);
                      }));
  EXPECT_THAT(ranks.results(), Each(IsEmpty()));
}

}  // namespace
}  // namespace ashlar::symm
