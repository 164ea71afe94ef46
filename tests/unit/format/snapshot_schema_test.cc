// SPDX-License-Identifier: Apache-2.0
//
// Tests all versions of PyTorch's schema, and invalid files. The file is long because each version
// of the schema needs its own sample.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "base/text.h"
#include "unit/format/read_pickle.h"

namespace ashlar {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace pickle;
using namespace std::string_literals;

std::string block(int32_t bytes, std::string_view state) {
  return dict({{"size", number(bytes)}, {"state", string(state)}});
}

std::string file_with_segment(const std::string& segment) {
  return dict({{"segments", list({segment})}, {"device_traces", list({})}});
}

std::string file_with_entries(std::initializer_list<std::string> entries) {
  return dict({{"segments", list({})}, {"device_traces", list({list(entries)})}});
}

std::string frame(std::string_view name, int32_t line) {
  return dict({{"name", string(name)}, {"filename", string("f.py")}, {"line", number(line)}});
}

TEST(SnapshotSchema, ReadsAllFieldsOfTheNewestEntry) {
  const Result<Snapshot> snapshot = read(file_with_entries({dict({
      {"action", string("alloc")},
      {"addr", number(4096)},
      {"size", number(100)},
      {"stream", number(7)},
      {"time_us", number(12)},
      {"compile_context", string("Torch-Compiled Region: 0/0")},
      {"user_metadata", string("step 3")},
      {"pool_id", pair(1, 2)},
      {"frames", list({frame("inner", 1), frame("outer", 2)})},
      {"category", string("ignored")},
  })}));
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  const TraceEntry& entry = snapshot->device_traces[0][0];
  EXPECT_EQ(entry.action, TraceAction::kAlloc);
  EXPECT_EQ(entry.address, DeviceAddress(4096));
  EXPECT_EQ(entry.bytes, 100u);
  EXPECT_EQ(entry.stream, StreamId(7));
  EXPECT_EQ(entry.time_us, 12);
  EXPECT_EQ(entry.pool, (PoolId{1, 2}));
  EXPECT_TRUE(entry.has_pool && entry.has_time);
  const SnapshotTables& tables = snapshot->tables;
  EXPECT_EQ(tables.strings[entry.compile_context.value()], "Torch-Compiled Region: 0/0");
  EXPECT_EQ(tables.strings[entry.user_metadata.value()], "step 3");
  const Stack& stack = tables.stacks[entry.stack.value()];
  ASSERT_EQ(stack.frames.size(), 2u);
  EXPECT_EQ(tables.frames[stack.frames[0]],
            (Frame{.name = "inner", .filename = "f.py", .line = 1, .extra = {}}));
}

TEST(SnapshotSchema, MarksMissingFieldsOfTheOldestEntry) {
  const Result<Snapshot> snapshot =
      read(file_with_entries({dict({{"action", string("free_completed")},
                                    {"addr", number(4096)},
                                    {"size", number(100)},
                                    {"stream", number(0)}})}));
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  const TraceEntry& entry = snapshot->device_traces[0][0];
  EXPECT_FALSE(entry.has_pool || entry.has_time || entry.has_compile_context ||
               entry.has_user_metadata);
  EXPECT_EQ(entry.stack, StackId());
}

TEST(SnapshotSchema, ReadsEveryAction) {
  for (int i = 0; i <= static_cast<int>(TraceAction::kAnnotate); ++i) {
    const TraceAction action = static_cast<TraceAction>(i);
    const Result<Snapshot> snapshot =
        read(file_with_entries({dict({{"action", string(name(action))}, {"size", number(1)}})}));
    ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
    EXPECT_EQ(snapshot->device_traces[0][0].action, action);
  }
}

TEST(SnapshotSchema, ReadsDeviceFreeOfAnOom) {
  const Result<Snapshot> snapshot = read(file_with_entries(
      {dict({{"action", string("oom")}, {"device_free", number(77)}, {"size", number(100)}})}));
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  EXPECT_EQ(snapshot->device_traces[0][0].address, DeviceAddress(77));
}

TEST(SnapshotSchema, MapsMissingStringsToZero) {
  const Result<Snapshot> snapshot =
      read(file_with_entries({dict({{"action", string("alloc")},
                                    {"size", number(1)},
                                    {"compile_context", string("N/A")},
                                    {"user_metadata", string("")}})}));
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  EXPECT_EQ(snapshot->device_traces[0][0].compile_context, StringId());
  EXPECT_EQ(snapshot->device_traces[0][0].user_metadata, StringId());
  EXPECT_TRUE(snapshot->device_traces[0][0].has_compile_context);
}

TEST(SnapshotSchema, ReadsEntriesBuiltInSteps) {
  const std::string entry =
      "}" + string("action") + string("alloc") + "s" + string("size") + number(5) + "s";
  const Result<Snapshot> snapshot = read(file_with_entries({entry}));
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  EXPECT_EQ(snapshot->device_traces[0][0].bytes, 5u);
}

TEST(SnapshotSchema, ReadsTracesByDevice) {
  const std::string entry = dict({{"action", string("alloc")}, {"size", number(5)}});
  const Result<Snapshot> snapshot =
      read(dict({{"device_traces", list({list({}), list({entry, entry}), list({entry})})}}));
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  ASSERT_EQ(snapshot->device_traces.size(), 3u);
  EXPECT_EQ(snapshot->device_traces[1].size(), 2u);
  EXPECT_EQ(snapshot->device_traces[1][1].device, DeviceIndex(1));
  EXPECT_EQ(snapshot->device_traces[2][0].device, DeviceIndex(2));
}

TEST(SnapshotSchema, AcceptsARepeatedEntry) {
  const std::string entry = dict({{"action", string("alloc")}, {"size", number(5)}});
  const Result<Snapshot> snapshot =
      read(dict({{"device_traces", list({list({entry + "q\x01", "h\x01"}), list({"h\x01"})})}}));
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  EXPECT_EQ(snapshot->device_traces[0].size(), 2u);
  EXPECT_EQ(snapshot->device_traces[1][0].bytes, 5u);
}

TEST(SnapshotSchema, ReadsNegativeAddressesAndStreams) {
  const std::string lowest = "\x8a\x08\0\0\0\0\0\0\0\x80"s;
  const Result<Snapshot> snapshot =
      read(file_with_entries({dict({{"action", string("alloc")},
                                    {"addr", lowest},
                                    {"size", number(1)},
                                    {"stream", number(-1)}}),
                              dict({{"action", string("alloc")},
                                    {"addr", large_number(1ull << 63)},
                                    {"size", number(1)}})}));
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  EXPECT_EQ(snapshot->device_traces[0][0].address, DeviceAddress(1ull << 63));
  EXPECT_EQ(snapshot->device_traces[0][1].address, DeviceAddress(1ull << 63));
  EXPECT_EQ(snapshot->device_traces[0][0].stream, StreamId(~uint64_t{0}));
}

TEST(SnapshotSchema, InternsEqualStacks) {
  const auto entry = [](const std::string& frames) {
    return dict({{"action", string("alloc")}, {"size", number(1)}, {"frames", frames}});
  };
  const Result<Snapshot> snapshot =
      read(file_with_entries({entry(list({frame("a", 1)}) + "q\x05"), entry("h\x05"),
                              entry(list({frame("a", 1)})), entry(list({frame("b", 1)}))}));
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  const std::vector<TraceEntry>& trace = snapshot->device_traces[0];
  EXPECT_EQ(trace[0].stack, trace[1].stack);
  EXPECT_EQ(trace[0].stack, trace[2].stack);
  EXPECT_NE(trace[0].stack, trace[3].stack);
  EXPECT_EQ(snapshot->tables.stacks.size(), 3u);
  EXPECT_EQ(snapshot->tables.frames.size(), 3u);
}

TEST(SnapshotSchema, DistinguishesAnEmptyStackFromNone) {
  const Result<Snapshot> snapshot = read(file_with_entries(
      {dict({{"action", string("alloc")}, {"size", number(1)}, {"frames", list({})}})}));
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  const StackId stack = snapshot->device_traces[0][0].stack;
  EXPECT_NE(stack, StackId());
  EXPECT_TRUE(snapshot->tables.stacks[stack.value()].frames.empty());
}

TEST(SnapshotSchema, ReadsLineMinusOneAsUnknown) {
  for (const std::string& line : {number(-1), large_number(UINT64_MAX)}) {
    const std::string frame =
        dict({{"name", string("f")}, {"filename", string("f.py")}, {"line", line}});
    const Result<Snapshot> snapshot = read(file_with_entries(
        {dict({{"action", string("alloc")}, {"size", number(1)}, {"frames", list({frame})}})}));
    ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
    EXPECT_EQ(snapshot->tables.frames[1].line, 0);
  }
}

TEST(SnapshotSchema, KeepsCompilerFieldsAndForwardStacks) {
  const std::string augmented = dict({{"name", string("f")},
                                      {"filename", string("g")},
                                      {"line", number(3)},
                                      {"fx_node_op", string("call")},
                                      {"other", number(1)}});
  const Result<Snapshot> snapshot = read(file_with_entries(
      {dict({{"action", string("alloc")},
             {"size", number(1)},
             {"frames", list({augmented})},
             {"forward_frames", list({string("one"), string("two")}) + "q\x07"}}),
       dict({{"action", string("alloc")}, {"size", number(1)}, {"forward_frames", "h\x07"}})}));
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  const SnapshotTables& tables = snapshot->tables;
  const Stack& both = tables.stacks[snapshot->device_traces[0][0].stack.value()];
  const Stack& forward_only = tables.stacks[snapshot->device_traces[0][1].stack.value()];
  EXPECT_THAT(both.forward, ElementsAre("one", "two"));
  EXPECT_THAT(forward_only.forward, ElementsAre("one", "two"));
  EXPECT_EQ(both.frames.size(), 1u);
  EXPECT_TRUE(forward_only.frames.empty());
  EXPECT_THAT(tables.frames[both.frames[0]].extra,
              ElementsAre(std::pair<std::string, std::string>("fx_node_op", "call")));
}

TEST(SnapshotSchema, ReadsAllFieldsOfASegment) {
  const std::string segment = dict({
      {"device", number(3)},
      {"address", number(8192)},
      {"total_size", number(30)},
      {"allocated_size", number(10)},
      {"active_size", number(15)},
      {"requested_size", number(13)},
      {"stream", number(9)},
      {"segment_type", string("large")},
      {"segment_pool_id", pair(0, 4)},
      {"is_expandable", boolean(true)},
      {"frames", list({})},
      {"blocks", list({dict({{"address", number(8192)},
                             {"size", number(10)},
                             {"requested_size", number(9)},
                             {"state", string("active_allocated")},
                             {"frames", list({frame("a", 1)})}}),
                       block(5, "active_pending_free"), block(15, "inactive")})},
  });
  const Result<Snapshot> snapshot = read(file_with_segment(segment));
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  const SnapshotSegment& read = snapshot->segments[0];
  EXPECT_EQ(read.device, DeviceIndex(3));
  EXPECT_EQ(read.address, DeviceAddress(8192));
  EXPECT_EQ(read.total_bytes, 30u);
  EXPECT_EQ(read.allocated_bytes, 10u);
  EXPECT_EQ(read.active_bytes, 15u);
  EXPECT_EQ(read.requested_bytes, 13u);
  EXPECT_EQ(read.stream, StreamId(9));
  EXPECT_TRUE(read.is_large && read.is_expandable);
  EXPECT_EQ(read.pool, (PoolId{0, 4}));
  EXPECT_EQ(read.stack, StackId());
  ASSERT_EQ(read.blocks.size(), 3u);
  EXPECT_EQ(read.blocks[0].requested_bytes, 9u);
  EXPECT_NE(read.blocks[0].stack, StackId());
  EXPECT_EQ(read.blocks[1].address, DeviceAddress(8202));
  EXPECT_EQ(read.blocks[1].state, SnapshotBlockState::kPendingFree);
  EXPECT_EQ(read.blocks[2].state, SnapshotBlockState::kInactive);
}

TEST(SnapshotSchema, ReadsABareListOfSegments) {
  const std::string history =
      list({dict({{"real_size", number(7)}, {"frames", list({frame("a", 1)})}}),
            dict({{"real_size", number(99)}})});
  const std::string segment =
      dict({{"address", number(4096)},
            {"total_size", number(30)},
            {"blocks", list({dict({{"size", number(10)},
                                   {"state", string("active_allocated")},
                                   {"history", history}}),
                             block(5, "active_awaiting_free"), block(15, "inactive")})}});
  const Result<Snapshot> snapshot = read(list({segment}));
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  const SnapshotSegment& read = snapshot->segments[0];
  EXPECT_EQ(read.allocated_bytes, 10u);
  EXPECT_EQ(read.active_bytes, 15u);
  EXPECT_EQ(read.requested_bytes, 12u);
  EXPECT_EQ(read.blocks[0].requested_bytes, 7u);
  EXPECT_NE(read.blocks[0].stack, StackId());
}

TEST(SnapshotSchema, ConvertsOrIgnoresLegacyActions) {
  const Result<Snapshot> snapshot = read(file_with_entries(
      {dict({{"action", string("free")}, {"addr", number(1)}, {"size", number(2)}}),
       dict({{"action", string("user_defined")}, {"size", number(0)}}),
       dict({{"action", string("alloc")}, {"addr", number(1)}, {"size", number(2)}})}));
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  ASSERT_EQ(snapshot->device_traces[0].size(), 2u);
  EXPECT_EQ(snapshot->device_traces[0][0].action, TraceAction::kFreeCompleted);
  EXPECT_EQ(snapshot->device_traces[0][1].action, TraceAction::kAlloc);
}

TEST(SnapshotSchema, ReadsAnnotationsSettingsAndHostMemory) {
  const std::string entry = dict({{"action", string("alloc")}, {"size", number(5)}});
  const Result<Snapshot> snapshot = read(dict({
      {"device_traces", list({})},
      {"external_annotations", list({dict({{"name", string("step")},
                                           {"stage", string("START")},
                                           {"device", number(1)},
                                           {"time_us", number(9)}})})},
      {"allocator_settings", dict({{"a", boolean(true)},
                                   {"b", number(-1)},
                                   {"c", "G\x3f\xf8\0\0\0\0\0\0"s},
                                   {"d", string("x")},
                                   {"e", dict({{"1", number(4)}})},
                                   {"f", "N"}})},
      {"host_segments",
       list({dict({{"total_size", number(4)}, {"blocks", list({block(4, "inactive")})}})})},
      {"host_traces", list({list({entry})})},
      {"something_new", list({number(1)})},
  }));
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  const Annotation& annotation = snapshot->annotations.at(0);
  EXPECT_EQ(annotation.device, DeviceIndex(1));
  EXPECT_EQ(annotation.time_us, 9);
  EXPECT_EQ(annotation.fields.at(1), (std::pair<std::string, std::string>("stage", "START")));
  ASSERT_EQ(snapshot->settings.size(), 5u);
  EXPECT_EQ(snapshot->settings[0].second, SettingValue(true));
  EXPECT_EQ(snapshot->settings[1].second, SettingValue(int64_t{-1}));
  EXPECT_EQ(snapshot->settings[2].second, SettingValue(1.5));
  EXPECT_EQ(snapshot->settings[3].second, SettingValue(std::string("x")));
  EXPECT_EQ(std::get<4>(snapshot->settings[4].second).at(0).second, 4);
  EXPECT_EQ(snapshot->host_segments.size(), 1u);
  EXPECT_EQ(snapshot->host_traces.at(0).size(), 1u);
}

TEST(SnapshotSchema, ReportsTheLocationOfWrongTypes) {
  EXPECT_THAT(read_error_message(number(1)),
              HasSubstr("the file contains an integer (expected a dict"));
  EXPECT_THAT(read_error_message(dict({{"a", number(1)}})), HasSubstr("neither \"segments\" nor"));
  EXPECT_THAT(read_error_message(dict({{"segments", number(1)}})),
              HasSubstr("\"segments\": found 1 (expected a list)"));
  EXPECT_THAT(read_error_message(file_with_segment(string("x"))),
              HasSubstr("segments[0]: \"segments\": found \"x\" (expected a dict)"));
  EXPECT_THAT(
      read_error_message(file_with_segment(dict({{"total_size", boolean(true)}}))),
      HasSubstr("segments[0]: \"total_size\": found a boolean (expected a number of bytes)"));
  EXPECT_THAT(read_error_message(file_with_segment(dict({{"segment_type", string("big")}}))),
              HasSubstr("found \"big\" (expected large or small)"));
  EXPECT_THAT(read_error_message(file_with_segment(dict({{"device", number(-1)}}))),
              HasSubstr("\"device\": found -1 (expected a device from 0"));
  EXPECT_THAT(
      read_error_message(file_with_segment(dict(
          {{"total_size", number(4)}, {"blocks", list({dict({{"state", string("asleep")}})})}}))),
      HasSubstr("segments[0].blocks[0]: \"state\": found \"asleep\""));
  EXPECT_THAT(read_error_message(file_with_entries({number(1)})),
              HasSubstr("device_traces[0][0]: "));
  EXPECT_THAT(read_error_message(file_with_entries({dict({{"size", number(1)}})})),
              HasSubstr("\"action\" is missing"));
  EXPECT_THAT(read_error_message(file_with_entries({dict({{"action", string("alloc")}})})),
              HasSubstr("device_traces[0][0]: \"size\" is missing"));
  EXPECT_THAT(read_error_message(dict({{"device_traces", list({number(1)})}})),
              HasSubstr("device_traces[0]: "));
}

TEST(SnapshotSchema, ReportsTheOffsetOfWrongEntries) {
  const auto problem = [](std::string_view key, const std::string& value) {
    return read_error_message(file_with_entries(
        {dict({{"action", string("alloc")}, {"size", number(1)}, {key, value}})}));
  };
  EXPECT_THAT(problem("action", string("dance")),
              HasSubstr("SETITEMS: \"action\": found \"dance\" (expected the name of an action"));
  EXPECT_THAT(problem("size", number(-5)), HasSubstr("\"size\": found -5"));
  EXPECT_THAT(problem("addr", string("x")), HasSubstr("\"addr\": found \"x\""));
  EXPECT_THAT(problem("stream", boolean(true)), HasSubstr("\"stream\": found a boolean"));
  EXPECT_THAT(problem("time_us", large_number(~0ull)), HasSubstr("\"time_us\": found 1844"));
  EXPECT_THAT(problem("pool_id", list({number(1)})), HasSubstr("expected two integers"));
  EXPECT_THAT(problem("user_metadata", "N"), HasSubstr("\"user_metadata\": found None"));
  EXPECT_THAT(problem("frames", number(1)), HasSubstr("\"frames\": found 1 (expected a list)"));
  EXPECT_THAT(problem("frames", list({number(1)})), HasSubstr("\"frames\": found 1"));
  EXPECT_THAT(problem("frames", list({dict({{"line", "N"}})})), HasSubstr("\"line\": found None"));
  EXPECT_THAT(problem("forward_frames", list({number(1)})), HasSubstr("\"forward_frames\""));
}

TEST(SnapshotSchema, RejectsBlocksThatDoNotTileTheirSegment) {
  const auto problem = [](std::initializer_list<std::string> blocks) {
    return read_error_message(file_with_segment(
        dict({{"address", number(100)}, {"total_size", number(10)}, {"blocks", list(blocks)}})));
  };
  EXPECT_THAT(problem({block(9, "inactive")}), HasSubstr("9 bytes in total (expected the segment"));
  EXPECT_THAT(problem({block(11, "inactive")}), HasSubstr("does not tile its segment"));
  EXPECT_THAT(problem({dict({{"address", number(101)}, {"size", number(10)}})}),
              HasSubstr("does not tile its segment (expected 0x64"));
  EXPECT_THAT(
      read_error_message(file_with_segment(dict({{"address", large_number(~0ull)},
                                                 {"total_size", number(10)},
                                                 {"blocks", list({block(10, "inactive")})}}))),
      HasSubstr("overflows the address space"));
}

constexpr uint64_t kMaxSize = uint64_t{1} << 47;

std::string segment_at(uint64_t address, uint64_t bytes, int32_t device = 0) {
  const std::string block = dict({{"size", large_number(bytes)}, {"state", string("inactive")}});
  return dict({{"device", number(device)},
               {"address", large_number(address)},
               {"total_size", large_number(bytes)},
               {"blocks", list({block})}});
}

std::string file_with_segments(std::initializer_list<std::string> segments) {
  return dict({{"segments", list(segments)}});
}

TEST(SnapshotSchema, RejectsSizesBeyondTheAddressSpace) {
  EXPECT_TRUE(read(file_with_segments({segment_at(0, kMaxSize)})).ok());
  EXPECT_THAT(read_error_message(file_with_segments({segment_at(0, kMaxSize + 1)})),
              HasSubstr("found 140737488355329 (expected a number of bytes up to 2^47)"));
  const auto entry = [](std::string_view action, uint64_t bytes) {
    return file_with_entries({dict({{"size", large_number(bytes)}, {"action", string(action)}})});
  };
  EXPECT_TRUE(read(entry("alloc", kMaxSize)).ok());
  EXPECT_THAT(read_error_message(entry("alloc", kMaxSize + 1)),
              HasSubstr("\"size\": found 140737488355329 (expected a number of bytes up to 2^47)"));
}

// A program can request more memory than any device has.
TEST(SnapshotSchema, AcceptsAnySizeOfFailedRequests) {
  const uint64_t bytes = (uint64_t{1} << 63) - 1;
  const Result<Snapshot> snapshot =
      read(file_with_entries({dict({{"action", string("oom")}, {"size", large_number(bytes)}}),
                              dict({{"size", large_number(bytes)}, {"action", string("oom")}})}));
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  EXPECT_EQ(snapshot->device_traces[0][1].bytes, bytes);
}

TEST(SnapshotSchema, RejectsOverlappingSegmentsOfOneDevice) {
  EXPECT_TRUE(
      read(file_with_segments({segment_at(8, 8), segment_at(0, 8), segment_at(8, 0)})).ok());
  EXPECT_TRUE(read(file_with_segments({segment_at(0, 8, 0), segment_at(4, 8, 1)})).ok());
  EXPECT_TRUE(read(dict({{"segments", list({segment_at(0, 8)})},
                         {"host_segments", list({segment_at(0, 8)})}}))
                  .ok());
  EXPECT_THAT(read_error_message(file_with_segments({segment_at(8, 8), segment_at(0, 9)})),
              HasSubstr("segments: the segment of device 0 at 0x0 has 9 bytes and overlaps"));
  EXPECT_THAT(
      read_error_message(dict(
          {{"segments", list({})}, {"host_segments", list({segment_at(0, 8), segment_at(0, 8)})}})),
      HasSubstr("host_segments: the segment of device 0 at 0x0"));
}

TEST(SnapshotSchema, RejectsSizesWhoseSumOverflows) {
  const std::string entry = dict({{"action", string("alloc")}, {"size", large_number(kMaxSize)}});
  const auto file_with = [&](size_t count) {
    std::string entries;
    for (size_t i = 0; i < count; ++i) entries += entry;
    return dict({{"device_traces", list({"](" + entries + "e"})}});
  };
  EXPECT_TRUE(read(file_with(size_t{1} << 15)).ok());
  EXPECT_THAT(read_error_message(file_with((size_t{1} << 15) + 1)),
              HasSubstr("the sizes add up to more than 2^62 bytes"));
}

TEST(SnapshotSchema, RejectsEntriesModifiedAfterUse) {
  const std::string entry = dict({{"action", string("alloc")}, {"size", number(5)}});
  EXPECT_THAT(read_error_message(file_with_entries({entry + string("size") + number(6) + "s"})),
              HasSubstr("SETITEM: a dict is modified after it was used"));
}

TEST(SnapshotSchema, RejectsStacksModifiedAfterUse) {
  const std::string entry = dict({{"action", string("alloc")},
                                  {"size", number(5)},
                                  {"frames", list({frame("a", 1)}) + "q\x01"}});
  EXPECT_THAT(read_error_message(file_with_entries({entry, "h\x01Na"})),
              HasSubstr("APPEND: a list is modified after it was used"));
}

TEST(SnapshotSchema, RejectsCycles) {
  EXPECT_THAT(read_error_message("]q\x01(h\x01\x65"), HasSubstr("found a list (expected a dict)"));
  const std::string entry =
      dict({{"action", string("alloc")}, {"size", number(5)}, {"frames", "]q\x01(h\x01\x65"}});
  EXPECT_THAT(read_error_message(file_with_entries({entry})),
              HasSubstr("found a list (expected a dict)"));
}

TEST(SnapshotSchema, RejectsExplosiveSharing) {
  // One list of thousands of blocks is shared by thousands of segments. The 400 kB would expand to
  // 16 million blocks.
  const size_t count = 4000;
  std::string blocks = "](";
  for (size_t i = 0; i < count; ++i) blocks += i == 0 ? block(0, "inactive") + "q\x01" : "h\x01";
  blocks += "eq\x02";
  const std::string first = dict({{"blocks", blocks}});
  const std::string other = dict({{"blocks", "h\x02"}});
  EXPECT_THAT(read_error_message("](" + first + repeat(other, count) + "e"),
              HasSubstr("shared parts of the file expand"));
  const std::string entry = dict({{"action", string("alloc")}, {"size", number(5)}});
  const std::string trace = "](" + entry + "q\x02" + repeat("h\x02", count) + "eq\x01";
  EXPECT_THAT(
      read_error_message(dict({{"device_traces", "](" + trace + repeat("h\x01", 100) + "e"}})),
      HasSubstr("shared parts of the file expand"));
}

// A small file can refer to one string or entry many times. The reader copies it for each
// reference, and the copies must not exceed the limit.
TEST(SnapshotSchema, ChargesForEachCopyOfASharedString) {
  const std::string long_string = string(std::string(100'000, 'x'));
  const size_t count = 1000;
  const auto error_for = [](const std::string& value) {
    const std::string bytes = pickle::whole(value);
    MemorySource source(bytes);
    return read_snapshot_pickle(source, {.value_bytes = 4 << 20}).status().message();
  };
  const std::string annotation = dict({{"name", "h\x01"}});
  EXPECT_THAT(
      error_for(dict({{"external_annotations", "](" + dict({{"name", long_string + "q\x01"}}) +
                                                   repeat(annotation, count) + "e"}})),
      HasSubstr("]: the values need more than 4.00 MiB"));

  std::string settings = "}(" + string("first") + long_string + "q\x01";
  std::string fields = "}(" + string("name") + string("f") + string("fx_0") + long_string + "q\x01";
  for (size_t i = 1; i < count; ++i) {
    settings += string(text("key", i)) + "h\x01";
    fields += string(text("fx_", i)) + "h\x01";
  }
  EXPECT_THAT(error_for(dict({{"allocator_settings", settings + "u"}})),
              HasSubstr("the values need more than 4.00 MiB"));
  const std::string entry =
      dict({{"action", string("alloc")}, {"size", number(5)}, {"frames", "](" + fields + "ue"}});
  EXPECT_THAT(error_for(dict({{"device_traces", list({list({entry})})}})),
              HasSubstr("the values need more than 4.00 MiB"));

  const std::string small_entry = dict({{"action", string("alloc")}, {"size", number(5)}});
  EXPECT_THAT(error_for(dict({{"device_traces", list({"](" + small_entry + "q\x01" +
                                                      repeat("h\x01", 100'000) + "e"})}})),
              HasSubstr("the values need more than 4.00 MiB"));
}

// Reports repeat the frames in each stack, so each stack is charged for the text of its frames.
TEST(SnapshotSchema, ChargesEachStackForItsFrames) {
  const std::string frames = "](" + frame(std::string(100'000, 'x'), 1) + "q\x01";
  std::string entries;
  for (int32_t line = 0; line < 1000; ++line) {
    const std::string stack = (line == 0 ? frames : "](h\x01"s) + frame("f", line) + "e";
    entries += dict({{"action", string("alloc")}, {"size", number(5)}, {"frames", stack}});
  }
  const std::string bytes = pickle::whole(dict({{"device_traces", list({"](" + entries + "e"})}}));
  MemorySource source(bytes);
  EXPECT_THAT(read_snapshot_pickle(source, {.value_bytes = 4 << 20}).status().message(),
              HasSubstr("the values need more than 4.00 MiB"));
}

// JSON and CSV repeat the text in each entry.
TEST(SnapshotSchema, ChargesEachEntryForItsText) {
  const std::string long_text(10'000, 'x');
  const auto error_for = [](const std::string& entry) {
    const std::string bytes = pickle::whole(
        dict({{"device_traces", list({"](" + entry + "q\x01" + repeat("h\x01", 1000) + "e"})}}));
    MemorySource source(bytes);
    return read_snapshot_pickle(source, {.text_bytes = 4 << 20}).status().message();
  };
  const std::string action = string("action") + string("alloc");
  const std::string size = string("size") + number(5);
  for (const std::string& text :
       {string("compile_context") + string(long_text), string("user_metadata") + string(long_text),
        string("frames") + list({frame(long_text, 1)})}) {
    EXPECT_THAT(error_for("}(" + action + size + text + "u"),
                HasSubstr("the shared text of the file expands to more than 4.00 MiB"));
  }
}

TEST(SnapshotSchema, LimitsMemoryByTheSizeOfTheFile) {
  const std::string entry = dict({{"action", string("alloc")}, {"size", number(5)}});
  const std::string bytes = pickle::whole(
      dict({{"device_traces", list({"](" + entry + "q\x01" + repeat("h\x01", 100'000) + "e"})}}));
  std::atomic<uint64_t> file_bytes = 1000;
  MemorySource small(bytes);
  EXPECT_THAT(read_snapshot_pickle(small, {.file_bytes = &file_bytes}).status().message(),
              HasSubstr("of memory (expected less for a file of this size)"));
  file_bytes = bytes.size();
  MemorySource large(bytes);
  const Result<Snapshot> read_back = read_snapshot_pickle(large, {.file_bytes = &file_bytes});
  ASSERT_TRUE(read_back.ok()) << read_back.status().message();
  EXPECT_EQ(read_back->device_traces[0].size(), 100'001u);
}

TEST(SnapshotSchema, RejectsATraceSharedByTwoDevices) {
  const std::string entry = dict({{"action", string("alloc")}, {"size", number(5)}});
  EXPECT_THAT(
      read_error_message(dict({{"device_traces", list({list({entry}) + "q\x01", "h\x01"})}})),
      HasSubstr("device_traces[1][0]: an entry of another trace"));
}

TEST(SnapshotSchema, RejectsTooManyDevices) {
  EXPECT_THAT(read_error_message(dict({{"device_traces", "](" + repeat("]", 5000) + "e"}})),
              HasSubstr("at most 128 devices"));
}

TEST(SnapshotSchema, RejectsEveryTruncation) {
  const std::string bytes = whole(file_with_entries({dict(
      {{"action", string("alloc")}, {"size", number(5)}, {"frames", list({frame("a", 1)})}})}));
  for (size_t length = 0; length < bytes.size(); ++length) {
    MemorySource source(std::string_view(bytes).substr(0, length));
    const Result<Snapshot> snapshot = read_snapshot_pickle(source);
    EXPECT_TRUE(snapshot.status().is(StatusKind::kFormat)) << length;
    EXPECT_THAT(snapshot.status().message(), HasSubstr("is truncated")) << length;
  }
}

}  // namespace
}  // namespace ashlar
