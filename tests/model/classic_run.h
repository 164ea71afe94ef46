// SPDX-License-Identifier: Apache-2.0
//
// A run of the classic engine and its model: performs each operation on the engine and on the
// model, and compares the results. classic_run.cc implements memory, pools and the comparison,
// classic_run_captures.cc the captures.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ashlar/sim.h"
#include "base/random.h"
#include "capture_shadow.h"
#include "classic_model.h"
#include "device/relaxed_capture.h"
#include "engine/classic/classic_engine.h"
#include "operations.h"

namespace ashlar::model {

class ClassicRun {
 public:
  explicit ClassicRun(const ClassicSetting& setting)
      : model_(setting.options, setting.capacity_bytes),
        has_capture_reuse_(setting.options.capture_stream_reuse) {
    sim::Options options;
    options.device_count = 1;
    options.capacity_bytes = setting.capacity_bytes;
    options.backing = sim::Backing::kBookkeeping;
    options.seed = 1;
    machine_ = *sim::Machine::try_create(options);
    engine_ = std::make_unique<classic::ClassicEngine>(device(), setting.options);
    engine_->add_tracker([this](const TraceEntry& entry) { on_trace_entry(entry); });
    for (StreamId& stream : streams_) stream = *device().create_stream();
    streams_[0] = kDefaultStream;
    keep_all_busy();
  }
  ~ClassicRun() {
    end_capture();
    finish_all();
  }

  void step(const Operation& operation);
  void check_sums();
  const std::string& disagreement() const { return disagreement_; }
  // Returns the id of the operation that allocated the block that `operation` would free or use;
  // nullopt if there is no such block.
  std::optional<size_t> target_of(const Operation& operation) const {
    const std::optional<size_t> index = live_index_of(operation);
    return index ? std::optional(live_[*index].allocated_by) : std::nullopt;
  }

 private:
  static constexpr DeviceIndex kDevice{0};

  struct Live {
    Block* block = nullptr;
    uint64_t address = 0;
    size_t allocated_by = 0;  // the operation's id
    std::set<StreamId> uses;
    std::set<StreamId> capture_uses;  // the subset of `uses` recorded only in captures
  };
  // A block that was freed while a capture used it.
  struct DeferredFree {
    Live live;
    std::set<uint64_t> markers;  // last nodes that may use the block
  };

  Device& device() { return machine_->device(kDevice); }
  void disagree(std::string what) {
    if (disagreement_.empty()) disagreement_ = std::move(what);
  }
  void on_trace_entry(const TraceEntry& entry);

  std::optional<size_t> live_index_of(const Operation& operation) const;
  void allocate(const Operation& operation, StreamId stream);
  void add_segment_address();
  void free(size_t which);
  void trim();
  void route(size_t slot, StreamId stream);
  void unroute(size_t slot);
  void drop(size_t slot);
  void use(Live& live, StreamId stream);
  void begin_capture(size_t slot, StreamId stream);
  void work(StreamId stream);
  void order(StreamId first, StreamId then);
  void end_capture();
  bool involves_capture(const Live& live) const;
  void resolve_deferred();
  void reuse_within_capture(StreamId stream);
  void compare_operations();

  // Pauses the stream and queues work on it. Does nothing for the default stream and for capturing
  // streams, which must not be paused.
  void keep_busy(StreamId stream) {
    if (stream == kDefaultStream || capture_.includes(stream)) return;
    (void)machine_->pause_stream(kDevice, stream).ok();
    (void)device().call_host(stream, [] {}).ok();
    busy_.insert(stream);
  }
  void keep_all_busy() {
    for (StreamId stream : streams_) keep_busy(stream);
  }
  void finish(StreamId stream) {
    if (capture_.includes(stream)) return;
    const RelaxedCapture relaxed(device());
    (void)machine_->resume_stream(kDevice, stream).ok();
    (void)device().synchronize_stream(stream).ok();
    busy_.erase(stream);
    for (auto& [address, streams] : pending_) streams.erase(stream);
  }
  void finish_all() {
    for (StreamId stream : streams_) finish(stream);
  }
  // Models that the engine polls its events: blocks whose streams have finished become free.
  void complete() {
    resolve_deferred();
    for (auto it = pending_.begin(); it != pending_.end();) {
      if (it->second.empty()) model_.complete(it->first);
      it = it->second.empty() ? pending_.erase(it) : std::next(it);
    }
  }

  std::unique_ptr<sim::Machine> machine_;
  std::unique_ptr<classic::ClassicEngine> engine_;
  ClassicModel model_;
  const bool has_capture_reuse_;
  std::array<StreamId, 4> streams_;
  std::array<PoolId, 4> slots_{};
  uint64_t last_pool_ = 0;
  std::vector<Live> live_;
  std::map<uint64_t, std::set<StreamId>> pending_;  // block address to streams that still use it
  std::set<StreamId> busy_;
  CaptureShadow capture_;
  std::vector<DeferredFree> deferred_;
  std::vector<DeviceOperation> operations_;
  Random random_{1};
  std::set<uint64_t> used_slots_;
  std::string disagreement_;
};

}  // namespace ashlar::model
