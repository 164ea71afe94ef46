// SPDX-License-Identifier: Apache-2.0
//
// The program, part by part.
#include "mp/symmetric_program.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

namespace ashlar::symm {
namespace {

constexpr uint8_t kGuardByte = 0xA5;
const Reduction kSumOfInt{ElementType::kI32, ReduceOp::kSum};

bool is_guard(std::span<const std::byte> bytes) {
  static const std::vector<std::byte> guard(kProgramBytes, std::byte{kGuardByte});
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
    std::memset(own.buffer.data(), int{kGuardByte}, kProgramBytes);
    std::ranges::fill(words(), rank() + 1);
    std::memset(own.buffer.data() + begin + bytes, int{kGuardByte}, kProgramBytes - begin - bytes);
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
    handle.one_shot_all_reduce(10, kSumOfInt, trial.to(nullptr));
    return all_are(words, trial.sum());
  });
  wrong += trial.run("two-shot", 40, [&] {
    handle.two_shot_all_reduce(10, kSumOfInt, trial.to(nullptr));
    return all_are(words, trial.sum());
  });
  wrong += trial.run("two-shot to elsewhere", 40, [&] {
    handle.two_shot_all_reduce(10, kSumOfInt, trial.to(out.data()));
    return all_are(out, trial.sum()) && all_are(words, trial.rank() + 1);
  });
  std::ranges::fill(out, -1);
  const int root = trial.count() - 1;
  wrong += trial.run("reduce", 40, [&] {
    handle.reduce(10, root, kSumOfInt, trial.to(out.data()));
    const int expected = trial.rank() == root ? trial.sum() : -1;
    return all_are(out, expected) && all_are(words, trial.rank() + 1);
  });
  out.resize(3);
  wrong += trial.run("reduce-scatter", 12 * static_cast<size_t>(trial.count()), [&] {
    handle.reduce_scatter(3, kSumOfInt, trial.to(out.data()));
    return all_are(out, trial.sum());
  });
  return wrong;
}

// The last words of the next one's pad, and no others.
std::string try_words_of_pads(const Handle& handle) {
  const int count = handle.world_size();
  const int before = (handle.rank() + count - 1) % count;
  const auto pad = handle.signal_pad(handle.rank());
  const auto last = static_cast<int64_t>(pad.size()) - 2;
  for (const uint32_t value : {uint32_t{7}, uint32_t{0}}) {
    const uint32_t mine = value == 0 ? 0 : value + static_cast<uint32_t>(handle.rank());
    handle.store_words((handle.rank() + 1) % count,
                       {.of = WordFill::Of::kSignalPad, .offset = last, .count = 2, .value = mine});
    handle.barrier(1, kPatience);
    const uint32_t expected = value == 0 ? 0 : value + static_cast<uint32_t>(before);
    if (pad[pad.size() - 2] != expected || pad.back() != expected) return "stored pad; ";
    if (pad[pad.size() - 3] != 0) return "stored before, in the pad; ";
    handle.barrier(1, kPatience);
  }
  return {};
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
  wrong += trial.run("stored words", 20, [&] {
    handle.store_words(next, {.offset = 2, .count = 3, .value = static_cast<uint32_t>(mine)});
    handle.barrier(1, kPatience);
    const int before = (trial.rank() + trial.count() - 1) % trial.count();
    return all_are(trial.words().subspan(2, 3), 70 + before) &&
           all_are(trial.words().first(2), trial.rank() + 1);
  });
  return wrong + try_words_of_pads(handle);
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

struct Reach {
  size_t offset = 0;
  size_t bytes = 0;
};

// As it must come out: added one after the other, in rank order.
void add_in_order(std::span<float> sums, int world_size) {
  std::vector<float> theirs(sums.size());
  for (int rank = 0; rank < world_size; ++rank) {
    fill_with_numbers(std::as_writable_bytes(std::span(theirs)), ElementType::kF32, rank);
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] = rank == 0 ? theirs[i] : sums[i] + theirs[i];
    }
  }
}

std::string reduce_and_compare(SymmetricRank& own, ElementType type, const Reach& reach,
                               bool is_one_shot) {
  const auto all = own.buffer.as<std::byte>();
  const auto reduced = all.subspan(reach.offset, reach.bytes);
  std::memset(all.data(), int{kGuardByte}, all.size());
  fill_with_numbers(reduced, type, own.handle.rank());
  own.handle.barrier(0, kPatience);
  const auto count = static_cast<int64_t>(reach.bytes / element_bytes(type));
  const CollectiveOptions at{static_cast<int64_t>(reach.offset), nullptr, kPatience};
  if (is_one_shot) own.handle.one_shot_all_reduce(count, {type, ReduceOp::kSum}, at);
  if (!is_one_shot) own.handle.two_shot_all_reduce(count, {type, ReduceOp::kSum}, at);
  own.handle.barrier(0, kPatience);
  std::vector<std::byte> theirs(all.size());
  for (int rank = 0; rank < own.handle.world_size(); ++rank) {
    own.handle.get(rank, theirs);
    if (std::memcmp(all.data(), theirs.data(), theirs.size()) != 0) {
      return text("rank ", rank, " has other bits");
    }
  }
  if (!is_guard(all.first(reach.offset)) || !is_guard(all.subspan(reach.offset + reach.bytes))) {
    return "guard bytes were written";
  }
  if (type == ElementType::kF32) {
    std::vector<float> expected(reach.bytes / sizeof(float));
    add_in_order(expected, own.handle.world_size());
    if (std::memcmp(reduced.data(), expected.data(), reach.bytes) != 0) return "another order";
  }
  own.handle.barrier(0, kPatience);
  return {};
}

}  // namespace

