// SPDX-License-Identifier: Apache-2.0
//
// One run of the paged engine against what must hold whatever it decides: no memory serves two
// blocks, through whichever views; what trackers were told adds up to what is there; sums and peaks
// are those of an account kept here. Where memory comes from is the engine's business, so unlike
// the classic model this one predicts no address.
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
  bool has_contents = false;  // blocks are stamped and checked by work; without, books are kept
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
  // Which operation allocated the block that this one means; empty: none.
  std::optional<size_t> target_of(const Operation& operation) const;

 private:
  static constexpr DeviceIndex kDevice{0};
  static constexpr size_t kStreams = 4;

  struct Live {
    Block* block = nullptr;
    size_t allocated_by = 0;  // the operation's id
    stress::Stamp stamp;
  };
  // A part of an extent that a block has.
  struct Piece {
    ExtentId extent;
    size_t begin = 0;
    size_t end = 0;
  };
  // Allocated or pending, as trackers were told.
  struct Active {
    size_t bytes = 0;
    size_t requested_bytes = 0;
    StreamId stream;
    PoolId pool;
    bool is_pending = false;
    std::vector<Piece> pieces{};
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

  // --- acts
  void allocate(const Operation& operation, StreamId stream);
  void free(size_t place);
  void use(const Live& live, StreamId stream);
  void finish(StreamId stream);
  void keep_busy(StreamId stream);
  void route(PoolSlot& slot, StreamId stream);
  void unroute(PoolSlot& slot);
  void drop(PoolSlot& slot);
  std::optional<size_t> place_of(const Operation& operation) const;

  // --- the account
  void listen(const TraceEntry& entry);
  void count(const Active& active, int64_t sign, bool allocated, bool is_active);
  void take_account(const Block& block);
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
  std::map<DeviceAddress, size_t> shown_;  // what trackers believe to be there
  // By extent and where it begins: where it ends, and whose it is.
  std::map<std::pair<ExtentId, size_t>, std::pair<size_t, DeviceAddress>> owned_;
  AllocatorStats account_;
  stress::Mismatches mismatches_;
  std::string disagreement_;
};

}  // namespace ashlar::model
