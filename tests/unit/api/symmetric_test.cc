// SPDX-License-Identifier: Apache-2.0
//
// Tests of the public API of symmetric memory, with ranks as threads: operations and argument
// checks. The file is long because every function of a handle checks its arguments.
#include "ashlar/symmetric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "ashlar/errors.h"
#include "contract/waiting.h"

namespace ashlar::symm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

GroupOptions options_of(int rank, int world_size) {
  GroupOptions options;
  options.rank = rank;
  options.world_size = world_size;
  options.measure_thresholds = false;
  options.timeout = seconds(30);
  return options;
}

// One rank with a symmetric buffer of kBytes.
struct Rank {
  static constexpr size_t kBytes = 4096;

  Rank(std::shared_ptr<Store> store, const GroupOptions& options)
      : group(Group::join(heap, std::move(store), options)),
        buffer(heap.allocate(kBytes)),
        handle(group.rendezvous(buffer, seconds(30))) {}

  Heap heap;
  Group group;
  SymmetricBuffer buffer;
  Handle handle;
};

// Runs each rank on its own thread. Returns the error message of each rank, which is empty if the
// rank succeeded.
std::vector<std::string> on_ranks(int world_size, const std::function<void(Rank&)>& body) {
  std::vector<std::string> ended(world_size);
  const std::shared_ptr<Store> store = make_memory_store();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Rank own(store, options_of(rank, world_size));
        body(own);
        own.group.leave(seconds(30));
      } catch (const std::exception& thrown) {
        ended[rank] = thrown.what();
      }
    });
  }
  for (std::thread& each : threads) each.join();
  return ended;
}

// Returns the message of the InvalidArgument that `operation` throws, or "not refused" if it does
// not throw.
std::string invalid_argument_message(const std::function<void()>& operation) {
  try {
    operation();
  } catch (const InvalidArgument& refused) {
    return refused.status().message();
  }
  return "not refused";
}

class SymmetricApiConcurrency : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricApiConcurrency, ::testing::Values(1, 2, 3, 5),
                         ::testing::PrintToStringParamName());

TEST_P(SymmetricApiConcurrency, PutGetSignalsAndCountersReachEveryRank) {
  const int count = GetParam();
  const auto ended = on_ranks(count, [&](Rank& own) {
    const int next = (own.handle.rank() + 1) % count;
    const int before = (own.handle.rank() + count - 1) % count;
    const int32_t word = 100 + own.handle.rank();
    own.handle.put(next, std::as_bytes(std::span(&word, 1)), 8);
    own.handle.put_signal(next, 3, seconds(30));
    own.handle.wait_signal(before, 3, seconds(30));
    EXPECT_EQ(own.handle.view<int32_t>(own.handle.rank(), 1, 2)[0], 100 + before);
    own.handle.add_signal(next, 5, 1);
    own.handle.wait_for_value(before, 5, 1, seconds(30));
    EXPECT_EQ(own.handle.counter_value(before, 1), 5U);
    int32_t got = 0;
    own.handle.barrier(0, seconds(30));
    own.handle.get(next, std::as_writable_bytes(std::span(&got, 1)), 8);
    EXPECT_EQ(got, 100 + own.handle.rank());
    own.group.barrier(0, seconds(30));
  });
  EXPECT_THAT(ended, Each(IsEmpty()));
}

