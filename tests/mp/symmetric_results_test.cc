// The rows of the acceptance checklist that are about results: of collectives with real processes,
// at offsets, bit by bit, and of calls that are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include "mp/symmetric_rank.h"

namespace ashlar::symm {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;

constexpr size_t kBytes = size_t{64} * 1024;
constexpr uint8_t kGuardByte = 0xA5;
constexpr std::byte kGuard{kGuardByte};
const Reduction kSumOfI32{ElementType::kI32, ReduceOp::kSum};

bool is_guard(std::span<const std::byte> bytes) {
  static const std::vector<std::byte> guard(kBytes, kGuard);
  return std::memcmp(bytes.data(), guard.data(), bytes.size()) == 0;
}

// One collective on memory from `begin` on: every word is the rank + 1 before.
struct Trial {
  SymmetricRank& own;
  const Handle& handle;  // at the offset
  size_t begin = 0;

  int rank() const { return handle.rank(); }
  int count() const { return handle.world_size(); }
  int sum() const { return count() * (count() + 1) / 2; }
  std::span<int32_t> words() const { return handle.view<int32_t>(rank(), 64); }
  CollectiveOptions to(void* out) const {
    return {.offset_bytes = 0, .out = out, .timeout = kPatience};
  }

  // Empty, or `name` if `collective` does not leave all before `begin` and behind `bytes` as it
  // was.
  template <typename Collective>
  std::string run(const char* name, size_t bytes, const Collective& collective) const {
    std::memset(own.buffer.data(), int{kGuardByte}, kBytes);
    std::ranges::fill(words(), rank() + 1);
    std::memset(own.buffer.data() + begin + bytes, int{kGuardByte}, kBytes - begin - bytes);
    handle.barrier(0, kPatience);
    const bool is_right = collective();
    handle.barrier(0, kPatience);
    const auto all = own.buffer.as<std::byte>();
    if (!is_guard(all.first(begin))) return text(name, ": written before");
    if (!is_guard(all.subspan(begin + bytes))) return text(name, ": written behind");
    return is_right ? "" : text(name, ": another result");
  }
};

bool all_are(std::span<const int32_t> words, int32_t value) {
  return std::ranges::all_of(words, [value](int32_t each) { return each == value; });
}

bool count_up(std::span<const int32_t> words, int first) {
  for (const int32_t each : words) {
    if (each != first++) return false;
  }
  return true;
}

std::string try_reducing(const Trial& trial) {
  const Handle& handle = trial.handle;
  std::vector<int32_t> out(10);
  const auto words = trial.words().first(10);
  std::string wrong = trial.run("one-shot", 40, [&] {
    handle.one_shot_all_reduce(10, kSumOfI32, trial.to(nullptr));
    return all_are(words, trial.sum());
  });
  wrong += trial.run("two-shot", 40, [&] {
    handle.two_shot_all_reduce(10, kSumOfI32, trial.to(nullptr));
    return all_are(words, trial.sum());
  });
  wrong += trial.run("two-shot to elsewhere", 40, [&] {
    handle.two_shot_all_reduce(10, kSumOfI32, trial.to(out.data()));
    return all_are(out, trial.sum()) && all_are(words, trial.rank() + 1);
  });
  out.resize(3);
  wrong += trial.run("reduce-scatter", 12 * static_cast<size_t>(trial.count()), [&] {
    handle.reduce_scatter(3, kSumOfI32, trial.to(out.data()));
    return all_are(out, trial.sum());
  });
  return wrong;
}

std::string try_moving(const Trial& trial) {
  const Handle& handle = trial.handle;
  const int next = (trial.rank() + 1) % trial.count();
  const auto ranks = static_cast<size_t>(trial.count());
  const int32_t mine = 70 + trial.rank();
  std::vector<int32_t> out(ranks);
  std::string wrong = trial.run("all-gather", 4 * ranks, [&] {
    handle.all_gather(&mine, 4, trial.to(nullptr));
    return count_up(trial.words().first(ranks), 70);
  });
  wrong += trial.run("broadcast", 20, [&] {
    handle.broadcast(20, trial.count() - 1, trial.to(nullptr));
    return all_are(trial.words().first(5), trial.count());
  });
  wrong += trial.run("all-to-all", 4 * ranks, [&] {
    handle.all_to_all(4, trial.to(out.data()));
    return count_up(out, 1);
  });
  std::ranges::fill(out, 0);
  const std::vector<int64_t> splits(ranks, 1);
  std::vector<int64_t> out_splits(ranks);
  std::vector<int64_t> out_offsets(ranks);
  wrong += trial.run("all-to-all-v", 4 * ranks, [&] {
    const RowExchange rows{4, splits, int64_t{4} * trial.count(), out_splits, out_offsets};
    handle.all_to_all_v(rows, trial.to(out.data()));
    return count_up(out, 1);
  });
  wrong += trial.run("put and get", 4, [&] {
    handle.put(next, std::as_bytes(std::span(&mine, 1)));
    handle.barrier(1, kPatience);
    int32_t got = 0;
    handle.get(next, std::as_writable_bytes(std::span(&got, 1)));
    return got == mine;
  });
  return wrong;
}

TEST_P(SymmetricMemory, Row06InteriorPointersGiveHandlesWhoseOffsetAllOperationsHonour) {
  Ranks ranks(GetParam(), with_memory(kBytes, [](SymmetricRank& own) -> std::string {
                for (const size_t begin : {size_t{4}, size_t{1000}, kBytes - 256}) {
                  const Handle inside = own.group.rendezvous(own.buffer.data() + begin, kPatience);
                  if (inside.offset() != begin) return "another offset";
                  if (std::string wrong =
                          try_reducing({own, inside, begin}) + try_moving({own, inside, begin});
                      !wrong.empty())
                    return wrong;
                  if (thrown_by([&] { inside.view<std::byte>(0, 257, kBytes - begin - 256); }) ==
                      "nothing") {
                    return "a view beyond the end";
                  }
                }
                return {};
              }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

// Numbers whose sum depends on the order in which they are added.
void fill_with_numbers(std::span<std::byte> bytes, ElementType type, int rank) {
  std::mt19937 random(static_cast<uint32_t>(rank) * 977 + static_cast<uint32_t>(type));
  for (size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    auto word = static_cast<uint32_t>(random());
    // Halves and wholes alike: no infinities, no NaN.
    word &= type == ElementType::kF16 ? 0xBBFFBBFFU : 0xBFFFBFFFU;
    std::memcpy(&bytes[at], &word, 4);
  }
}

TEST_P(SymmetricMemory, Row12ResultsAreBitwiseIdenticalAndGuardBytesUntouched) {
  struct Reach {
    size_t offset = 0;
    size_t bytes = 0;
  };
  const auto reduce_and_compare = [](SymmetricRank& own, ElementType type,
                                     const Reach& reach) -> std::string {
    const auto all = own.buffer.as<std::byte>();
    for (const bool is_one_shot : {true, false}) {
      std::memset(all.data(), int{kGuardByte}, all.size());
      fill_with_numbers(all.subspan(reach.offset, reach.bytes), type, own.handle.rank());
      own.handle.barrier(0, kPatience);
      const auto count = static_cast<int64_t>(reach.bytes / element_bytes(type));
      const CollectiveOptions at{static_cast<int64_t>(reach.offset), nullptr, kPatience};
      if (is_one_shot) own.handle.one_shot_all_reduce(count, {type, ReduceOp::kSum}, at);
      if (!is_one_shot) own.handle.two_shot_all_reduce(count, {type, ReduceOp::kSum}, at);
      own.handle.barrier(0, kPatience);
      for (int rank = 0; rank < own.handle.world_size(); ++rank) {
        const auto theirs = own.handle.view<std::byte>(rank, static_cast<int64_t>(kBytes));
        if (std::memcmp(all.data(), theirs.data(), kBytes) != 0) {
          return text("rank ", rank, " has other bits");
        }
      }
      if (!is_guard(all.first(reach.offset)) ||
          !is_guard(all.subspan(reach.offset + reach.bytes))) {
        return "guard bytes were written";
      }
      own.handle.barrier(0, kPatience);
    }
    return {};
  };
  Ranks ranks(
      GetParam(), with_memory(kBytes, [&](SymmetricRank& own) -> std::string {
        for (const ElementType type : {ElementType::kF32, ElementType::kBf16, ElementType::kF16}) {
          for (const Reach reach : {Reach{4, 4}, {8, 100}, {16, 4096}, {4, 60'000}}) {
            std::string wrong = reduce_and_compare(own, type, reach);
            if (!wrong.empty()) return text(name(type), ": ", wrong);
          }
        }
        return {};
      }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

CollectiveOptions at(int64_t offset_bytes, void* out = nullptr) {
  return {offset_bytes, out, kPatience};
}

// What is not refused as it should be.
std::string not_refused(std::span<const std::function<void()>> mistakes) {
  for (size_t i = 0; i < mistakes.size(); ++i) {
    const std::string said = thrown_by(mistakes[i]);
    if (said.find("usage error") != 0) return text("mistake ", i, ": ", said);
  }
  return {};
}

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

std::string mistakes_in_collectives(SymmetricRank& own) {
  const Handle& handle = own.handle;
  std::vector<std::byte> out(64);
  const std::vector<int64_t> negative{1, -1, 1};
  std::vector<int64_t> heard(3);
  const std::function<void()> mistakes[] = {
      [&] { handle.all_reduce(kBytes / 4 + 1, kSumOfI32); },
      [&] { handle.all_reduce(-1, kSumOfI32); },
      [&] { handle.all_reduce(kMost, kSumOfI32); },
      [&] { handle.all_reduce(1, kSumOfI32, at(-4)); },
      [&] { handle.all_reduce(1, kSumOfI32, at(kMost - 3)); },
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
      [&] { handle.reduce_scatter(kBytes / 4 / 3 + 1, kSumOfI32, at(0, out.data())); },
      [&] { handle.reduce_scatter(1, kSumOfI32, at(0)); },
      [&] { handle.all_gather(out.data(), kBytes / 3 + 1); },
      [&] { handle.all_gather(out.data(), kMost / 2); },
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
  return not_refused(mistakes);
}

std::string mistakes_of_one_rank(SymmetricRank& own) {
  const Handle& handle = own.handle;
  std::vector<std::byte> out(64);
  const std::function<void()> mistakes[] = {
      [&] { handle.put(3, out); },
      [&] { handle.put(0, out, -1); },
      [&] { handle.get(0, out, kBytes - 63); },
      [&] { handle.get(0, out, kMost); },
      [&] { handle.put_signal(3); },
      [&] { handle.put_signal(1, 32); },
      [&] { handle.wait_signal(-1); },
      [&] { handle.barrier(-1); },
      [&] { handle.barrier(32); },
      [&] { (void)handle.view<int>(0, 1, -1); },
      [&] { (void)handle.view<int>(0, kMost / 2); },
      [&] { (void)handle.view<int>(0, 1, kMost / 4); },
      [&] { (void)handle.signal_pad(0, 1, -1); },
  };
  return not_refused(mistakes);
}

// One rank makes all the mistakes: nobody else notices, and all go on.
TEST(SymmetricMemory, Row13MistakesAreRefusedBeforeAnythingIsToldToAnybody) {
  Ranks ranks(3, with_memory(kBytes, [](SymmetricRank& own) -> std::string {
                const auto words = own.buffer.as<int32_t>();
                words[0] = own.handle.rank() + 1;
                words[1] = 5;
                std::string wrong;
                if (own.handle.rank() == 1) {
                  wrong = mistakes_in_collectives(own) + mistakes_of_one_rank(own);
                }
                own.handle.all_reduce(1, kSumOfI32, at(0));
                if (words[0] != 6 || words[1] != 5) return "another sum";
                return wrong;
              }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

TEST(SymmetricMemory, Row13RanksThatCallDifferentThingsAllFindOutAndGoOn) {
  Ranks ranks(3, with_memory(kBytes, [](SymmetricRank& own) -> std::string {
                const int64_t count = own.handle.rank() == 2 ? 5 : 4;
                const std::string said = thrown_by([&] {
                  own.handle.one_shot_all_reduce(count, kSumOfI32, {0, nullptr, kPatience});
                });
                if (said.find("rank 2") == std::string::npos) return "instead: " + said;
                own.buffer.as<int32_t>()[0] = 2;
                own.handle.all_reduce(1, kSumOfI32, {0, nullptr, kPatience});
                return own.buffer.as<int32_t>()[0] == 6 ? "" : "another sum";
              }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

TEST(SymmetricMemory, Row18WhatIsNotSupportedIsRefusedAndNotIgnored) {
  Ranks ranks(1, with_memory(kBytes, [](SymmetricRank& own) -> std::string {
                float in = 1;
                const std::function<void()> unsupported[] = {
                    [&] {
                      own.handle.all_reduce(1, {ElementType::kBf16, ReduceOp::kXor});
                    },
                    [&] {
                      own.handle.all_gather(&in, 4, {0, &in, kPatience});
                    },
                    [&] { own.handle.all_to_all(4, {}); },
                    [&] { const Heap heap({.backend = "cuda"}); },
                };
                for (const auto& act : unsupported) {
                  if (thrown_by(act) == "nothing") return "was ignored";
                }
                return {};
              }));
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

}  // namespace
}  // namespace ashlar::symm
