// SPDX-License-Identifier: Apache-2.0
//
// The native PyTorch allocator: history, snapshots and hooks.
#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "native_allocator_fixture.h"

namespace ashlar::torch::native {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class NumberedContext final : public c10::GatheredContext {
 public:
  explicit NumberedContext(int context_number) : number(context_number) {}
  const int number;
};
int last_context = 0;
Context gather() { return std::make_shared<NumberedContext>(++last_context); }
int number_of(const Context& context) {
  return context == nullptr ? 0 : static_cast<NumberedContext&>(*context).number;
}

void record(size_t max_entries = 1000, caching::RecordContext when = caching::RecordContext::ALL,
            const std::vector<std::string>& skip_actions = {}) {
  caching::allocator.load()->recordHistory(true, gather, max_entries, when, false, skip_actions);
}

std::vector<int> actions_of(const caching::SnapshotInfo& info) {
  std::vector<int> actions;
  for (const TorchEntry& entry : info.device_traces.at(0)) actions.push_back(entry.action_);
  return actions;
}

TEST_F(NativeAllocatorTest, HistoryHasContextsAndEntries) {
  { const c10::DataPtr warm_up = torch().allocate(4 * kMiB); }
  record();
  EXPECT_TRUE(torch().isHistoryEnabled());
  last_context = 0;
  const c10::DataPtr live = torch().allocate(3 * kMiB);
  { const c10::DataPtr freed = torch().allocate(1000); }
  const caching::SnapshotInfo info = torch().snapshot(kNoPool, true);
  ASSERT_EQ(info.device_traces.size(), 2U);  // one per device
  const std::vector<TorchEntry>& trace = info.device_traces[0];
  ASSERT_GE(trace.size(), 4U);
  EXPECT_EQ(trace.front().action_, TorchEntry::ALLOC);
  EXPECT_EQ(trace.front().addr_, reinterpret_cast<size_t>(live.get()));
  EXPECT_EQ(trace.front().size_, 3 * kMiB);
  EXPECT_GT(trace.front().time_.t_, 1'000'000);
  EXPECT_EQ(number_of(trace.front().context_), 1);
  EXPECT_EQ(trace.back().action_, TorchEntry::SNAPSHOT);
  int contexts_of_live = 0;
  for (const auto& segment : info.segments) {
    for (const auto& block : segment.blocks) {
      if (block.allocated) contexts_of_live += number_of(block.context_when_allocated);
    }
  }
  EXPECT_EQ(contexts_of_live, 1);
  EXPECT_EQ(info.config_metadata.max_split_size, 64U);
  EXPECT_EQ(info.config_metadata.last_allocator_settings, "max_split_size_mb:64");
  EXPECT_THAT(torch().snapshot(kNoPool, false).device_traces[0], IsEmpty());
}

TEST_F(NativeAllocatorTest, ContextOfOneAddressIsThatOfItsAllocation) {
  record();
  last_context = 0;
  const c10::DataPtr first = torch().allocate(3 * kMiB);
  const c10::DataPtr second = torch().allocate(3 * kMiB);
  EXPECT_EQ(number_of(torch().getContextForPointer(first.get())), 1);
  EXPECT_EQ(number_of(torch().getContextForPointer(second.get())), 2);
  int local = 0;
  EXPECT_EQ(torch().getContextForPointer(&local), nullptr);
  void* freed = torch().raw_alloc(3 * kMiB);
  torch().raw_delete(freed);
  EXPECT_EQ(torch().getContextForPointer(freed), nullptr);
}

TEST_F(NativeAllocatorTest, FreesHaveOwnContextsOnlyIfAllAreRecorded) {
  for (const auto when : {caching::RecordContext::ALLOC, caching::RecordContext::ALL}) {
    torch().recordHistory(true, gather, 1000, when, true, {});
    last_context = 0;
    { const c10::DataPtr freed = torch().allocate(1000); }
    std::vector<int> contexts;
    const caching::SnapshotInfo info = torch().snapshot(kNoPool, true);
    for (const TorchEntry& entry : info.device_traces[0]) {
      if (entry.action_ == TorchEntry::FREE_REQUESTED)
        contexts.push_back(number_of(entry.context_));
    }
    EXPECT_THAT(contexts, ElementsAre(when == caching::RecordContext::ALL ? 2 : 1));
  }
}

TEST_F(NativeAllocatorTest, HistoryCanBeLimitedSkippedClearedAndStopped) {
  record(3, caching::RecordContext::NEVER);
  for (int i = 0; i < 5; ++i) (void)torch().allocate(1000);
  EXPECT_EQ(torch().snapshot(kNoPool, true).device_traces[0].size(), 3U);
  torch().recordHistory(true, gather, 100, caching::RecordContext::NEVER, true,
                        {"free_requested", "free_completed", "snapshot"});
  { const c10::DataPtr memory = torch().allocate(1000); }
  EXPECT_THAT(actions_of(torch().snapshot(kNoPool, true)), ElementsAre(TorchEntry::ALLOC));
  torch().recordHistory(false, nullptr, 1, caching::RecordContext::NEVER, false, {});
  EXPECT_FALSE(torch().isHistoryEnabled());
  EXPECT_THAT(torch().snapshot(kNoPool, true).device_traces[0], IsEmpty());
}

TEST_F(NativeAllocatorTest, RefusesInvalidHistoryRequests) {
  EXPECT_THAT(error_of([] {
                torch().recordHistory(true, nullptr, 1, caching::RecordContext::ALL, false, {});
              }),
              HasSubstr("recorder"));
  EXPECT_THAT(error_of([] { record(1, caching::RecordContext::ALL, {"nonsense"}); }),
              HasSubstr("Unknown TraceEntry action: nonsense"));
}

TEST_F(NativeAllocatorTest, EntriesHaveCompileContextAndMetadata) {
  record();
  std::string name = "graph_1";
  torch().pushCompileContext(name);
  torch().setUserMetadata("step 7");
  EXPECT_EQ(torch().getUserMetadata(), "step 7");
  { const c10::DataPtr memory = torch().allocate(1000); }
  torch().popCompileContext();
  torch().setUserMetadata("");
  torch().recordAnnotation({{"name", "forward"}, {"stage", "START"}});
  const caching::SnapshotInfo info = torch().snapshot(kNoPool, true);
  EXPECT_EQ(info.device_traces[0].front().compile_context_, "graph_1");
  EXPECT_EQ(info.device_traces[0].front().user_metadata_, "step 7");
  EXPECT_EQ(info.device_traces[0].back().compile_context_, "N/A");
  ASSERT_EQ(info.external_annotations.size(), 1U);
  EXPECT_EQ(info.external_annotations[0].metadata_.at("name"), "forward");
  EXPECT_GT(info.external_annotations[0].time_.t_, 1'000'000);
}

TEST_F(NativeAllocatorTest, AnnotationsAndCompileContextsNeedRecording) {
  std::string name = "ignored";
  torch().pushCompileContext(name);
  torch().popCompileContext();
  torch().recordAnnotation({{"name", "ignored"}});
  record();
  EXPECT_THAT(torch().snapshot(kNoPool, true).external_annotations, IsEmpty());
}

TEST_F(NativeAllocatorTest, TrackersReceiveOperations) {
  static std::vector<int> actions;  // trackers stay registered
  actions.clear();
  torch().attachAllocatorTraceTracker([](const TorchEntry& entry) {
    if (entry.device_ == 0) actions.push_back(entry.action_);
  });
  torch().emptyCache(kNoPool);
  actions.clear();
  { const c10::DataPtr memory = torch().allocate(4 * kMiB); }
  EXPECT_THAT(actions, ElementsAre(TorchEntry::SEGMENT_MAP, TorchEntry::ALLOC,
                                   TorchEntry::FREE_REQUESTED, TorchEntry::FREE_COMPLETED));
}

TEST_F(NativeAllocatorTest, SnapshotOfPoolHasItsSegmentsOnly) {
  const PoolIdPair pool = new_pool();
  begin(pool);
  const c10::DataPtr inside = torch().allocate(4 * kMiB);
  end(pool);
  const c10::DataPtr outside = torch().allocate(4 * kMiB);
  const auto segments = torch().snapshot(pool, false).segments;
  ASSERT_EQ(segments.size(), 1U);
  EXPECT_EQ(segments[0].owner_private_pool_id, pool);
  EXPECT_EQ(segments[0].active_size, 4 * kMiB);
  EXPECT_EQ(torch().snapshot(kNoPool, false).segments.size(), 2U);
}

TEST_F(NativeAllocatorTest, ContextsOfOldEntriesAreDropped) {
  static int live = 0;
  struct Counted final : c10::GatheredContext {
    Counted() { ++live; }
    ~Counted() override { --live; }
  };
  live = 0;
  torch().recordHistory(true, []() -> Context { return std::make_shared<Counted>(); }, 10,
                        caching::RecordContext::STATE, true, {});
  for (int i = 0; i < 200'000; ++i) (void)torch().allocate(512);
  EXPECT_LE(live, 140'000);
}

TEST_F(NativeAllocatorTest, StoppedHistoryReleasesContexts) {
  static int live = 0;
  struct Counted final : c10::GatheredContext {
    Counted() { ++live; }
    ~Counted() override { --live; }
  };
  live = 0;
  torch().recordHistory(true, []() -> Context { return std::make_shared<Counted>(); }, 10,
                        caching::RecordContext::STATE, true, {});
  const c10::DataPtr kept = torch().allocate(512);
  for (int i = 0; i < 100; ++i) (void)torch().allocate(512);
  EXPECT_GT(live, 50);
  torch().recordHistory(false, nullptr, 1, caching::RecordContext::NEVER, true, {});
  EXPECT_EQ(live, 1) << "the context of the live block";
}

}  // namespace
}  // namespace ashlar::torch::native