TEST_P(SymmetricApiConcurrency, CollectivesComputeExpectedResults) {
  const int count = GetParam();
  const auto ended = on_ranks(count, [&](Rank& own) {
    const int rank = own.handle.rank();
    const int sum = count * (count + 1) / 2;
    const auto words = own.buffer.as<int32_t>();
    const Reduction sum_of_i32{ElementType::kI32, ReduceOp::kSum};
    const auto all = [&](auto collective) {
      std::fill(words.begin(), words.end(), rank + 1);
      own.group.barrier(0, seconds(30));
      collective();
      own.group.barrier(0, seconds(30));
    };
    all([&] { own.handle.all_reduce(16, sum_of_i32); });
    EXPECT_EQ(words[15], sum);
    EXPECT_EQ(words[16], rank + 1);
    std::vector<int32_t> out(16);
    all([&] { own.handle.one_shot_all_reduce(16, sum_of_i32, {.out = out.data()}); });
    EXPECT_THAT(out, Each(sum));
    EXPECT_EQ(words[0], rank + 1);
    all([&] { own.handle.two_shot_all_reduce(16, sum_of_i32, {.offset_bytes = 64}); });
    EXPECT_EQ(words[15], rank + 1);
    EXPECT_EQ(words[16], sum);
    EXPECT_EQ(words[31], sum);
    all([&] { own.handle.reduce_scatter(3, sum_of_i32, {.out = out.data()}); });
    EXPECT_EQ(out[2], sum);
    const auto parts = static_cast<size_t>(count);
    all([&] { own.handle.all_reduce(words.subspan(4, 8)); });
    EXPECT_EQ(words[3], rank + 1);
    EXPECT_EQ(words[4], sum);
    EXPECT_EQ(words[11], sum);
    all([&] { own.handle.reduce_scatter(words.first(2 * parts), std::span(out).first(2)); });
    EXPECT_EQ(out[1], sum);
    const std::vector<int32_t> mine(2, 50 + rank);
    all([&] { own.handle.all_gather<int32_t>(mine, words.first(2 * parts)); });
    EXPECT_EQ(words[2 * parts - 1], 50 + count - 1);
    all([&] { own.handle.broadcast(words.first(3), count - 1); });
    EXPECT_EQ(words[2], count);
    const int64_t word = 70 + rank;
    all([&] { own.handle.all_gather(&word, 8); });
    for (int from = 0; from < count; ++from) {
      EXPECT_EQ(own.handle.view<int64_t>(rank, 1, from)[0], 70 + from);
    }
    all([&] { own.handle.broadcast(40, count - 1); });
    EXPECT_EQ(words[9], count);
    all([&] { own.handle.all_to_all(4, {.out = out.data()}); });
    for (int from = 0; from < count; ++from) EXPECT_EQ(out[from], from + 1);
  });
  EXPECT_THAT(ended, Each(IsEmpty()));
}

TEST_P(SymmetricApiConcurrency, AllToAllVPlacesRowsAtReportedOffsets) {
  const int count = GetParam();
  const auto ended = on_ranks(count, [&](Rank& own) {
    const int rank = own.handle.rank();
    // Rank r sends r + 1 rows to every rank.
    const std::vector<int64_t> splits(count, rank + 1);
    std::fill_n(own.buffer.as<int16_t>().begin(), (rank + 1) * count, static_cast<int16_t>(rank));
    std::vector<int16_t> out(count * (count + 1) / 2);
    std::vector<int64_t> out_splits(count);
    std::vector<int64_t> out_offsets(count);
    const RowExchange rows{.row_bytes = 2,
                           .splits = splits,
                           .out_bytes = static_cast<int64_t>(out.size() * 2),
                           .out_splits = out_splits,
                           .out_offsets = out_offsets};
    own.handle.all_to_all_v(rows, {.out = out.data(), .timeout = seconds(30)});
    for (int from = 0; from < count; ++from) {
      EXPECT_EQ(out_splits[from], from + 1);
      EXPECT_EQ(out[out_offsets[from]], from);
      EXPECT_EQ(out[out_offsets[from] + from], from);
    }
  });
  EXPECT_THAT(ended, Each(IsEmpty()));
}

TEST(SymmetricApiConcurrency, SerializesOperationsOfThreadsOfOneRank) {
  const auto ended = on_ranks(2, [](Rank& own) {
    const auto words = own.buffer.as<int32_t>();
    words[0] = 1;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 3; ++thread) {
      threads.emplace_back([&] {
        for (int round = 0; round < 50; ++round) {
          own.handle.all_reduce(1, {ElementType::kI32, ReduceOp::kMax});
          own.group.barrier(7);
        }
      });
    }
    for (std::thread& each : threads) each.join();
    EXPECT_EQ(words[0], 1);
  });
  EXPECT_THAT(ended, Each(IsEmpty()));
}

