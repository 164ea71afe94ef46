// SPDX-License-Identifier: Apache-2.0
//
// Performs random operations, and compares the allocator with the naive model after every step.
// --gtest_random_seed=N sets another seed.
#include <array>
#include <iostream>

#include "base/random.h"
#include "pinned_fixture.h"
#include "pinned_model.h"

namespace ashlar {
namespace {

constexpr size_t kStreamCount = 4;
constexpr int kStepCount = 6000;

class PinnedRandomTest : public PinnedTest, public ::testing::WithParamInterface<int> {
 protected:
  PinnedRandomTest() : random_(seed()) {
    std::cout << "seed " << seed() << ", draw " << GetParam() << '\n';
    for (int i = 0; i < GetParam(); ++i) random_ = Random(random_.next());
    draw_options();
    for (size_t i = 0; i < kStreamCount; ++i) streams_.push_back(busy_stream());
    model_ = std::make_unique<PinnedModel>(options_, kStreamCount);
    for (ModelStream& stream : model_->streams) stream.queued_count = 1;
    model_->host_allocs = options_.pinned.reserve_segment_bytes == 0 ? 0 : 1;
  }

  static uint64_t seed() {
    const int wanted = GTEST_FLAG_GET(random_seed);
    return wanted != 0 ? static_cast<uint64_t>(wanted) : 20'260'928;
  }

  void draw_options() {
    PinnedOptions& drawn = options_.pinned;
    options_.pytorch_compatible = random_.below(3) == 0;
    drawn.use_host_register = random_.below(2) == 0;
    drawn.register_thread_count = size_t{1} << random_.below(3);
    if (random_.below(2) == 0) drawn.reserve_segment_bytes = kMiB * (1 + random_.below(3));
    if (random_.below(2) == 0) drawn.max_cached_bytes = kKiB * (64 + random_.below(512));
    if (random_.below(2) == 0) drawn.max_round_bytes = kKiB * (64 + random_.below(512));
    std::cout << "pytorch " << options_.pytorch_compatible << ", register "
              << drawn.use_host_register << ", reserve " << drawn.reserve_segment_bytes
              << ", max cached " << drawn.max_cached_bytes.value_or(0) << ", max round "
              << drawn.max_round_bytes.value_or(0) << '\n';
  }

  // --- steps

  void step() {
    const uint64_t drawn = random_.below(100);
    if (drawn < 35) return allocate_some();
    if (drawn < 62) return free_some();
    if (drawn < 77) return use_some();
    if (drawn < 84) return queue_work();
    if (drawn < 91) return finish_stream();
    if (drawn < 94) return begin_capture();
    if (drawn < 96) return end_capture();
    if (drawn < 97) return release_capture();
    if (drawn < 98) return toggle_route();
    if (drawn < 99) return let_go();
    EXPECT_TRUE(pinned().trim().ok());
    model_->trim();
  }

  void allocate_some() {
    if (model_->live.size() > 40) return;
    const size_t bytes = 1 + random_.next() % (size_t{1} << (8 + random_.below(13)));
    const size_t requested_pool = random_.below(model_->pools.size());
    const size_t pool = model_->pools[requested_pool].is_routed_to ? requested_pool : 0;
    const Result<PinnedBlock*> got = pinned().allocate(bytes, stream_of(requested_pool));
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    PinnedBlock* block = *got;
    model_->sweep();
    const std::optional<size_t> best = model_->best_cached_bytes(bytes, pool);
    ModelBlock modelled{.begin = block->memory.begin, .bytes = block->bytes()};
    const auto same = [&](const ModelBlock& each) { return each.begin == modelled.begin; };
    const auto found = std::find_if(model_->cached.begin(), model_->cached.end(), same);
    ASSERT_EQ(block->bytes(), best.value_or(model_->block_bytes(bytes))) << "asked " << bytes;
    ASSERT_EQ(found != model_->cached.end(), best.has_value());
    if (best) {
      ASSERT_EQ(found->pool, pool);
      modelled = *found;
      model_->cached.erase(found);
    } else {
      modelled.pool = pool;
      modelled.is_reserved = model_->cut_reserve(modelled.bytes);
      model_->host_allocs += modelled.is_reserved ? 0 : 1;
    }
    modelled.requested_bytes = bytes;
    block->memory.begin[0] = block->memory.begin[bytes - 1] = tag_of(modelled);
    model_->live.push_back(modelled);
    blocks_[modelled.begin] = block;
  }

