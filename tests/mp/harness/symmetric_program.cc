// SPDX-License-Identifier: Apache-2.0
//
// Implements the checks. Guard bytes detect writes outside the expected range.
#include "mp/harness/symmetric_program.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "symm/collectives/collective_context.h"

namespace ashlar::symm {
namespace {

constexpr uint8_t kGuardByte = 0xA5;

bool is_guard(std::span<const std::byte> bytes) {
  static const std::vector<std::byte> guard(kProgramBytes, std::byte{kGuardByte});
  return std::memcmp(bytes.data(), guard.data(), bytes.size()) == 0;
}

// A check of collectives on the part of the rank's buffer that starts at `begin`. Before each
// collective, every word of the collective's range contains rank + 1, and all other bytes are
// guards.
struct CollectiveCheck {
  SymmetricRank& own;
  const Handle& handle;  // handle of the part that starts at `begin`
  size_t begin = 0;

  int rank() const { return handle.rank(); }
  int world_size() const { return handle.world_size(); }
  int sum() const { return world_size() * (world_size() + 1) / 2; }
  std::span<int32_t> words() const { return handle.view<int32_t>(rank(), 64); }
  CollectiveOptions to(void* out) const {
    return {.offset_bytes = 0, .out = out, .timeout = kTestTimeout};
  }