// Two threads of rank 0 call `operation`. The first thread blocks without a timeout until rank 1
// calls it, too. Returns the message of the second thread's timeout error. Repeats the second
// thread's call if the first thread did not block it.
std::string timeout_while_another_thread_waits(
    const std::function<void(Rank&, Timeout)>& operation) {
  std::string message;
  std::atomic<bool> has_timed_out{false};
  const auto ended = on_ranks(2, [&](Rank& own) {
    if (own.group.rank() == 1) {
      EXPECT_TRUE(contract::eventually([&] { return has_timed_out.load(); }));
      operation(own, Timeout(0));
      return;
    }
    std::thread first([&] { operation(own, Timeout(0)); });
    for (int round = 0; round < 100 && message.find("another thread") == std::string::npos;
         ++round) {
      try {
        operation(own, milliseconds(20));
      } catch (const TimeoutError& late) {
        message = late.status().message();
      }
    }
    has_timed_out = true;
    first.join();
  });
  EXPECT_THAT(ended, Each(IsEmpty()));
  return message;
}

TEST(SymmetricApiConcurrency, TimeoutCoversWaitForAnotherThread) {
  EXPECT_THAT(timeout_while_another_thread_waits(
                  [](Rank& own, Timeout timeout) { own.group.barrier(3, timeout); }),
              HasSubstr("another thread of this rank was in a barrier of channel 3"));
  EXPECT_THAT(timeout_while_another_thread_waits([](Rank& own, Timeout timeout) {
                own.handle.all_reduce(16, {}, {.timeout = timeout});
              }),
              HasSubstr("another thread of this rank was in a collective"));
}

TEST(SymmetricApiConcurrency, RejectsMixedUpHandlesOnAllRanks) {
  const auto ended = on_ranks(2, [](Rank& own) {
    const SymmetricBuffer another = own.heap.allocate(Rank::kBytes);
    const Handle other = own.group.rendezvous(another, seconds(30));
    const Handle& mixed_up = own.group.rank() == 0 ? own.handle : other;
    EXPECT_THAT(invalid_argument_message([&] { mixed_up.all_reduce(16); }),
                HasSubstr("ranks made different calls"));
    other.all_reduce(16);
  });
  EXPECT_THAT(ended, Each(IsEmpty()));
}

TEST(SymmetricApiConcurrency, MeasuresThresholdsAtJoin) {
  const std::shared_ptr<Store> store = make_memory_store();
  std::vector<std::string> printed(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Heap heap;
      GroupOptions options = options_of(rank, 2);
      options.measure_thresholds = true;
      Group group = Group::join(heap, store, options);
      printed[rank] = group.thresholds();
      group.leave(seconds(30));
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_THAT(printed[0], HasSubstr("4.00 MiB"));
  EXPECT_EQ(printed[0], printed[1]);
}

class SymmetricArgumentsTest : public ::testing::Test {
 protected:
  Rank alone_{make_memory_store(), options_of(0, 1)};
  Handle& handle_ = alone_.handle;
  static constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();
};

TEST_F(SymmetricArgumentsTest, ViewErrorsStateRangeAndValue) {
  EXPECT_EQ(invalid_argument_message([&] { handle_.view<float>(1, 1); }),
            "rank 1: expected 0 to 0");
  EXPECT_EQ(invalid_argument_message([&] { handle_.view<float>(-1, 1); }),
            "rank -1: expected 0 to 0");
  EXPECT_THAT(invalid_argument_message([&] { handle_.view<float>(0, 1, -1); }),
              HasSubstr("offset -1"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.view<float>(0, -1); }),
              HasSubstr("count is -1"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.view<float>(0, 1025); }),
              HasSubstr("4100 bytes at offset 0"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.view<float>(0, 1, 1024); }),
              HasSubstr("4096"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.view<float>(0, kInt64Max); }),
              HasSubstr("2^63"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.view<float>(0, 1, kInt64Max / 2); }),
              HasSubstr("2^63"));
  EXPECT_EQ(handle_.view<float>(0, 1024).size(), 1024U);
  EXPECT_EQ(handle_.view<float>(0, 0, 1024).size(), 0U);
}

TEST_F(SymmetricArgumentsTest, SignalPadErrorsStateRangeAndValue) {
  EXPECT_EQ(handle_.signal_pad(0).size(), 2304U);
  EXPECT_EQ(handle_.signal_pad<uint64_t>(0).size(), 1152U);
  EXPECT_EQ(handle_.signal_pad<uint16_t>(0, 3, 4).data(),
            reinterpret_cast<uint16_t*>(handle_.signal_pad_ptrs()[0] + 8));
  EXPECT_THAT(invalid_argument_message([&] { handle_.signal_pad(2); }), HasSubstr("rank 2"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.signal_pad(0, 2305); }),
              HasSubstr("the pad has 9216 bytes"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.signal_pad(0, 1, -3); }),
              HasSubstr("offset -3"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.signal_pad(0, 1, kInt64Max); }),
              HasSubstr("2^63"));
}

