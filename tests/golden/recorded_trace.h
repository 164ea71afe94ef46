// A PyTorch run recorded on a GPU, act by act, and the classic engine made to live through it on
// the simulated device.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ashlar/options.h"
#include "ashlar/sim.h"
#include "engine/classic/classic_engine.h"

namespace ashlar {

struct RecordedAct {
  std::string action;
  uint64_t address = 0;
  size_t bytes = 0;
  uint64_t stream = 0;
};

// The acts of tests/golden/traces/<name>.pickle.xz. Empty if it cannot be read.
std::vector<RecordedAct> read_recorded_trace(const std::string& name);

// What came of a replay.
struct Outcome {
  AllocatorStats stats;
  size_t alloc_count = 0;
  size_t same_address_count = 0;  // blocks that lie where PyTorch put them
  std::string failure;            // empty if every allocation succeeded
  // Segment acts, as text: kind, bytes, stream, and how many allocations came before.
  std::vector<std::string> wanted_segment_acts;
  std::vector<std::string> segment_acts;
};

// Frees that completed later than they were requested are replayed with a stream that uses the
// block until then. With `recorded_addresses`, new segments lie where the recorded ones did: among
// equal blocks the lowest address is taken, and that is the driver's choice.
class TraceReplay {
 public:
  TraceReplay(const std::vector<RecordedAct>& acts, const AllocatorOptions& options);
  Outcome run(bool recorded_addresses);

 private:
  void perform(size_t index, bool recorded_addresses);
  void allocate(const RecordedAct& act);
  void free(const RecordedAct& act, bool completes_at_once);
  void complete(const RecordedAct& act);

  const std::vector<RecordedAct>& acts_;
  std::unique_ptr<sim::Machine> machine_;
  Device& device_;
  classic::ClassicEngine engine_;
  std::map<uint64_t, StreamId> streams_;
  std::unordered_map<uint64_t, Block*> live_;       // by recorded address
  std::unordered_map<uint64_t, StreamId> pending_;  // the stream that still uses it
  Outcome outcome_;
};

}  // namespace ashlar
