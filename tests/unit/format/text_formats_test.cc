// SPDX-License-Identifier: Apache-2.0
//
// Tests UTF-8, JSON, Perfetto traces and CSV.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "format/json_writer.h"
#include "format/trace_export.h"
#include "format/utf8.h"
#include "unit/format/pickle_text.h"
#include "unit/format/sample_snapshot.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;

TEST(Utf8, AcceptsSameTextAsPython) {
  for (const std::string_view good :
       {"", "plain ascii of more than eight", "é", "€", "\xf0\x9f\x98\x80", "\xed\xb2\x80"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const std::string_view bad :
       {"\x80", "\xc1\x81", "\xc3", "\xe0\x80\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80", "\xe2\x82", "eight byte\xff", "\xc3(", "\xff"}) {
    EXPECT_FALSE(is_utf8(bad)) << bad;
  }
}

std::string json_of(std::string_view value) {
  StringSink sink;
  JsonWriter writer(sink);
  writer.string(value);
  EXPECT_TRUE(writer.finish().ok());
  return sink.text;
}

TEST(JsonWriter, EscapesInvalidCharacters) {
  EXPECT_EQ(json_of("a\"b\\c\n\x7f"), "\"a\\\"b\\\\c\\u000a\\u007f\"\n");
  EXPECT_EQ(json_of("é€"), "\"é€\"\n");
  EXPECT_EQ(json_of("\xed\xb2\x80|\xff"), "\"\xef\xbf\xbd|\xef\xbf\xbd\"\n");
}

TEST(JsonWriter, PreservesIntegersAndFloats) {
  StringSink sink;
  JsonWriter writer(sink);
  writer.begin_list();
  writer.floating_point(0.0);
  writer.floating_point(0.1);
  writer.floating_point(-1e300);
  writer.floating_point(std::numeric_limits<double>::infinity());
  writer.unsigned_integer(~uint64_t{0});
  writer.integer(-1);
  writer.boolean(true);
  writer.pool({.capture = 1, .user = 2});
  writer.end_list();
  ASSERT_TRUE(writer.finish().ok());
  EXPECT_EQ(sink.text, "[0.0, 0.1, -1e+300, null, 18446744073709551615, -1, true, [1, 2]]\n");
}

std::string perfetto_of(const Snapshot& snapshot) {
  StringSink sink;
  EXPECT_TRUE(write_perfetto(snapshot, sink).ok());
  return sink.text;
}

TEST(Perfetto, CountersFollowTheTrace) {
  Snapshot snapshot;
  snapshot.device_traces.resize(1);
  const auto add = [&snapshot](TraceAction action, size_t bytes, int64_t time) {
    TraceEntry entry;
    entry.action = action;
    entry.bytes = bytes;
    entry.time_us = time;
    snapshot.device_traces[0].push_back(entry);
  };
  add(TraceAction::kSegmentAlloc, 100, 1000);
  add(TraceAction::kAlloc, 40, 1002);
  add(TraceAction::kFreeRequested, 40, 1003);
  add(TraceAction::kFreeCompleted, 40, 1005);
  add(TraceAction::kOom, 500, 1006);
  add(TraceAction::kSegmentFree, 100, 1007);
  const std::string text = perfetto_of(snapshot);
  EXPECT_THAT(text, HasSubstr("\"ts\": 0, \"args\": {\"allocated\": 0, \"active\": 0, "
                              "\"reserved\": 100}}"));
  EXPECT_THAT(text, HasSubstr("\"ts\": 2, \"args\": {\"allocated\": 40, \"active\": 40}}"));
  EXPECT_THAT(text, HasSubstr("\"ts\": 3, \"args\": {\"allocated\": 0}}"));
  EXPECT_THAT(text, HasSubstr("\"ts\": 5, \"args\": {\"active\": 0}}"));
  EXPECT_THAT(text, HasSubstr("\"OOM\", \"ph\": \"i\""));
  EXPECT_THAT(text, HasSubstr("\"ts\": 7, \"args\": {\"reserved\": 0}}"));
}

TEST(Perfetto, CompletesATraceWithoutABeginning) {
  Snapshot snapshot;
  snapshot.segments.push_back(sample_snapshot().segments[0]);  // a segment of 3 MiB
  TraceEntry entry;
  entry.action = TraceAction::kSegmentAlloc;
  entry.bytes = 1 << 20;
  snapshot.device_traces = {{entry}};
  EXPECT_THAT(perfetto_of(snapshot), HasSubstr("\"reserved\": 3145728"));
  EXPECT_THAT(perfetto_of(snapshot), HasSubstr("\"allocated\": 1048476"));
}

TEST(Perfetto, WritesAnnotationsAsSlices) {
  const std::string text = perfetto_of(sample_snapshot());
  EXPECT_THAT(text, HasSubstr("{\"name\": \"train\", \"ph\": \"B\", \"pid\": 0"));
  EXPECT_THAT(text, HasSubstr("{\"name\": \"train\", \"ph\": \"E\", \"pid\": 0"));
}

TEST(TraceCsv, WritesOneRowPerEntryWithQuoting) {
  StringSink sink;
  ASSERT_TRUE(write_trace_csv(sample_snapshot(), sink).ok());
  EXPECT_THAT(sink.text, HasSubstr("memory,device,index,time_us,action,address,size,stream,"));
  EXPECT_THAT(sink.text,
              HasSubstr("device,0,1,1934339153729961,alloc,139637976727552,1048476,-1,0,0,"
                        "Torch-Compiled Region: 0/1,\"step 7, \"\"warm-up\"\"\",1,"
                        "\"inner a \"\"b\"\"\\\n\\u0001é.py:70000\"\r\n"));
  EXPECT_THAT(sink.text,
              HasSubstr("device,0,3,,free_requested,139637976727552,1048476,-1,,,,,,\r"));
  EXPECT_THAT(sink.text, HasSubstr("device,1,0,"));
  EXPECT_THAT(sink.text, HasSubstr("host,0,0,"));
}

}  // namespace
}  // namespace ashlar
