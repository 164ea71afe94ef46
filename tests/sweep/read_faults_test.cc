// SPDX-License-Identifier: Apache-2.0
//
// Reads a snapshot while one allocation of host memory fails, for each allocation in turn.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "files/read_snapshot.h"
#include "format/snapshot_pickle.h"
#include "format/snapshot_writer.h"
#include "sweep/host_allocation_faults.h"
#include "unit/files/compressed.h"
#include "unit/format/sample_snapshot.h"

namespace ashlar::sweep {
namespace {

// Fails the nth allocation, for all n up to the number of allocations that reading makes.
void expect_errors_for(const std::string& bytes, const ReadOptions& options) {
  uint64_t nth = 0;
  bool has_failed = true;
  while (has_failed) {
    auto source = std::make_unique<MemorySource>(bytes);
    Result<Snapshot> snapshot = Status();
    {
      const HostAllocationFault fault(++nth);
      snapshot = read_snapshot("run", std::move(source), options);
      has_failed = fault.has_failed();
    }
    if (snapshot.ok()) continue;  // the failed read was optional, for example that of a cache
    ASSERT_TRUE(has_failed) << snapshot.status().message();
    EXPECT_TRUE(snapshot.status().is(StatusKind::kFormat)) << snapshot.status().message();
    EXPECT_EQ(snapshot.status().message(), "run: reading needs more memory than is available");
  }
  EXPECT_GT(nth, 10u);
}

TEST(ReadFaultsTest, ReportsAFailedAllocation) {
  StringSink pickle;
  ASSERT_TRUE(write_snapshot_pickle(sample_snapshot(), pickle).ok());
  StringSink json;
  ASSERT_TRUE(write_snapshot_json(sample_snapshot(), json).ok());
  for (const std::string& bytes : {pickle.text, json.text}) {
    expect_errors_for(bytes, {});
    for (const bool decompress_ahead : {false, true}) {
      const ReadOptions options = {.input = {.decompress_ahead = decompress_ahead}};
      expect_errors_for(compressed(bytes, Compression::kXz), options);
    }
  }
}

}  // namespace
}  // namespace ashlar::sweep
