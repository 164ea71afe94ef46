// SPDX-License-Identifier: Apache-2.0
//
// Reads arbitrary bytes as a pickle. Accepted input must round-trip.
#include "base/check.h"
#include "format/snapshot_pickle.h"
#include "fuzz/fuzz_sink.h"

namespace ashlar {
namespace {

void fuzz(std::string_view bytes) {
  MemorySource source(bytes);
  const Result<Snapshot> snapshot = read_snapshot_pickle(source, kFuzzLimits);
  if (!snapshot.ok()) {
    ASHLAR_CHECK(snapshot.status().is(StatusKind::kFormat));
    return;
  }
  FuzzSink first;
  ASHLAR_CHECK(write_snapshot_pickle(*snapshot, first).ok());
  MemorySource written(first.text);
  const Result<Snapshot> again = read_snapshot_pickle(written);
  ASHLAR_CHECK(again.ok());
  // Compares the output instead of the snapshots: a setting may be NaN, which equals nothing.
  FuzzSink second;
  ASHLAR_CHECK(write_snapshot_pickle(*again, second).ok());
  ASHLAR_CHECK(first.text == second.text);
}

}  // namespace
}  // namespace ashlar

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  ashlar::fuzz({reinterpret_cast<const char*>(bytes), count});
  return 0;
}
