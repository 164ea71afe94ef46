// SPDX-License-Identifier: Apache-2.0
//
// Compares the results of the kernels with the results on host memory, in several processes on one
// device. Errors are in symmetric_kernel_errors_test.cc. Runs on the stand-in driver, which
// executes the functions that are compiled for GPUs, or with ASHLAR_TEST_DEVICE=cuda on a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "mp/harness/gpu_rank.h"
#include "symm/collectives/reduce/element.h"

namespace ashlar::symm {
namespace {

class SymmetricGpuKernelResults : public SymmetricGpuKernels,
                                  public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    SymmetricGpuKernels::SetUp();
    // Fewer world sizes are tested on hardware, where time slicing between processes on one GPU
    // makes each barrier take milliseconds.
    if (is_on_hardware() && (GetParam() == 3 || GetParam() == 5)) {
      GTEST_SKIP() << "runs on hardware only with 1, 2 and 4 ranks";
    }
  }
};

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricGpuKernelResults, ::testing::Values(1, 2, 3, 4, 5),
                         ::testing::PrintToStringParamName());
TEST_P(SymmetricGpuKernelResults, RunsEveryOperationWithAndWithoutStream) {
  RankProcesses ranks(GetParam(),
                      with_kernels([](DeviceRank& own) { return run_device_program(own); }));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

// Returns the mask of a floating-point type's exponent bits, which are all set in infinities and
// NaNs; 0 for integer types.
uint64_t exponent_mask(ElementType type) {
  switch (type) {
    case ElementType::kF32: return 0x7F800000;
    case ElementType::kF16: return 0x7C00;
    case ElementType::kBf16: return 0x7F80;
    case ElementType::kF64: return uint64_t{0x7FF} << 52;
    default: return 0;
  }
}

// Returns random bits, including NaNs and infinities. Which of several NaNs survives depends on how
// the compiler orders operands, so at most one rank has a NaN in an element. Only even elements may
// be NaN, and only odd elements infinite, so no element combines both.
std::vector<std::byte> random_elements(ElementType type, RankInfo rank_info, std::mt19937& random) {
  const size_t bytes = element_bytes(type);
  const uint64_t exponent = exponent_mask(type);
  std::vector<std::byte> all(8000);
  for (size_t i = 0; i < all.size() / bytes; ++i) {
    uint64_t bits = uint64_t{random()} << 32 | random();
    const bool is_special = exponent != 0 && (bits & exponent) == exponent;
    const size_t owner = i / 2 % static_cast<size_t>(rank_info.world_size);
    const bool is_owner = owner == static_cast<size_t>(rank_info.rank);
    if (is_special && i % 2 == 0 && !is_owner) bits ^= exponent & (exponent << 1);
    if (is_special && i % 2 == 1) bits &= ~((exponent & (0 - exponent)) - 1);
    std::memcpy(all.data() + i * bytes, &bits, bytes);
  }
  return all;
}

// A comparison of collectives on host memory and on device memory.
struct Comparison {
  DeviceRank& own;
  HostReference& reference;
  std::mt19937 random;
  ElementType type = ElementType::kU8;

  static constexpr size_t kHostBytes = DeviceRank::kBytes;

  void fill() {
    const RankInfo rank_info{own.group.rank(), own.group.world_size()};
    const std::vector<std::byte> bytes = random_elements(type, rank_info, random);
    std::memcpy(reference.buffer.data(), bytes.data(), bytes.size());
    own.write(bytes);
    own.group.barrier(0, kTestTimeout);
  }
  // Calls `run(handle, out)` for host and for device memory. Compares 8000 bytes of the buffers,
  // and with `to_out` also `compared_bytes` of the outputs.
  template <typename Run>
  bool is_same(const Run& run, bool to_out) {
    fill();
    std::vector<std::byte> out(8000);
    run(reference.handle, to_out ? out.data() : nullptr);
    run(own.handle, to_out ? own.scratch.data() : nullptr);
    const std::vector<std::byte> device_bytes = own.read<std::byte>(8000);
    if (std::memcmp(reference.buffer.data(), device_bytes.data(), device_bytes.size()) != 0)
      return false;
    if (!to_out) return true;
    const auto scratch =
        DeviceRank::read_of<std::byte>(own.scratch_handle, own.handle.rank(), compared_bytes);
    return std::equal(scratch.begin(), scratch.end(), out.begin());
  }
  size_t compared_bytes = 0;
};

// Compares every type and operation, at vector-aligned and unaligned offsets, with a count that is
// not a multiple of a vector.
std::string compare_reductions(DeviceRank& own) {
  HostReference reference(own, Comparison::kHostBytes);
  Comparison compare{own, reference, std::mt19937(static_cast<unsigned>(11 + own.group.rank()))};
  for (int type = 0; type < kElementTypeCount; ++type) {
    for (int op = 0; op < kReduceOpCount; ++op) {
      const Reduction what{static_cast<ElementType>(type), static_cast<ReduceOp>(op)};
      if (!check_reducible(what.type, what.op).ok()) continue;
      const size_t element = element_bytes(what.type);
      for (const size_t offset : {size_t{0}, element}) {
        // Two ranks on the stand-in driver test every combination. To save time, other runs test
        // each operation at one offset only.
        const bool is_complete = !is_on_hardware() && own.group.world_size() == 2;
        if (!is_complete && (offset == 0) != (op % 2 == 0)) continue;
        const int64_t count = 163;
        const auto at = static_cast<int64_t>(offset);
        const auto one = [&](const Handle& handle, void* out) {
          handle.one_shot_all_reduce(count, what, with_test_timeout(at, out));
        };
        const auto two = [&](const Handle& handle, void* out) {
          handle.two_shot_all_reduce(count, what, with_test_timeout(at, out));
        };
        const auto scatter = [&](const Handle& handle, void* out) {
          handle.reduce_scatter(31, what, with_test_timeout(at, out));
        };
        compare.type = what.type;
        compare.compared_bytes = static_cast<size_t>(count) * element;
        std::string wrong;
        for (const bool out : {false, true}) {
          if (!compare.is_same(one, out)) wrong += "one-shot; ";
          if (!compare.is_same(two, out)) wrong += "two-shot; ";
        }
        compare.compared_bytes = 31 * element;
        if (!compare.is_same(scatter, true)) wrong += "reduce-scatter; ";
        if (!wrong.empty()) {
          return text(name(what.op), " of ", name(what.type), " at ", offset, ": ", wrong);
        }
      }
    }
  }
  reference.group.leave(kTestTimeout);
  return {};
}

TEST_P(SymmetricGpuKernelResults, ReductionsEqualHostResultsBitwise) {
  RankProcesses ranks(GetParam(), with_kernels(compare_reductions));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

std::string compare_moves(DeviceRank& own) {
  HostReference reference(own, Comparison::kHostBytes);
  Comparison compare{own, reference, std::mt19937(static_cast<unsigned>(12 + own.group.rank()))};
  const auto ranks = static_cast<size_t>(own.group.world_size());
  const auto rank = static_cast<size_t>(own.group.rank());
  for (const int64_t bytes : {0, 1, 4, 37, 640}) {
    for (const int64_t offset : {0, 4, 3}) {
      const auto gather = [&](const Handle& handle, void*) {
        const std::byte* in = handle.buffer_ptrs()[rank] + offset + rank * bytes;
        handle.all_gather(in, bytes, with_test_timeout(offset));
      };
      const auto broadcast = [&](const Handle& handle, void* out) {
        handle.broadcast(bytes, handle.world_size() - 1, with_test_timeout(offset, out));
      };
      const auto exchange = [&](const Handle& handle, void* out) {
        handle.all_to_all(bytes, with_test_timeout(offset, out));
      };
      std::string wrong;
      if (!compare.is_same(gather, false)) wrong += "all-gather; ";
      compare.compared_bytes = static_cast<size_t>(bytes);
      for (const bool out : {false, true}) {
        if (!compare.is_same(broadcast, out)) wrong += "broadcast; ";
      }
      compare.compared_bytes *= ranks;
      if (!compare.is_same(exchange, true)) wrong += "all-to-all; ";
      if (!wrong.empty()) return text(bytes, " bytes at ", offset, ": ", wrong);
    }
  }
  reference.group.leave(kTestTimeout);
  return {};
}

TEST_P(SymmetricGpuKernelResults, DataMovementEqualsHostResults) {
  RankProcesses ranks(GetParam(), with_kernels(compare_moves));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

// Rank r sends r + p + 1 rows to rank p, with and without a stream.
TEST_P(SymmetricGpuKernelResults, ExchangesUnequalRowCounts) {
  RankProcesses ranks(
      GetParam(), with_kernels([](DeviceRank& own) -> std::string {
        const int count = own.group.world_size();
        const int rank = own.group.rank();
        std::vector<int64_t> splits;
        std::vector<int64_t> expected_splits;
        std::vector<int64_t> expected_offsets;
        std::vector<int> rows;
        std::vector<int> expected;
        for (int peer = 0; peer < count; ++peer) {
          splits.push_back(rank + peer + 1);
          rows.insert(rows.end(), static_cast<size_t>(rank + peer + 1), 100 * rank + peer);
          expected_offsets.push_back(static_cast<int64_t>(expected.size()));
          expected_splits.push_back(peer + rank + 1);
          expected.insert(expected.end(), static_cast<size_t>(peer + rank + 1), 100 * peer + rank);
        }
        const StreamId stream = *own.device().create_stream();
        for (const bool in_stream : {false, true}) {
          own.write(rows, 256);
          std::vector<int64_t> out_splits(static_cast<size_t>(count), -1);
          std::vector<int64_t> out_offsets(static_cast<size_t>(count), -1);
          CollectiveOptions options = with_test_timeout(256, own.scratch.data());
          if (in_stream) options.stream = stream;
          const auto out_bytes = static_cast<int64_t>(4 * expected.size());
          own.handle.all_to_all_v({4, splits, out_bytes, out_splits, out_offsets}, options);
          if (in_stream) own.group.finish(stream);
          if (out_splits != expected_splits) return "other splits";
          if (out_offsets != expected_offsets) return "other offsets";
          const auto found = DeviceRank::read_of<int>(own.scratch_handle, rank, expected.size());
          if (found != expected) return "other rows";
          // The output of rank 0 is one byte too small; the other ranks succeed.
          const int64_t less = out_bytes - (rank == 0 ? 1 : 0);
          options.stream.reset();
          const std::string message = error_message([&] {
            own.handle.all_to_all_v({4, splits, less, out_splits, out_offsets}, options);
          });
          const std::string none =
              text("out has room for ", less, " bytes, but the ranks send ", out_bytes);
          const bool is_right =
              rank == 0 ? message.find(none) != std::string::npos : message == "nothing";
          if (!is_right || out_splits != expected_splits) return message;
        }
        return {};
      }));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

// Returns the word at position `place` of a rank's data. The word differs in each round, so that
// stale data is detected.
int32_t word_of(int round, int rank, size_t place) {
  return static_cast<int32_t>(
      (place * 7 + static_cast<size_t>(rank) * 13 + static_cast<size_t>(round) * 31) % 100'003);
}

std::vector<int32_t> words_of(int round, int rank, size_t count) {
  std::vector<int32_t> words(count);
  for (size_t place = 0; place < count; ++place) words[place] = word_of(round, rank, place);
  return words;
}

std::string check_large_transfers(DeviceRank& own) {
  // On hardware, the size is large enough for kernels of 128 thread blocks. On the stand-in, whose
  // threads share the CPU cores, it is smaller.
  const size_t bytes = is_on_hardware() ? size_t{4} << 20 : size_t{128} << 10;
  const int rounds = is_on_hardware() ? 60 : 2;
  const size_t ranks = static_cast<size_t>(own.group.world_size());
  const size_t count = bytes / sizeof(int32_t) - 3;  // not a multiple of a block, vector or share
  const size_t share = count / ranks;
  const SymmetricBuffer buffer = own.heap.allocate(bytes);
  const Handle handle = own.group.rendezvous(buffer, kTestTimeout);
  const SymmetricBuffer result = own.heap.allocate(bytes);
  const Handle out_handle = own.group.rendezvous(result, kTestTimeout);
  const auto fill = [&](int round) {
    const std::vector<int32_t> words = words_of(round, handle.rank(), count);
    handle.put(handle.rank(), std::as_bytes(std::span(words)));
    own.group.barrier(0, kTestTimeout);
  };
  const auto has = [&](const Handle& in, const std::vector<int32_t>& expected) {
    return DeviceRank::read_of<int32_t>(in, handle.rank(), expected.size()) == expected;
  };
  for (int round = 0; round < rounds; ++round) {
    fill(round);
    const bool is_one_shot = round % 2 == 0;
    const Reduction sum{ElementType::kI32, ReduceOp::kSum};
    is_one_shot ? handle.one_shot_all_reduce(static_cast<int64_t>(count), sum, with_test_timeout())
                : handle.two_shot_all_reduce(static_cast<int64_t>(count), sum, with_test_timeout());
    std::vector<int32_t> expected(count);
    for (size_t rank = 0; rank < ranks; ++rank) {
      for (size_t i = 0; i < count; ++i) {
        expected[i] += word_of(round, static_cast<int>(rank), i);
      }
    }
    if (!has(handle, expected)) return text("round ", round, ": wrong sum");

    fill(round);
    handle.all_to_all(static_cast<int64_t>(share * sizeof(int32_t)),
                      with_test_timeout(0, result.data()));
    std::vector<int32_t> expected_shares(share * ranks);
    for (size_t i = 0; i < expected_shares.size(); ++i) {
      const size_t place = static_cast<size_t>(handle.rank()) * share + i % share;
      expected_shares[i] = word_of(round, static_cast<int>(i / share), place);
    }
    if (!has(out_handle, expected_shares)) return text("round ", round, ": wrong share");
    own.group.barrier(0, kTestTimeout);
  }
  return "";
}

TEST_P(SymmetricGpuKernelResults, LargeTransfersAreCompleteInEveryRound) {
  RankProcesses ranks(GetParam(), with_kernels(check_large_transfers));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

TEST_P(SymmetricGpuKernelResults, KeepsGroupOrderAcrossStreams) {
  RankProcesses ranks(
      GetParam(), with_kernels([](DeviceRank& own) -> std::string {
        const std::array streams{*own.device().create_stream(), *own.device().create_stream()};
        const int count = own.group.world_size();
        own.write(std::vector<int>(100, 1));
        own.group.barrier(0, kTestTimeout);
        int expected = 1;
        CollectiveOptions options = with_test_timeout();
        for (size_t round = 0; round < 6; ++round) {
          // Ranks use different streams. Calls are matched in the order in which they are made.
          options.stream = streams[(round + static_cast<size_t>(own.group.rank())) % 2];
          own.handle.all_reduce(100, {ElementType::kI32, ReduceOp::kSum}, options);
          expected *= count;
        }
        for (const StreamId each : streams) own.group.finish(each);
        const std::vector<int> found = own.read<int>(100);
        own.group.barrier(0, kTestTimeout);
        return found == std::vector<int>(100, expected) ? "" : "wrong order";
      }));
  EXPECT_THAT(gpu_results(ranks), Each(IsEmpty()));
}

}  // namespace
}  // namespace ashlar::symm
