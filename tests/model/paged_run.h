// SPDX-License-Identifier: Apache-2.0
//
// One run of the paged engine against invariants: no memory serves two blocks through any view;
// what trackers received adds up; sums and peaks equal an account kept here. Unlike the classic
// model it predicts no addresses.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ashlar/sim.h"
#include "classic_run.h"
#include "engine/paged/paged_engine.h"
#include "stress/stamps.h"

namespace ashlar::model {

struct PagedSetting {
  AllocatorOptions options;
  size_t capacity_bytes = 0;
  uint64_t seed = 0;
  bool has_contents = false;  // work stamps and checks blocks; otherwise addresses have no memory
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
  // The operation that allocated this operation's block; empty if none.
  std::optional<size_t> target_of(const Operation& operation) const;

 private:
  static constexpr DeviceIndex kDevice{0};
  static constexpr size_t kStreams = 4;

  struct Live {
    Block* block = nullptr;
    size_t allocated_by = 0;  // the operation's id
    stress::Stamp stamp;
  };
  // The part of an extent that a block has.
  struct ExtentPart {
    ExtentId extent;
    size_t begin = 0;
    size_t end = 0;
  };
  // Allocated or pending, according to trackers.
  struct Active {
    size_t bytes = 0;
    size_t requested_bytes = 0;
    StreamId stream;
    PoolId pool;
    bool is_pending = false;
    std::vector<ExtentPart> pieces{};
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
  void must(const Status& status, const char* what) {
    if (!status.ok()) disagree(std::string(what) + ": " + status.to_string());
  }

  // Operations.
  void allocate(const Operation& operation, StreamId stream);
  void free(size_t place);
  void use(const Live& live, StreamId stream);
  void finish(StreamId stream);
  void keep_busy(StreamId stream);
  void route(PoolSlot& slot, StreamId stream);
  void unroute(PoolSlot& slot);
  void drop(PoolSlot& slot);
  std::optional<size_t> place_of(const Operation& operation) const;

  // The account.
  void listen(const TraceEntry& entry);
  void count(const Active& active, int64_t sign, bool allocated, bool is_active);
  void record_block(const Block& block);
  void give_pieces(const Active& active);
  void compare(const std::string& name, const Stat& found, const Stat& kept);
  void check_shown();

  const PagedSetting setting_;
  std::unique_ptr<sim::Machine> machine_;
  std::unique_ptr<paged::PagedEngine> engine_;
  std::array<StreamId, kStreams> streams_{};
  std::array<PoolSlot, 3> slots_{};
  EventId event_;
  uint64_t last_pool_ = 0;
  uint64_t last_name_ = 0;
  std::vector<Live> live_;
  std::map<DeviceAddress, Active> active_;
  std::map<DeviceAddress, size_t> reported_mappings_;  // mapped, according to trackers
  // The parts of extents that active blocks use: (extent, begin offset) to (end offset, block).
  std::map<std::pair<ExtentId, size_t>, std::pair<size_t, DeviceAddress>> owned_;
  AllocatorStats account_;
  stress::Mismatches mismatches_;
  std::string disagreement_;
};

}  // namespace ashlar::model
