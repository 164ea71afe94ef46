// SPDX-License-Identifier: Apache-2.0
//
// Tests round trips of snapshots through pickles.
#include "format/snapshot_pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "format/snapshot_writer.h"
#include "unit/format/cpp_style_writer.h"
#include "unit/format/pickle_text.h"
#include "unit/format/sample_snapshot.h"

namespace ashlar {
namespace {

std::string written(const Snapshot& snapshot) {
  StringSink sink;
  EXPECT_TRUE(write_snapshot_pickle(snapshot, sink).ok());
  return sink.text;
}

Snapshot read_pickled(const std::string& bytes) {
  MemorySource source(bytes);
  Result<Snapshot> snapshot = read_snapshot_pickle(source);
  EXPECT_TRUE(snapshot.ok()) << snapshot.status().message();
  return snapshot.ok() ? *std::move(snapshot) : Snapshot();
}

size_t count_of(std::string_view part, std::string_view text) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(SnapshotPickle, RoundTrips) {
  EXPECT_EQ(read_pickled(written(sample_snapshot())), sample_snapshot());
  EXPECT_EQ(read_pickled(written({})), Snapshot());
}

TEST(SnapshotPickle, ReadsPicklesWrittenByCpp) {
  StringSink sink;
  CppStyleWriter writer(sink);
  write_snapshot(sample_snapshot(), writer);
  ASSERT_TRUE(writer.finish().ok());
  EXPECT_EQ(read_pickled(sink.text), sample_snapshot());
}

TEST(SnapshotPickle, WritesSharedValuesOnce) {
  Snapshot snapshot = sample_snapshot();
  for (int i = 0; i < 100; ++i) snapshot.device_traces[0].push_back(snapshot.device_traces[0][1]);
  const std::string bytes = written(snapshot);
  EXPECT_EQ(count_of("compile_context", bytes), 1u);
  EXPECT_EQ(count_of("Torch-Compiled Region", bytes), 1u);
  EXPECT_EQ(count_of("inner", bytes), 1u);
  EXPECT_EQ(count_of("fx_node_op", bytes), 1u);
}

TEST(SnapshotPickle, WritesBatchesOfAtMostAThousandItems) {
  Snapshot snapshot;
  snapshot.device_traces.resize(1);
  snapshot.device_traces[0].resize(2500);
  // The entries need two full batches and a partial batch. Each batch ends with the SETITEMS opcode
  // of its last entry ("u") and its own APPENDS opcode ("e").
  const std::string bytes = written(snapshot);
  EXPECT_EQ(count_of("ue", bytes), 2u + 1u);
  EXPECT_EQ(read_pickled(bytes).device_traces[0].size(), 2500u);
}

TEST(SnapshotPickle, ReadsTablesInAnyOrder) {
  // The host trace uses another stack than in the sample, so reading renumbers the tables. Reading
  // the result again must not change them.
  Snapshot snapshot = sample_snapshot();
  snapshot.host_traces[0][0].stack = StackId(2);
  const Snapshot again = read_pickled(written(snapshot));
  EXPECT_EQ(read_pickled(written(again)), again);
}

// A sink that accepts a limited number of bytes, then fails.
class FullSink final : public ByteSink {
 public:
  explicit FullSink(size_t bytes) : left_(bytes) {}
  Status write(std::string_view bytes) override {
    if (bytes.size() > left_) return Status::device_fault("write", 28, "no space left");
    left_ -= bytes.size();
    return {};
  }

 private:
  size_t left_;
};

TEST(SnapshotPickle, ReportsAFullDisk) {
  FullSink sink(1000);
  EXPECT_EQ(write_snapshot_pickle(sample_snapshot(), sink).message(), "no space left");
}

}  // namespace
}  // namespace ashlar
