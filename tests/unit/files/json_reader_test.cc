// SPDX-License-Identifier: Apache-2.0
//
// Tests the reading of snapshots from JSON.
#include "files/json_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "format/snapshot_writer.h"
#include "unit/format/pickle_text.h"
#include "unit/format/sample_snapshot.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;

Result<Snapshot> read(std::string_view text, const ReadLimits& limits = {}) {
  MemorySource source(text);
  return read_snapshot_json(source, limits);
}

std::string error_of(std::string_view text, const ReadLimits& limits = {}) {
  const Result<Snapshot> snapshot = read(text, limits);
  EXPECT_TRUE(snapshot.status().is(StatusKind::kFormat));
  return snapshot.status().message();
}

std::string written(const Snapshot& snapshot) {
  StringSink sink;
  EXPECT_TRUE(write_snapshot_json(snapshot, sink).ok());
  return sink.text;
}

TEST(JsonReader, RoundTrips) {
  const Result<Snapshot> snapshot = read(written(sample_snapshot()));
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  EXPECT_EQ(*snapshot, sample_snapshot());
}

TEST(JsonReader, ReportsSyntaxErrors) {
  EXPECT_THAT(error_of(""), HasSubstr("JSON, byte 0: "));
  EXPECT_THAT(error_of("{\"segments\": [}"), HasSubstr("JSON, byte 15: "));
  EXPECT_THAT(error_of("{\"segments\": 1e999}"), HasSubstr("JSON, byte 1"));
  EXPECT_THAT(error_of("{\"segments\": []} x"), HasSubstr("JSON, byte 18"));
  EXPECT_THAT(error_of("{\"segments\": \"\xff\"}"), HasSubstr("ill-formed UTF-8"));
  EXPECT_THAT(error_of("[1, 2]"), HasSubstr("segments[0]: "));
}

TEST(JsonReader, RejectsEveryTruncation) {
  Snapshot small;
  small.device_traces.push_back(sample_snapshot().host_traces[0]);
  const std::string text = written(small);
  for (size_t length = 0; length + 1 < text.size(); ++length) {
    EXPECT_THAT(error_of(std::string_view(text).substr(0, length)), HasSubstr("JSON, byte "));
  }
}

TEST(JsonReader, RejectsDeepNesting) {
  EXPECT_THAT(error_of(std::string(100'000, '[')), HasSubstr("nested deeper than 1000"));
  EXPECT_THAT(error_of(pickle::repeat("{\"a\":", 10'000)), HasSubstr("nested deeper than 1000"));
}

TEST(JsonReader, RejectsValuesBeyondTheLimit) {
  const ReadLimits limits = {.value_bytes = size_t{1} << 20};
  EXPECT_THAT(error_of("[" + pickle::repeat("0,", 100'000), limits), HasSubstr("1.00 MiB"));
  EXPECT_THAT(error_of("[" + pickle::repeat("[],", 100'000), limits), HasSubstr("1.00 MiB"));
}

TEST(JsonReader, RejectsAnUnterminatedString) {
  EXPECT_THAT(error_of("[\"" + std::string(3 << 20, 'x'), {.value_bytes = size_t{1} << 20}),
              HasSubstr("a string exceeds the limit"));
}

TEST(JsonReader, DropsConvertedValues) {
  // The file has 300 entries with stacks of 100 frames each. The limit suffices for the entries,
  // but not for all frames at the same time.
  Snapshot snapshot = sample_snapshot();
  snapshot.tables.stacks[1].frames.assign(100, 1);
  for (int i = 0; i < 300; ++i) snapshot.device_traces[0].push_back(snapshot.device_traces[0][1]);
  const Result<Snapshot> read_back = read(written(snapshot), {.value_bytes = size_t{512} << 10});
  ASSERT_TRUE(read_back.ok()) << read_back.status().message();
  EXPECT_EQ(*read_back, snapshot);
}

}  // namespace
}  // namespace ashlar
