// SPDX-License-Identifier: Apache-2.0
//
// Reads arbitrary bytes as JSON. Accepted input must be equal after it is written and read again.
#include "base/check.h"
#include "files/json_reader.h"
#include "format/snapshot_writer.h"
#include "fuzz/fuzz_sink.h"

namespace ashlar {
namespace {

void fuzz(std::string_view bytes) {
  MemorySource source(bytes);
  const Result<Snapshot> snapshot = read_snapshot_json(source, kFuzzLimits);
  if (!snapshot.ok()) {
    ASHLAR_CHECK(snapshot.status().is(StatusKind::kFormat));
    return;
  }
  FuzzSink written;
  ASHLAR_CHECK(write_snapshot_json(*snapshot, written).ok());
  MemorySource again_source(written.text);
  const Result<Snapshot> again = read_snapshot_json(again_source);
  ASHLAR_CHECK(again.ok());
  ASHLAR_CHECK(*again == *snapshot);
}

}  // namespace
}  // namespace ashlar

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  ashlar::fuzz({reinterpret_cast<const char*>(bytes), count});
  return 0;
}