  void free_some() {
    if (model_->live.empty()) return;
    const size_t index = random_.below(model_->live.size());
    const ModelBlock freed = model_->live[index];
    model_->live.erase(model_->live.begin() + static_cast<ptrdiff_t>(index));
    PinnedBlock* block = blocks_.at(freed.begin);
    ASSERT_EQ(freed.begin[0], tag_of(freed)) << "another owner wrote here";
    ASSERT_EQ(freed.begin[freed.requested_bytes - 1], tag_of(freed));
    free(block);
    model_->finish_free(freed);
    model_->sweep();
  }

  void use_some() {
    if (model_->live.empty()) return;
    ModelBlock& used = model_->live[random_.below(model_->live.size())];
    const size_t stream = random_.below(kStreamCount);
    const std::byte* inside = used.begin + random_.below(used.bytes);
    const Result<bool> noted = pinned().record_stream(inside, {&device(), streams_[stream]});
    ASSERT_TRUE(noted.ok() && *noted);
    if (model_->streams[stream].is_capturing) {
      used.captures.insert(captures_[stream].value());
    } else {
      used.uses.insert(stream);
    }
  }

  void queue_work() {
    const size_t stream = random_.below(kStreamCount);
    if (model_->streams[stream].is_capturing) return;
    ASSERT_TRUE(device().call_host(streams_[stream], [] {}).ok());
    ++model_->streams[stream].queued_count;
  }

  void finish_stream() {
    const size_t stream = random_.below(kStreamCount);
    if (model_->streams[stream].is_capturing) return;
    finish(streams_[stream]);
    ASSERT_TRUE(machine_->pause_stream(sim::kFirst, streams_[stream]).ok());
    model_->streams[stream].done_count = model_->streams[stream].queued_count;
  }

  void begin_capture() {
    const size_t stream = random_.below(kStreamCount);
    if (model_->streams[stream].is_capturing) return;
    ASSERT_TRUE(device().begin_capture(streams_[stream], CaptureMode::kGlobal).ok());
    captures_[stream] = device().capture_state(streams_[stream])->capture;
    model_->streams[stream].is_capturing = true;
  }

  void end_capture() {
    const size_t stream = random_.below(kStreamCount);
    if (!model_->streams[stream].is_capturing) return;
    const Result<GraphId> graph = device().end_capture(streams_[stream]);
    ASSERT_TRUE(graph.ok()) << "the capture was disturbed: " << graph.status().to_string();
    ASSERT_TRUE(device().destroy_graph(*graph).ok());
    model_->streams[stream].is_capturing = false;
    ended_.push_back(captures_[stream]);
  }

  void release_capture() {
    if (ended_.empty()) return;
    const CaptureId capture = ended_[random_.below(ended_.size())];
    std::erase(ended_, capture);
    std::vector<DeviceStream> launched_on;
    std::set<size_t> launched;
    while (random_.below(2) == 0) {
      const size_t stream = random_.below(kStreamCount);
      launched.insert(stream);
      launched_on.push_back({&device(), streams_[stream]});
    }
    pinned().release_capture(capture, launched_on);
    const auto release = [&](ModelBlock& block) {
      if (block.captures.erase(capture.value()) != 0)
        block.uses.insert(launched.begin(), launched.end());
    };
    for (ModelBlock& block : model_->live) release(block);
    std::vector<ModelBlock> before;
    before.swap(model_->in_graph);
    for (ModelBlock& block : before) {
      release(block);
      model_->finish_free(block);
    }
    model_->sweep();
  }

  // Each pool has its own stream, which only routes allocations to the pool.
  static StreamId stream_of(size_t pool) { return StreamId(1000 + pool); }
  static PoolId id_of(size_t pool) { return {0, pool}; }

