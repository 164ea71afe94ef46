// SPDX-License-Identifier: Apache-2.0
//
// Tests of the history ring: order, times, strings and stacks.
#include "observe/history.h"

#include <gtest/gtest.h>

#include <chrono>

#include "observe/symbols.h"

namespace ashlar {
namespace {

TraceEntry make_entry(uint64_t address, TraceAction action = TraceAction::kAlloc) {
  TraceEntry entry;
  entry.action = action;
  entry.address = DeviceAddress(address);
  return entry;
}

class HistoryTest : public ::testing::Test {
 protected:
  void start(HistoryOptions options) {
    const Status started = history_.start(std::move(options));
    ASSERT_TRUE(started.ok()) << started.to_string();
  }
  void start_with_room_for(size_t entries) {
    HistoryOptions options;
    options.max_entries = entries;
    start(options);
  }
  std::vector<uint64_t> addresses(const History::Position& position = History::Position()) {
    std::vector<uint64_t> found;
    for (const TraceEntry& entry : trace(position)) found.push_back(entry.address.value());
    return found;
  }
  std::vector<TraceEntry> trace(const History::Position& position = History::Position()) {
    snapshot_ = {};
    history_.read_into(snapshot_, DeviceIndex(0), position);
    return snapshot_.device_traces[0];
  }
  std::string text_of(StringId text) const { return snapshot_.tables.strings[text.value()]; }