TEST_F(SymmetricArgumentsTest, OneSidedAndSignalErrorsStateRangeAndValue) {
  const std::vector<std::byte> bytes(8);
  EXPECT_THAT(invalid_argument_message([&] { handle_.put(0, bytes, 4089); }),
              HasSubstr("8 bytes at offset 4089"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.put(0, bytes, -8); }), HasSubstr("offset -8"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.put(0, bytes, kInt64Max); }),
              HasSubstr("8 bytes at offset 92"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.put(3, bytes); }),
              HasSubstr("rank 3: expected 0 to 0"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.put_signal(1, 0); }), HasSubstr("rank 1"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.put_signal(0, 32); }),
              HasSubstr("channel 32: expected 0 to 31"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.wait_signal(0, -1); }),
              HasSubstr("channel -1"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.add_signal(0, 1, 32); }),
              HasSubstr("channel 32"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.wait_for_value(-1, 1); }),
              HasSubstr("rank -1"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.counter_value(0, 32); }),
              HasSubstr("channel 32"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.barrier(32); }), HasSubstr("channel 32"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.barrier(0, milliseconds(-1)); }),
              HasSubstr("timeout of -1 ms"));
  EXPECT_THAT(invalid_argument_message([&] { (void)alone_.group.peer_access(1); }),
              HasSubstr("rank 1"));
}

TEST_F(SymmetricArgumentsTest, AtomicErrorsStateWordAndOffset) {
  const auto fetched = [&](int at, AtomicOp what) {
    return invalid_argument_message([&] { handle_.fetch(at, what); });
  };
  EXPECT_THAT(fetched(0, {.offset = 4096}), HasSubstr("8 bytes at offset 4096"));
  EXPECT_THAT(fetched(0, {.offset = 4}), HasSubstr("is not aligned"));
  EXPECT_THAT(fetched(0, {.word_bytes = static_cast<WordBytes>(2)}), HasSubstr("a word of 2"));
  EXPECT_THAT(fetched(0, {.kind = static_cast<AtomicKind>(6)}),
              HasSubstr("unknown atomic operation 6"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.post(0, {.kind = AtomicKind::kSwap}); }),
              HasSubstr("a swap returns a value"));
  EXPECT_EQ(handle_.fetch(0, {.offset = 4088, .operand = 7}), 0U);
  EXPECT_EQ(handle_.fetch(0, {.kind = AtomicKind::kAnd, .offset = 4088, .operand = 4}), 7U);
}

TEST_F(SymmetricArgumentsTest, ChecksCollectiveArgumentsFirst) {
  std::vector<std::byte> out(8192);
  EXPECT_THAT(invalid_argument_message([&] { handle_.all_reduce(1025); }),
              HasSubstr("4100 bytes at offset 0"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.all_reduce(-1); }), HasSubstr("count is -1"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.all_reduce(kInt64Max); }), HasSubstr("2^63"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.all_reduce(1, {}, {.offset_bytes = -4}); }),
              HasSubstr("offset -4: expected 0 to 4096"));
  EXPECT_THAT(
      invalid_argument_message([&] { handle_.all_reduce(1, {}, {.offset_bytes = kInt64Max}); }),
      HasSubstr("offset 9223372036854775807"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.all_reduce(1, {}, {.offset_bytes = 2}); }),
              HasSubstr("not a multiple"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.all_reduce(1, {}, {.out = out.data() + 1}); }),
              HasSubstr("not aligned"));
  EXPECT_THAT(
      invalid_argument_message([&] { handle_.all_reduce(1, {}, {.out = alone_.buffer.data()}); }),
      HasSubstr("overlaps"));
  EXPECT_THAT(invalid_argument_message([&] {
                handle_.all_reduce(1, {ElementType::kF32, ReduceOp::kXor});
              }),
              HasSubstr("xor of f32"));
  EXPECT_THAT(
      invalid_argument_message([&] { handle_.all_reduce(1, {static_cast<ElementType>(77)}); }),
      HasSubstr("element type 77"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.reduce_scatter(1, {}, {}); }),
              HasSubstr("out is null"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.all_gather(nullptr, 4); }),
              HasSubstr("in is null"));
  EXPECT_THAT(
      invalid_argument_message([&] { handle_.all_gather(out.data(), 4, {.out = out.data()}); }),
      HasSubstr("no out"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.broadcast(4, 1); }),
              HasSubstr("root: rank 1"));
  EXPECT_THAT(invalid_argument_message([&] { handle_.all_to_all(5000, {.out = out.data()}); }),
              HasSubstr("5000 bytes"));
  EXPECT_THAT(invalid_argument_message(
                  [&] { handle_.all_to_all_v({.row_bytes = 1}, {.out = out.data()}); }),
              HasSubstr("splits has 0 entries"));
}