std::string try_collectives(SymmetricRank& own, const Handle& handle) {
  // Of a pool's buffer, the handle's offset counts from the segment's beginning.
  const std::byte* at = handle.buffer_ptrs()[handle.rank()] + handle.offset();
  const Trial trial{own, handle, static_cast<size_t>(at - own.buffer.data())};
  return try_reducing(trial) + try_moving(trial);
}

std::string compare_bits(SymmetricRank& own) {
  for (const ElementType type : {ElementType::kF32, ElementType::kBf16, ElementType::kF16}) {
    for (const Reach reach : {Reach{4, 4}, {8, 100}, {16, 4096}, {4, 60'000}}) {
      for (const bool is_one_shot : {true, false}) {
        const std::string wrong = reduce_and_compare(own, type, reach, is_one_shot);
        if (!wrong.empty()) return text(name(type), ": ", wrong);
      }
    }
  }
  return {};
}

std::string try_signals(SymmetricRank& own) {
  const Handle& handle = own.handle;
  const int count = handle.world_size();
  const int next = (handle.rank() + 1) % count;
  const int before = (handle.rank() + count - 1) % count;
  const auto words = own.buffer.as<int>();
  for (int round = 1; round <= 40; ++round) {
    const int channel = round % 8;
    handle.put(next, std::as_bytes(std::span(&round, 1)), int64_t{4} * channel);
    handle.put_signal(next, channel, kPatience);
    handle.wait_signal(before, channel, kPatience);
    if (words[channel] != round) return text("signal ", round, " came before its data");
    if (channel == 7) handle.barrier(1, kPatience);
  }
  // Counters of all at all.
  handle.barrier(0, kPatience);
  const int mine = 100 + handle.rank();
  for (int rank = 0; rank < count; ++rank) {
    handle.put(rank, std::as_bytes(std::span(&mine, 1)), 4096 + 4 * handle.rank());
    handle.add_signal(rank, 2, 3);
    handle.add_signal(rank, 1, 3);
  }
  for (int rank = 0; rank < count; ++rank) {
    handle.wait_for_value(rank, 3, 3, kPatience);
    if (words[1024 + rank] != 100 + rank) return text("rank ", rank, " counted before its data");
    if (handle.counter_value(rank, 3) != 3) return "another count";
  }
  // What is put before a barrier is seen after it, by whoever looks.
  for (int round = 0; round < 20; ++round) {
    handle.put(next, std::as_bytes(std::span(&round, 1)), 8192);
    handle.barrier(2, kPatience);
    for (int rank = 0; rank < count; ++rank) {
      int theirs = -1;
      handle.get(rank, std::as_writable_bytes(std::span(&theirs, 1)), 8192);
      if (theirs != round) return text("barrier ", round, " came before the data of rank ", rank);
    }
    handle.barrier(2, kPatience);
  }
  return {};
}

std::string try_words(SymmetricRank& own) {
  const Handle& handle = own.handle;
  const int count = handle.world_size();
  const auto ranks = static_cast<uint64_t>(count);
  constexpr uint64_t kTurns = 50;
  std::memset(own.buffer.data(), 0, 64);
  handle.barrier(0, kPatience);
  // All at all: sums, bits of one's own, and a lock of compare-and-swap around a plain number.
  for (int rank = 0; rank < count; ++rank) {
    for (uint64_t turn = 0; turn < kTurns; ++turn) {
      handle.post(rank, {.offset = 0, .operand = turn});
      handle.post(rank, {.word = WordBytes::k4, .offset = 8, .operand = 1});
      handle.fetch(rank, {.offset = 16, .operand = 2});
    }
    handle.post(rank,
                {.kind = AtomicKind::kOr, .offset = 24, .operand = uint64_t{1} << handle.rank()});
    while (handle.fetch(rank, {.kind = AtomicKind::kCompareAndSwap,
                               .word = WordBytes::k4,
                               .offset = 32,
                               .operand = 1}) != 0) {
      std::this_thread::yield();
    }
    uint64_t number = 0;
    handle.get(rank, std::as_writable_bytes(std::span(&number, 1)), 40);
    ++number;
    handle.post(rank, std::as_bytes(std::span(&number, 1)), 40);
    handle.fence();
    handle.fetch(rank, {.kind = AtomicKind::kSwap, .word = WordBytes::k4, .offset = 32});
  }
  handle.quiet();
  handle.barrier(0, kPatience);
  const auto words = own.buffer.as<uint64_t>();
  if (words[0] != ranks * kTurns * (kTurns - 1) / 2) return text("posted sums are ", words[0]);
  if (words[1] != ranks * kTurns) return text("counts of 32 bits are ", words[1]);
  if (words[2] != ranks * kTurns * 2) return text("fetched sums are ", words[2]);
  if (words[3] != (uint64_t{1} << ranks) - 1) return text("bits are ", words[3]);
  if (words[5] != ranks) return text(words[5], " of ", ranks, " had the lock to themselves");
  handle.barrier(0, kPatience);
  return {};
}

std::string run_program(SymmetricRank& own) {
  std::string wrong = try_signals(own) + try_words(own);
  for (const size_t begin : {size_t{0}, size_t{1000}}) {
    if (!wrong.empty()) return wrong;
    wrong = try_collectives(own, own.group.rendezvous(own.buffer.data() + begin, kPatience));
  }
  return wrong.empty() ? compare_bits(own) : wrong;
}

}  // namespace ashlar::symm