  History history_;
  Snapshot snapshot_;
};

TEST_F(HistoryTest, RecordsNothingBeforeStart) {
  history_.record(make_entry(1));
  EXPECT_TRUE(addresses().empty());
}

TEST_F(HistoryTest, OverwritesTheOldestEntries) {
  start_with_room_for(3);
  for (uint64_t i = 1; i <= 5; ++i) history_.record(make_entry(i));
  EXPECT_EQ(addresses(), (std::vector<uint64_t>{3, 4, 5}));
}

TEST_F(HistoryTest, OmitsEntriesAfterThePosition) {
  start_with_room_for(4);
  for (uint64_t i = 1; i <= 6; ++i) history_.record(make_entry(i));
  const History::Position position = history_.position();
  EXPECT_EQ(addresses(position), (std::vector<uint64_t>{3, 4, 5, 6}));
  history_.record(make_entry(7));
  history_.annotate(DeviceIndex(0), {{"name", "later"}});
  EXPECT_EQ(addresses(position), (std::vector<uint64_t>{4, 5, 6}));
  EXPECT_TRUE(snapshot_.annotations.empty());
  history_.record(make_entry(8));
  history_.record(make_entry(9));
  EXPECT_EQ(addresses(position), (std::vector<uint64_t>{6}));
  // Once the ring no longer contains the position, all entries are returned.
  history_.record(make_entry(10));
  EXPECT_EQ(addresses(position), (std::vector<uint64_t>{7, 8, 9, 10}));
}

TEST_F(HistoryTest, SpansManyChunks) {
  start_with_room_for(10'000);
  for (uint64_t i = 0; i < 25'000; ++i) history_.record(make_entry(i));
  const std::vector<uint64_t> kept = addresses();
  ASSERT_EQ(kept.size(), 10'000U);
  EXPECT_EQ(kept.front(), 15'000U);
  EXPECT_EQ(kept.back(), 24'999U);
}

TEST_F(HistoryTest, ResizeKeepsTheNewestEntries) {
  start_with_room_for(5);
  for (uint64_t i = 1; i <= 7; ++i) history_.record(make_entry(i));
  start_with_room_for(2);
  EXPECT_EQ(addresses(), (std::vector<uint64_t>{6, 7}));
  start_with_room_for(4);
  for (uint64_t i = 8; i <= 10; ++i) history_.record(make_entry(i));
  EXPECT_EQ(addresses(), (std::vector<uint64_t>{7, 8, 9, 10}));
}

TEST_F(HistoryTest, ClearAndStopDropEntries) {
  start_with_room_for(5);
  history_.record(make_entry(1));
  HistoryOptions options;
  options.max_entries = 5;
  options.clear = true;
  start(options);
  EXPECT_TRUE(addresses().empty());
  history_.record(make_entry(2));
  history_.stop();
  EXPECT_TRUE(addresses().empty());
  history_.record(make_entry(3));
  EXPECT_TRUE(addresses().empty());
}

TEST_F(HistoryTest, SkipsFilteredActions) {
  HistoryOptions options;
  options.skip_actions = {TraceAction::kFreeRequested};
  start(options);
  history_.record(make_entry(1));
  history_.record(make_entry(1, TraceAction::kFreeRequested));
  history_.record(make_entry(1, TraceAction::kFreeCompleted));
  EXPECT_EQ(trace().size(), 2U);
}

TEST_F(HistoryTest, TimesAreUnixTimesInOrder) {
  const auto unix_us = [] {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  };
  start_with_room_for(1000);
  const int64_t before = unix_us();
  for (uint64_t i = 0; i < 1000; ++i) history_.record(make_entry(i));
  const std::vector<TraceEntry> entries = trace();
  const int64_t after = unix_us();
  int64_t last = before - 1000;  // the two clocks may differ by 1000 us
  for (const TraceEntry& entry : entries) {
    EXPECT_GE(entry.time_us, last);
    last = entry.time_us;
  }
  EXPECT_LE(last, after + 1000);
}

TEST_F(HistoryTest, StampsThreadContextOnEntries) {
  start_with_room_for(10);
  history_.record(make_entry(1));
  push_compile_context("outer");
  push_compile_context("inner");
  set_user_metadata("epoch 3");
  history_.record(make_entry(2));
  pop_compile_context();
  set_user_metadata("");
  history_.record(make_entry(3));
  pop_compile_context();
  pop_compile_context();  // an unmatched pop is ignored
  const std::vector<TraceEntry> entries = trace();
  EXPECT_EQ(entries[0].compile_context, StringId());
  EXPECT_EQ(text_of(entries[1].compile_context), "inner");
  EXPECT_EQ(text_of(entries[1].user_metadata), "epoch 3");
  EXPECT_EQ(text_of(entries[2].compile_context), "outer");
  EXPECT_EQ(entries[2].user_metadata, StringId());
}

TEST_F(HistoryTest, AnnotationsHaveTheirOwnRing) {
  start_with_room_for(2);
  for (const char* name : {"a", "b", "c"}) history_.annotate(DeviceIndex(0), {{"name", name}});
  trace();
  ASSERT_EQ(snapshot_.annotations.size(), 2U);
  EXPECT_EQ(snapshot_.annotations[0].fields[0].second, "b");
  EXPECT_EQ(snapshot_.annotations[1].fields[0].second, "c");
}

TEST_F(HistoryTest, ResizeKeepsAnnotationOrder) {
  const auto names = [&] {
    trace();
    std::string all;
    for (const Annotation& each : snapshot_.annotations) all += each.fields[0].second;
    return all;
  };
  start_with_room_for(3);
  for (const char* name : {"a", "b", "c", "d"}) history_.annotate(DeviceIndex(0), {{"name", name}});
  start_with_room_for(4);
  history_.annotate(DeviceIndex(0), {{"name", "e"}});
  EXPECT_EQ(names(), "bcde");
  start_with_room_for(2);
  EXPECT_EQ(names(), "de");
  history_.annotate(DeviceIndex(0), {{"name", "f"}});
  EXPECT_EQ(names(), "ef");
}

TEST_F(HistoryTest, DropsStringsWithoutEntries) {
  start_with_room_for(10);
  for (uint64_t i = 0; i < 1000; ++i) {
    const std::string text = "step " + std::to_string(i);
    history_.record_annotation(make_entry(i), text);
  }
  const std::vector<TraceEntry> entries = trace();
  EXPECT_EQ(text_of(entries.front().user_metadata), "step 990");
  EXPECT_EQ(text_of(entries.back().user_metadata), "step 999");
  EXPECT_LE(snapshot_.tables.strings.size(), 50U);
  history_.stop();
  trace();
  EXPECT_EQ(snapshot_.tables.strings.size(), 1U) << "the empty one";
}

// A provider that returns no frames, and reads the history in its destructor.
class HistoryReadingProvider final : public FrameProvider {
 public:
  explicit HistoryReadingProvider(History& history) : history_(history) {}
  ~HistoryReadingProvider() override {
    Snapshot snapshot;
    history_.read_into(snapshot, DeviceIndex(0));
  }
  size_t gather(std::span<uint64_t>) override { return 0; }
  void keep(uint64_t) override {}
  Frame describe(uint64_t) override { return {}; }

 private:
  History& history_;
};

TEST_F(HistoryTest, ProviderMayUseTheHistoryWhenDestroyed) {
  HistoryOptions options;
  options.context = RecordContext::kAll;
  options.provider = std::make_shared<HistoryReadingProvider>(history_);
  const std::weak_ptr<FrameProvider> first = options.provider;
  start(std::move(options));
  EXPECT_NE(history_.capture(RecordContext::kState, nullptr), StackId()) << "native frames";
  start_with_room_for(10);
  EXPECT_TRUE(first.expired()) << "replaced";

  HistoryOptions again;
  again.context = RecordContext::kAll;
  again.provider = std::make_shared<HistoryReadingProvider>(history_);
  const std::weak_ptr<FrameProvider> second = again.provider;
  start(std::move(again));
  history_.stop();
  EXPECT_TRUE(second.expired());
}

// --- stacks

__attribute__((noinline)) StackId capture_caller(History& history) {
  return history.capture(RecordContext::kState, __builtin_return_address(0));
}

__attribute__((noinline)) StackId capture_from_here(History& history) {
  const StackId stack = capture_caller(history);
  asm volatile("");  // prevents a tail call
  return stack;
}

TEST_F(HistoryTest, CapturesStacksFromTheRequestedLevel) {
  HistoryOptions options;
  options.context = RecordContext::kAlloc;
  start(options);
  EXPECT_NE(history_.capture(RecordContext::kState, nullptr), StackId());
  EXPECT_EQ(history_.capture(RecordContext::kAll, nullptr), StackId());
  options.context = RecordContext::kNever;
  start(options);
  EXPECT_EQ(history_.capture(RecordContext::kNever, nullptr), StackId());
}

TEST_F(HistoryTest, EntriesHaveStacksFromLevelAlloc) {
  HistoryOptions options;
  options.context = RecordContext::kState;
  start(options);
  TraceEntry entry = make_entry(1);
  entry.stack = history_.capture(RecordContext::kState, nullptr);
  history_.record(entry);
  options.context = RecordContext::kAlloc;
  start(options);
  history_.record(entry);
  const std::vector<TraceEntry> entries = trace();
  EXPECT_EQ(entries[0].stack, StackId());
  EXPECT_EQ(entries[1].stack, entry.stack);
}

TEST_F(HistoryTest, InternsAndSymbolizesStacks) {
  HistoryOptions options;
  options.context = RecordContext::kAll;
  start(options);
  StackId first, second;
  for (StackId* stack : {&first, &second}) *stack = capture_from_here(history_);
  EXPECT_EQ(first, second);
  SnapshotTables tables;
  StackTable::SnapshotCache cache;
  const Symbolizer symbolizer;
  const StackId read = history_.stacks().add_to(tables, first, cache, symbolizer);
  EXPECT_EQ(history_.stacks().add_to(tables, first, cache, symbolizer), read);
  const Stack& stack = tables.stacks[read.value()];
  ASSERT_GE(stack.frames.size(), 2U);
  const Frame& innermost = tables.frames[stack.frames[0]];
  EXPECT_NE(innermost.name.find("capture_from_here"), std::string::npos) << innermost.name;
  EXPECT_NE(innermost.filename.find("history_test.cc"), std::string::npos) << innermost.filename;
  EXPECT_GT(innermost.line, 0);
}

class Interpreter : public FrameProvider {
 public:
  size_t gather(std::span<uint64_t> frames) override {
    frames[0] = 7;
    frames[1] = 8;
    return 2;
  }
  void keep(uint64_t frame) override { kept.push_back(frame); }
  Frame describe(uint64_t frame) override {
    return {"python" + std::to_string(frame), "a.py", 1, {}};
  }
  std::vector<uint64_t> kept;
};

TEST_F(HistoryTest, ProviderFramesComeFirst) {
  const auto interpreter = std::make_shared<Interpreter>();
  HistoryOptions options;
  options.context = RecordContext::kAll;
  options.native_stacks = false;
  options.provider = interpreter;
  start(options);
  const StackId stack = history_.capture(RecordContext::kAll, nullptr);
  EXPECT_EQ(history_.capture(RecordContext::kAll, nullptr), stack);
  EXPECT_EQ(interpreter->kept, (std::vector<uint64_t>{7, 8}));
  SnapshotTables tables;
  StackTable::SnapshotCache cache;
  const StackId read = history_.stacks().add_to(tables, stack, cache, Symbolizer());
  ASSERT_EQ(tables.stacks[read.value()].frames.size(), 2U);
  EXPECT_EQ(tables.frames[tables.stacks[read.value()].frames[0]].name, "python7");
}

TEST_F(HistoryTest, RecorderReplacesStacks) {
  HistoryOptions options;
  options.context = RecordContext::kAll;
  options.native_stacks = false;
  uint32_t last = 0;
  ASSERT_TRUE(history_.start(options, [&] { return recorded_stack_id(++last); }).ok());
  TraceEntry entry = make_entry(1);
  entry.stack = history_.capture(RecordContext::kState, nullptr);
  EXPECT_EQ(entry.stack, recorded_stack_id(1));
  history_.record(entry);
  EXPECT_EQ(history_.stacks_in_use(), std::vector<StackId>{recorded_stack_id(1)});
  EXPECT_EQ(trace()[0].stack, recorded_stack_id(1));
  SnapshotTables tables;
  StackTable::SnapshotCache cache;
  EXPECT_EQ(history_.stacks().add_to(tables, entry.stack, cache, Symbolizer()), StackId());
  options.native_stacks = true;
  start(options);
  EXPECT_FALSE(is_recorded_stack(history_.capture(RecordContext::kState, nullptr)));
}

TEST_F(HistoryTest, RejectsStacksWithoutSource) {
  HistoryOptions options;
  options.context = RecordContext::kAll;
  options.native_stacks = false;
  EXPECT_EQ(history_.start(options).kind(), StatusKind::kInvalidArgument);
  EXPECT_FALSE(history_.is_on());
}

}  // namespace
}  // namespace ashlar