TEST_F(SymmetricArgumentsTest, TypedCollectivesCheckSpans) {
  std::vector<float> foreign(8);
  EXPECT_THAT(invalid_argument_message([&] { handle_.all_reduce(std::span(foreign)); }),
              HasSubstr("is not in this rank's memory"));
  const std::span<float> elements = handle_.view<float>(0, 8);
  EXPECT_EQ(invalid_argument_message(
                [&] { handle_.reduce_scatter(elements, std::span(foreign).first(4)); }),
            "elements has 8 elements: expected 4");
}

TEST_F(SymmetricArgumentsTest, RejectsRendezvousOfForeignMemory) {
  const int local = 0;
  EXPECT_THAT(invalid_argument_message([&] { (void)alone_.group.rendezvous(&local); }),
              HasSubstr("symmetric"));
  EXPECT_THAT(invalid_argument_message([&] { (void)alone_.group.rendezvous(SymmetricBuffer()); }),
              HasSubstr("empty buffer"));
}

TEST_F(SymmetricArgumentsTest, RejectsInvalidGroupAndHeapOptions) {
  Heap heap;
  GroupOptions options = options_of(2, 2);
  EXPECT_THAT(
      invalid_argument_message([&] { (void)Group::join(heap, make_memory_store(), options); }),
      HasSubstr("rank 2 of 2"));
  options = options_of(0, 1);
  EXPECT_THAT(invalid_argument_message([&] { (void)Group::join(heap, nullptr, options); }),
              HasSubstr("store"));
  options.channel_count = 0;
  EXPECT_THAT(
      invalid_argument_message([&] { (void)Group::join(heap, make_memory_store(), options); }),
      HasSubstr("channel_count is 0"));
  EXPECT_THAT(invalid_argument_message([&] { (void)alone_.group.sub_group({.ranks = {}}); }),
              HasSubstr("is not in sub-group sub"));
  EXPECT_THAT(invalid_argument_message([&] { (void)alone_.group.sub_group({.ranks = {1}}); }),
              HasSubstr("rank 1"));
  EXPECT_THAT(invalid_argument_message([] { Heap other({.backend = "hots"}); }), HasSubstr("hots"));
  EXPECT_THAT(invalid_argument_message([] { Heap other({.heartbeat = seconds(9)}); }),
              HasSubstr("lease"));
}

TEST_F(SymmetricArgumentsTest, LeavingGroupInvalidatesHandles) {
  alone_.group.leave();
  const std::vector<std::function<void()>> calls = {
      [&] { alone_.group.leave(); }, [&] { handle_.all_reduce(1); }, [&] { handle_.barrier(); },
      [&] { handle_.fence(); }, [&] { handle_.quiet(); }};
  for (const auto& call : calls)
    EXPECT_THAT(invalid_argument_message(call), HasSubstr("was already left"));
  handle_.view<int>(0, 1)[0] = 5;  // the memory is still mapped
}

TEST_F(SymmetricArgumentsTest, HeapAndGroupOutliveTheirOwners) {
  SymmetricBuffer buffer;
  {
    Heap heap;
    buffer = heap.allocate(64);
    EXPECT_EQ(heap.live_count(), 1U);
  }
  buffer.as<int>()[0] = 7;
  Handle kept = handle_;
  { const Rank gone = std::move(alone_); }
  EXPECT_EQ(kept.view<int>(0, 1).size(), 1U);
}

}  // namespace
}  // namespace ashlar::symm
