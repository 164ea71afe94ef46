// SPDX-License-Identifier: Apache-2.0
//
// Eight threads use one allocator and shared streams and free each other's blocks. Each thread
// fills its blocks with its tag, and the thread that frees a block checks all bytes but the first,
// so a block that overlaps another has wrong bytes. Device work writes to the first byte, so a
// block that is reused too early is a race for ThreadSanitizer.
#include <cstring>
#include <optional>
#include <thread>

#include "base/random.h"
#include "pinned_fixture.h"

namespace ashlar {
namespace {

constexpr size_t kThreadCount = 8;
constexpr int kRoundCount = 400;
constexpr PoolId kFirstPool{0, 1};
constexpr StreamId kFirstRoutedStream{1000};

class PinnedConcurrencyTest : public PinnedTest, public ::testing::WithParamInterface<bool> {
 protected:
  PinnedConcurrencyTest() {
    options_.pinned.use_background_threads = GetParam();
    options_.pinned.max_cached_bytes = 256 * kKiB;
    options_.pinned.reserve_segment_bytes = 64 * kKiB;
    allocator_ = *PinnedAllocator::create(device(), options_, steady_clock_);
    const auto filter = [](StreamId stream) { return stream == kFirstRoutedStream; };
    EXPECT_TRUE(allocator_->begin_routing(kFirstPool, filter).ok());
    for (int i = 0; i < 4; ++i) streams_.push_back(*device().create_stream());
  }
  ~PinnedConcurrencyTest() override { allocator_.reset(); }

  void work(uint64_t seed) {
    Random random(seed);
    for (int i = 0; i < kRoundCount; ++i) {
      const size_t bytes = 2 + random.below(size_t{4} << random.below(17));
      const Result<PinnedBlock*> got =
          pinned().allocate(bytes, random.below(2) == 0 ? kDefaultStream : kFirstRoutedStream);
      ASSERT_TRUE(got.ok()) << got.status().to_string();
      PinnedBlock* block = *got;
      const auto tag = static_cast<std::byte>(seed);
      std::byte* memory = block->memory.begin;
      std::memset(memory, std::to_integer<int>(tag), bytes);
      for (uint64_t uses = random.below(3); uses > 0; --uses) {
        // Each block has one stream, because two streams writing one block would race.
        const StreamId stream = streams_[seed % streams_.size()];
        ASSERT_TRUE(device().call_host(stream, [=] { memory[0] = tag; }).ok());
        if (random.below(2) == 0) {
          use_on(block, stream);
        } else {
          ASSERT_TRUE(*pinned().record_stream(memory + bytes - 1, {&device(), stream}));
        }
      }
      const std::optional<FilledBlock> other = exchange({block, bytes, tag}, random);
      if (other) check_and_free(*other);
      if (random.below(50) == 0) {
        ASSERT_TRUE(pinned().trim().ok());
      }
      if (random.below(20) == 0) {
        const HostStats stats = pinned().stats();
        ASSERT_LE(stats.active_bytes.current, stats.allocated_bytes.current);
        ASSERT_LE(stats.pending_blocks.current, stats.active_requests.current);
      }
    }
  }

  // A block whose bytes are all equal to the tag.
  struct FilledBlock {
    PinnedBlock* block = nullptr;
    size_t bytes = 0;  // at least 2
    std::byte tag{};
  };

  // Does not read the first byte, which device work may be writing.
  void check_and_free(const FilledBlock& filled) {
    const std::byte* memory = filled.block->memory.begin;
    EXPECT_EQ(memory[1], filled.tag) << "another thread has this block";
    EXPECT_EQ(std::memcmp(memory + 1, memory + 2, filled.bytes - 2), 0)
        << "another thread has part of this block";
    free(filled.block);
  }

  // Adds the block to a shared table. Once the table is full, removes and returns a random block.
  std::optional<FilledBlock> exchange(const FilledBlock& filled, Random& random) {
    MutexLock lock(mutex_);
    table_.push_back(filled);
    if (table_.size() < 16) return std::nullopt;
    std::swap(table_[random.below(table_.size())], table_.back());
    const FilledBlock taken = table_.back();
    table_.pop_back();
    return taken;
  }

  SteadyClock steady_clock_;
  std::vector<StreamId> streams_;
  Mutex mutex_;
  std::vector<FilledBlock> table_;
};

TEST_P(PinnedConcurrencyTest, ThreadsShareBlocksStreamsAndTheCache) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreadCount; ++i) threads.emplace_back([this, i] { work(i + 1); });
  for (std::thread& thread : threads) thread.join();
  for (const FilledBlock& filled : table_) check_and_free(filled);
  ASSERT_TRUE(device().synchronize_device().ok());
  ASSERT_TRUE(pinned().end_routing(kFirstPool).ok());
  ASSERT_TRUE(pinned().release_pool(kFirstPool).ok());
  ASSERT_TRUE(pinned().trim().ok());
  const HostStats stats = pinned().stats();
  EXPECT_EQ(stats.active_requests.current, 0);
  EXPECT_EQ(stats.pending_blocks.current, 0);
  EXPECT_EQ(stats.active_requests.increased, static_cast<int64_t>(kThreadCount * kRoundCount));
  EXPECT_LE(stats.allocated_bytes.current, static_cast<int64_t>(stats.reserve_used_bytes));
  EXPECT_TRUE(pinned().validate().ok()) << pinned().validate().to_string();
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutPoller, PinnedConcurrencyTest, ::testing::Bool());

}  // namespace
}  // namespace ashlar
