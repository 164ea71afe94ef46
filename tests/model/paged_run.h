// SPDX-License-Identifier: Apache-2.0
//
// One run of the paged engine, which checks invariants: no memory belongs to two blocks at the same
// time, in any views; trackers receive consistent entries; statistics equal the sums that the run
// computes itself. Unlike the classic model, it predicts no addresses.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ashlar/sim.h"
#include "engine/paged/paged_engine.h"
#include "operations.h"
#include "stress/stamps.h"

namespace ashlar::model {

struct PagedSetting {
  AllocatorOptions options;
  size_t capacity_bytes = 0;
  uint64_t seed = 0;
  bool has_contents = false;  // device memory is real, and work writes and checks block contents
};

PagedSetting draw_paged_setting(uint64_t seed, bool has_contents);
std::string to_text(const PagedSetting& setting);

class PagedRun {
 public:
  explicit PagedRun(const PagedSetting& setting);
  ~PagedRun();
  PagedRun(const PagedRun&) = delete;
  PagedRun& operator=(const PagedRun&) = delete;

  void step(const Operation& operation);
  void check_sums();
  const std::string& disagreement() const { return disagreement_; }
  // Returns the id of the operation that allocated the block that `operation` would free or use;
  // nullopt if there is no such block.
  std::optional<size_t> target_of(const Operation& operation) const;

 private:
  static constexpr DeviceIndex kDevice{0};
  static constexpr size_t kStreams = 4;

  struct LiveBlock {
    Block* block = nullptr;
    size_t allocated_by = 0;  // the operation's id
    stress::Stamp stamp;
  };
  // The part of an extent that a block occupies.
  struct ExtentPart {
    ExtentId extent;
    size_t begin = 0;
    size_t end = 0;
  };
  // A block that is allocated or pending, according to trackers.
  struct ActiveBlock {
    size_t bytes = 0;
    size_t requested_bytes = 0;
    StreamId stream;
    PoolId pool;
    bool is_pending = false;
    std::vector<ExtentPart> extent_parts{};
  };
  struct PoolSlot {
    PoolId id{};
    bool exists = false;
    bool is_routed = false;
  };

  Device& device() { return machine_->device(kDevice); }
  void disagree(std::string what) {
    if (disagreement_.empty()) disagreement_ = std::move(what);
  }
  void expect_ok(const Status& status, const char* what) {
    if (!status.ok()) disagree(std::string(what) + ": " + status.to_string());
  }

  // --- operations

  void allocate(const Operation& operation, StreamId stream);
  void free(size_t index);
  void use(const LiveBlock& live, StreamId stream);
  void finish(StreamId stream);
  void keep_busy(StreamId stream);
  void route(PoolSlot& slot, StreamId stream);
  void unroute(PoolSlot& slot);
  void drop(PoolSlot& slot);
  std::optional<size_t> live_index_of(const Operation& operation) const;

  // --- accounting

  void on_trace_entry(const TraceEntry& entry);
  void update_account(const ActiveBlock& active, int64_t sign, bool allocated, bool is_active);
  void record_block(const Block& block);
  void release_extent_parts(const ActiveBlock& active);
  void compare(const std::string& name, const Stat& found, const Stat& kept);
  void check_reported_mappings();

  const PagedSetting setting_;
  std::unique_ptr<sim::Machine> machine_;
  std::unique_ptr<paged::PagedEngine> engine_;
  std::array<StreamId, kStreams> streams_{};
  std::array<PoolSlot, 3> slots_{};
  EventId event_;
  uint64_t last_pool_ = 0;
  uint64_t last_stamp_id_ = 0;
  std::vector<LiveBlock> live_;
  std::map<DeviceAddress, ActiveBlock> active_;
  std::map<DeviceAddress, size_t> reported_mappings_;  // the mapped ranges, according to trackers
  // The parts of extents that active blocks use: (end offset, block), keyed by (extent, begin
  // offset).
  std::map<std::pair<ExtentId, size_t>, std::pair<size_t, DeviceAddress>> extent_owners_;
  AllocatorStats account_;
  stress::Mismatches mismatches_;
  std::string disagreement_;
};

}  // namespace ashlar::model