  // Returns an error if `collective` returns false or writes outside [begin, begin + bytes).
  template <typename Collective>
  std::string run(const char* name, size_t bytes, const Collective& collective) const {
    std::memset(own.buffer.data(), int{kGuardByte}, kProgramBytes);
    std::ranges::fill(words(), rank() + 1);
    std::memset(own.buffer.data() + begin + bytes, int{kGuardByte}, kProgramBytes - begin - bytes);
    handle.barrier(0, kTestTimeout);
    const bool is_right = collective();
    handle.barrier(0, kTestTimeout);
    const auto all = own.buffer.as<std::byte>();
    if (!is_guard(all.first(begin))) return text(name, ": wrote before its range");
    if (!is_guard(all.subspan(begin + bytes))) return text(name, ": wrote after its range");
    return is_right ? "" : text(name, ": wrong result");
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

std::string check_reductions(const CollectiveCheck& check) {
  const Handle& handle = check.handle;
  std::vector<int32_t> out(10);
  const auto words = check.words().first(10);
  std::string wrong = check.run("one-shot", 40, [&] {
    handle.one_shot_all_reduce(10, kSumOfInt, check.to(nullptr));
    return all_are(words, check.sum());
  });
  wrong += check.run("two-shot", 40, [&] {
    handle.two_shot_all_reduce(10, kSumOfInt, check.to(nullptr));
    return all_are(words, check.sum());
  });
  wrong += check.run("two-shot out of place", 40, [&] {
    handle.two_shot_all_reduce(10, kSumOfInt, check.to(out.data()));
    return all_are(out, check.sum()) && all_are(words, check.rank() + 1);
  });
  std::ranges::fill(out, -1);
  const int root = check.world_size() - 1;
  wrong += check.run("reduce", 40, [&] {
    handle.reduce(10, root, kSumOfInt, check.to(out.data()));
    const int expected = check.rank() == root ? check.sum() : -1;
    return all_are(out, expected) && all_are(words, check.rank() + 1);
  });
  out.resize(3);
  wrong += check.run("reduce-scatter", 12 * static_cast<size_t>(check.world_size()), [&] {
    handle.reduce_scatter(3, kSumOfInt, check.to(out.data()));
    return all_are(out, check.sum());
  });
  return wrong;
}

// Stores to the last two words of the next rank's pad. Checks the last two words of this rank's
// pad, and that the word before them is unchanged.
std::string check_pad_words(const Handle& handle) {
  const int count = handle.world_size();
  const int before = (handle.rank() + count - 1) % count;
  const auto pad = handle.signal_pad(handle.rank());
  const auto last = static_cast<int64_t>(pad.size()) - 2;
  for (const uint32_t value : {uint32_t{7}, uint32_t{0}}) {
    const uint32_t mine = value == 0 ? 0 : value + static_cast<uint32_t>(handle.rank());
    handle.store_words(
        (handle.rank() + 1) % count,
        {.memory = WordFill::Memory::kSignalPad, .offset = last, .count = 2, .value = mine});
    handle.barrier(1, kTestTimeout);
    const uint32_t expected = value == 0 ? 0 : value + static_cast<uint32_t>(before);
    if (pad[pad.size() - 2] != expected || pad.back() != expected) return "stored pad; ";
    if (pad[pad.size() - 3] != 0) return "stored before the range in the pad; ";
    handle.barrier(1, kTestTimeout);
  }
  return {};
}

std::string check_data_movement(const CollectiveCheck& check) {
  const Handle& handle = check.handle;
  const int next = (check.rank() + 1) % check.world_size();
  const auto ranks = static_cast<size_t>(check.world_size());
  const int32_t mine = 70 + check.rank();
  std::vector<int32_t> out(ranks);
  std::string wrong = check.run("all-gather", 4 * ranks, [&] {
    handle.all_gather(&mine, 4, check.to(nullptr));
    return count_up(check.words().first(ranks), 70);
  });
  wrong += check.run("broadcast", 20, [&] {
    handle.broadcast(20, check.world_size() - 1, check.to(nullptr));
    return all_are(check.words().first(5), check.world_size());
  });
  wrong += check.run("all-to-all", 4 * ranks, [&] {
    handle.all_to_all(4, check.to(out.data()));
    return count_up(out, 1);
  });
  std::ranges::fill(out, 0);
  const std::vector<int64_t> splits(ranks, 1);
  std::vector<int64_t> out_splits(ranks);
  std::vector<int64_t> out_offsets(ranks);
  wrong += check.run("all-to-all-v", 4 * ranks, [&] {
    const RowExchange rows{4, splits, int64_t{4} * check.world_size(), out_splits, out_offsets};
    handle.all_to_all_v(rows, check.to(out.data()));
    return count_up(out, 1);
  });
  wrong += check.run("put and get", 4, [&] {
    handle.put(next, std::as_bytes(std::span(&mine, 1)));
    handle.barrier(1, kTestTimeout);
    int32_t got = 0;
    handle.get(next, std::as_writable_bytes(std::span(&got, 1)));
    return got == mine;
  });
  wrong += check.run("stored words", 20, [&] {
    handle.store_words(next, {.offset = 2, .count = 3, .value = static_cast<uint32_t>(mine)});
    handle.barrier(1, kTestTimeout);
    const int before = (check.rank() + check.world_size() - 1) % check.world_size();
    return all_are(check.words().subspan(2, 3), 70 + before) &&
           all_are(check.words().first(2), check.rank() + 1);
  });
  return wrong + check_pad_words(handle);
}

// Fills `bytes` with numbers whose sum depends on the order in which they are added.
void fill_with_numbers(std::span<std::byte> bytes, ElementType type, int rank) {
  std::mt19937 random(static_cast<uint32_t>(rank) * 977 + static_cast<uint32_t>(type));
  for (size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    auto word = static_cast<uint32_t>(random());
    // Clears exponent bits, so that neither 16-bit nor 32-bit values are infinite or NaN.
    word &= type == ElementType::kF16 ? 0xBBFFBBFFU : 0xBFFFBFFFU;
    std::memcpy(&bytes[at], &word, 4);
  }
}

// Computes the expected result: adds the elements of all ranks one after the other, in rank order.
void add_in_order(std::span<float> sums, int world_size) {
  std::vector<float> theirs(sums.size());
  for (int rank = 0; rank < world_size; ++rank) {
    fill_with_numbers(std::as_writable_bytes(std::span(theirs)), ElementType::kF32, rank);
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] = rank == 0 ? theirs[i] : sums[i] + theirs[i];
    }
  }
}

std::string reduce_and_compare(SymmetricRank& own, ElementType type, const ByteRange& range,
                               bool is_one_shot) {
  const auto all = own.buffer.as<std::byte>();
  const auto reduced = all.subspan(range.begin_bytes, range.bytes);
  std::memset(all.data(), int{kGuardByte}, all.size());
  fill_with_numbers(reduced, type, own.handle.rank());
  own.handle.barrier(0, kTestTimeout);
  const auto count = static_cast<int64_t>(range.bytes / element_bytes(type));
  const CollectiveOptions at{static_cast<int64_t>(range.begin_bytes), nullptr, kTestTimeout};
  if (is_one_shot) own.handle.one_shot_all_reduce(count, {type, ReduceOp::kSum}, at);
  if (!is_one_shot) own.handle.two_shot_all_reduce(count, {type, ReduceOp::kSum}, at);
  own.handle.barrier(0, kTestTimeout);
  std::vector<std::byte> theirs(all.size());
  for (int rank = 0; rank < own.handle.world_size(); ++rank) {
    own.handle.get(rank, theirs);
    if (std::memcmp(all.data(), theirs.data(), theirs.size()) != 0) {
      return text("rank ", rank, " has different bits");
    }
  }
  if (!is_guard(all.first(range.begin_bytes)) ||
      !is_guard(all.subspan(range.begin_bytes + range.bytes))) {
    return "wrote guard bytes";
  }
  if (type == ElementType::kF32) {
    std::vector<float> expected(range.bytes / sizeof(float));
    add_in_order(expected, own.handle.world_size());
    if (std::memcmp(reduced.data(), expected.data(), range.bytes) != 0) return "wrong order";
  }
  own.handle.barrier(0, kTestTimeout);
  return {};
}

}  // namespace

std::string check_collectives(SymmetricRank& own, const Handle& handle) {
  // For a buffer of a pool, the handle's offset counts from the beginning of the segment.
  const std::byte* at = handle.buffer_ptrs()[handle.rank()] + handle.offset();
  const CollectiveCheck check{own, handle, static_cast<size_t>(at - own.buffer.data())};
  return check_reductions(check) + check_data_movement(check);
}

std::string check_reduction_bits(SymmetricRank& own) {
  for (const ElementType type : {ElementType::kF32, ElementType::kBf16, ElementType::kF16}) {
    for (const ByteRange range : {ByteRange{4, 4}, {8, 100}, {16, 4096}, {4, 60'000}}) {
      for (const bool is_one_shot : {true, false}) {
        const std::string wrong = reduce_and_compare(own, type, range, is_one_shot);
        if (!wrong.empty()) return text(name(type), ": ", wrong);
      }
    }
  }
  return {};
}

std::string check_signals(SymmetricRank& own) {
  const Handle& handle = own.handle;
  const int count = handle.world_size();
  const int next = (handle.rank() + 1) % count;
  const int before = (handle.rank() + count - 1) % count;
  const auto words = own.buffer.as<int>();
  for (int round = 1; round <= 40; ++round) {
    const int channel = round % 8;
    handle.put(next, std::as_bytes(std::span(&round, 1)), int64_t{4} * channel);
    handle.put_signal(next, channel, kTestTimeout);
    handle.wait_signal(before, channel, kTestTimeout);
    if (words[channel] != round) return text("signal ", round, " came before its data");
    if (channel == 7) handle.barrier(1, kTestTimeout);
  }
  // Every rank puts a word to every rank and adds to a counter of every rank.
  handle.barrier(0, kTestTimeout);
  const int mine = 100 + handle.rank();
  for (int rank = 0; rank < count; ++rank) {
    handle.put(rank, std::as_bytes(std::span(&mine, 1)), 4096 + 4 * handle.rank());
    handle.add_signal(rank, 2, 3);
    handle.add_signal(rank, 1, 3);
  }
  for (int rank = 0; rank < count; ++rank) {
    handle.wait_for_value(rank, 3, 3, kTestTimeout);
    if (words[1024 + rank] != 100 + rank) return text("rank ", rank, " counted before its data");
    if (handle.counter_value(rank, 3) != 3) return "wrong count";
  }
  // Data put before a barrier must be visible to every rank after it.
  for (int round = 0; round < 20; ++round) {
    handle.put(next, std::as_bytes(std::span(&round, 1)), 8192);
    handle.barrier(2, kTestTimeout);
    for (int rank = 0; rank < count; ++rank) {
      int theirs = -1;
      handle.get(rank, std::as_writable_bytes(std::span(&theirs, 1)), 8192);
      if (theirs != round) return text("barrier ", round, " came before the data of rank ", rank);
    }
    handle.barrier(2, kTestTimeout);
  }
  return {};
}

std::string check_atomics(SymmetricRank& own) {
  const Handle& handle = own.handle;
  const int count = handle.world_size();
  const auto ranks = static_cast<uint64_t>(count);
  constexpr uint64_t kTurns = 50;
  std::memset(own.buffer.data(), 0, 64);
  handle.barrier(0, kTestTimeout);
  // Every rank updates the words of every rank: sums, one bit per rank, and a compare-and-swap lock
  // that protects a counter, which is updated without atomics.
  for (int rank = 0; rank < count; ++rank) {
    for (uint64_t turn = 0; turn < kTurns; ++turn) {
      handle.post(rank, {.offset = 0, .operand = turn});
      handle.post(rank, {.word_bytes = WordBytes::k4, .offset = 8, .operand = 1});
      handle.fetch(rank, {.offset = 16, .operand = 2});
    }
    handle.post(rank,
                {.kind = AtomicKind::kOr, .offset = 24, .operand = uint64_t{1} << handle.rank()});
    while (handle.fetch(rank, {.kind = AtomicKind::kCompareAndSwap,
                               .word_bytes = WordBytes::k4,
                               .offset = 32,
                               .operand = 1}) != 0) {
      std::this_thread::yield();
    }
    uint64_t number = 0;
    handle.get(rank, std::as_writable_bytes(std::span(&number, 1)), 40);
    ++number;
    handle.post(rank, std::as_bytes(std::span(&number, 1)), 40);
    handle.fence();
    handle.fetch(rank, {.kind = AtomicKind::kSwap, .word_bytes = WordBytes::k4, .offset = 32});
  }
  handle.quiet();
  handle.barrier(0, kTestTimeout);
  const auto words = own.buffer.as<uint64_t>();
  if (words[0] != ranks * kTurns * (kTurns - 1) / 2) return text("posted sums are ", words[0]);
  if (words[1] != ranks * kTurns) return text("counts of 32 bits are ", words[1]);
  if (words[2] != ranks * kTurns * 2) return text("fetched sums are ", words[2]);
  if (words[3] != (uint64_t{1} << ranks) - 1) return text("bits are ", words[3]);
  if (words[5] != ranks) return text(words[5], " of ", ranks, " acquired the lock exclusively");
  handle.barrier(0, kTestTimeout);
  return {};
}

std::string run_program(SymmetricRank& own) {
  std::string wrong = check_signals(own) + check_atomics(own);
  for (const size_t begin : {size_t{0}, size_t{1000}}) {
    if (!wrong.empty()) return wrong;
    wrong = check_collectives(own, own.group.rendezvous(own.buffer.data() + begin, kTestTimeout));
  }
  return wrong.empty() ? check_reduction_bits(own) : wrong;
}

}  // namespace ashlar::symm