  void toggle_route() {
    const size_t index = 1 + random_.below(model_->pools.size() - 1);
    ModelPool& pool = model_->pools[index];
    const auto filter = [index](StreamId stream) { return stream == stream_of(index); };
    const Status ended = pinned().end_routing(id_of(index));
    ASSERT_EQ(ended.ok(), pool.is_routed_to);
    if (std::exchange(pool.is_routed_to, false)) return;
    const Status begun = pinned().begin_routing(id_of(index), filter);
    ASSERT_EQ(begun.ok(), !pool.exists || !pool.is_freeable()) << begun.to_string();
    if (!begun.ok()) return;
    pool.exists = pool.is_routed_to = true;
    ++pool.use_count;
  }

  void let_go() {
    const size_t index = 1 + random_.below(model_->pools.size() - 1);
    ModelPool& pool = model_->pools[index];
    const Status released = pinned().release_pool(id_of(index));
    ASSERT_EQ(released.ok(), pool.exists && pool.use_count > 0);
    if (released.ok()) --pool.use_count;
    ASSERT_EQ(pinned().pool_use_count(id_of(index)).ok(), pool.exists);
  }

  // --- comparison

  static std::byte tag_of(const ModelBlock& block) {
    return static_cast<std::byte>(block.requested_bytes * 31 + 7);
  }

  void compare() {
    const HostStats stats = pinned().stats();
    int64_t active_bytes = 0;
    int64_t requested_bytes = 0;
    int64_t allocated_bytes = 0;
    int64_t pending_bytes = 0;
    for (const auto* list : {&model_->live, &model_->pending, &model_->in_graph}) {
      for (const ModelBlock& block : *list) {
        active_bytes += static_cast<int64_t>(block.bytes);
        requested_bytes += static_cast<int64_t>(block.requested_bytes);
      }
    }
    for (const ModelBlock& block : model_->pending) {
      pending_bytes += static_cast<int64_t>(block.bytes);
    }
    allocated_bytes = active_bytes;
    for (const ModelBlock& block : model_->cached) {
      allocated_bytes += static_cast<int64_t>(block.bytes);
    }
    peak_active_bytes_ = std::max(peak_active_bytes_, active_bytes);
    const size_t active_count =
        model_->live.size() + model_->pending.size() + model_->in_graph.size();
    ASSERT_EQ(stats.active_requests.current, static_cast<int64_t>(active_count));
    ASSERT_EQ(stats.active_bytes.current, active_bytes);
    ASSERT_EQ(stats.requested_bytes.current, requested_bytes);
    ASSERT_EQ(stats.allocated_bytes.current, allocated_bytes);
    ASSERT_EQ(stats.pending_bytes.current, pending_bytes);
    ASSERT_EQ(stats.pending_blocks.current, static_cast<int64_t>(model_->pending.size()));
    ASSERT_EQ(stats.graph_blocks.current, static_cast<int64_t>(model_->in_graph.size()));
    ASSERT_EQ(stats.active_bytes.peak, peak_active_bytes_);
    ASSERT_EQ(stats.host_allocs, static_cast<int64_t>(model_->host_allocs));
    ASSERT_EQ(stats.host_frees, static_cast<int64_t>(model_->host_frees));
    const Status valid = pinned().validate();
    ASSERT_TRUE(valid.ok()) << valid.to_string();
  }

  Random random_;
  std::vector<StreamId> streams_;
  std::unique_ptr<PinnedModel> model_;
  std::map<const std::byte*, PinnedBlock*> blocks_;
  std::array<CaptureId, kStreamCount> captures_{};
  std::vector<CaptureId> ended_;
  int64_t peak_active_bytes_ = 0;
};

TEST_P(PinnedRandomTest, AgreesWithTheModel) {
  for (int i = 0; i < kStepCount; ++i) {
    step();
    ASSERT_FALSE(HasFatalFailure()) << "in step " << i;
    compare();
    ASSERT_FALSE(HasFatalFailure()) << "after step " << i;
  }
  for (size_t i = 0; i < kStreamCount; ++i) {
    if (!model_->streams[i].is_capturing) continue;
    EXPECT_TRUE(device().end_capture(streams_[i]).ok());
  }
}

INSTANTIATE_TEST_SUITE_P(Draws, PinnedRandomTest, ::testing::Range(0, 12));

}  // namespace
}  // namespace ashlar
