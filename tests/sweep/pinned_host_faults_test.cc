// SPDX-License-Identifier: Apache-2.0
//
// Fails the n-th allocation of host memory for every n, in the operations of HostAllocator.
#include <gtest/gtest.h>

#include <memory>

#include "ashlar/host.h"
#include "ashlar/sim.h"
#include "base/units.h"
#include "sweep/operation_faults.h"

namespace ashlar {
namespace {

constexpr PoolId kPool{0, 1};

class PinnedWorld {
 public:
  PinnedWorld() {
    sim::Options options;
    options.device_count = 1;
    options.capacity_bytes = 16 * kMiB;
    options.backing = sim::Backing::kBookkeeping;
    options.seed = 1;
    machine_ = *sim::Machine::try_create(options);
    side_ = *device().create_stream();
    allocator_ = std::make_unique<HostAllocator>(device(), AllocatorOptions());
    buffers.reserve(16);
  }

  Device& device() { return machine_->device(DeviceIndex{0}); }
  HostAllocator& allocator() { return *allocator_; }
  StreamId side() const { return side_; }

  void allocate(size_t bytes) { buffers.push_back(allocator_->allocate(bytes)); }
  void keep_side_busy() {
    EXPECT_TRUE(machine_->pause_stream_until_waited(DeviceIndex{0}, side_).ok());
    EXPECT_TRUE(device().call_host(side_, [] {}).ok());
  }
  void finish_side() {
    EXPECT_TRUE(machine_->resume_stream(DeviceIndex{0}, side_).ok());
    EXPECT_TRUE(device().synchronize_stream(side_).ok());
  }

  std::vector<std::string> state() {
    std::vector<std::string> lines;
    for (const auto& [name, value] : allocator_->stats().flatten()) {
      const bool is_event = name.starts_with("num_") || name.starts_with("host_alloc_time") ||
                            name.starts_with("host_free_time");
      if (value != 0 && !is_event) lines.push_back(text(name, "=", value));
    }
    return lines;
  }
  void expect_no_memory_lost() {
    finish_side();
    buffers.clear();
    trim_until_reported();
    const HostStats stats = allocator_->stats();
    EXPECT_EQ(stats.active_bytes.current, 0);
    EXPECT_EQ(stats.pending_blocks.current, 0);
    EXPECT_EQ(stats.allocated_bytes.current, 0);
  }

  // A trim may still report an earlier failure.
  void trim_until_reported() {
    try {
      allocator_->trim();
    } catch (const std::exception&) {
      allocator_->trim();
    }
  }

  std::vector<HostBuffer> buffers;  // has room for all buffers of an operation

 private:
  std::unique_ptr<sim::Machine> machine_;
  StreamId side_;
  std::unique_ptr<HostAllocator> allocator_;
};

using PinnedOperation = sweep::FaultOperation<PinnedWorld>;

void allocate_used_pinned(PinnedWorld& w) {
  w.allocate(64 * kKiB);
  w.keep_side_busy();
  w.buffers.back().record_stream(w.side());
}

void free_pending(PinnedWorld& w) {
  allocate_used_pinned(w);
  w.buffers.clear();
  w.finish_side();
}

std::vector<PinnedOperation> pinned_operations() {
  std::vector<PinnedOperation> all;
  all.push_back({.name = "Allocate", .run = [](PinnedWorld& w) { w.allocate(64 * kKiB); }});
  all.push_back({.name = "AllocateCached",
                 .prepare =
                     [](PinnedWorld& w) {
                       w.allocate(64 * kKiB);
                       w.buffers.clear();
                     },
                 .run = [](PinnedWorld& w) { w.allocate(64 * kKiB); },
                 .never_fails = true});
  all.push_back({.name = "AllocateAfterPendingFree",
                 .prepare = free_pending,
                 .run = [](PinnedWorld& w) { w.allocate(64 * kKiB); },
                 .may_change_caches = true});
  all.push_back(
      {.name = "AllocateRaw",
       .run = [](PinnedWorld& w) { w.allocator().free_raw(w.allocator().allocate_raw(64 * kKiB)); },
       .may_change_caches = true});
  all.push_back({.name = "RecordStream",
                 .prepare = [](PinnedWorld& w) { w.allocate(64 * kKiB); },
                 .run = [](PinnedWorld& w) { w.buffers.back().record_stream(w.side()); }});
  all.push_back({.name = "Free",
                 .prepare = [](PinnedWorld& w) { w.allocate(64 * kKiB); },
                 .run = [](PinnedWorld& w) { w.buffers.clear(); },
                 .never_fails = true});
  all.push_back({.name = "FreeUncacheable",
                 .prepare = [](PinnedWorld& w) { w.allocate(256 * kMiB); },
                 .run = [](PinnedWorld& w) { w.buffers.clear(); },
                 .never_fails = true});
  all.push_back({.name = "FreeUsed",
                 .prepare = allocate_used_pinned,
                 .run = [](PinnedWorld& w) { w.buffers.clear(); },
                 .never_fails = true});
  all.push_back({.name = "FreeUsedOnDestroyedStream",
                 .prepare =
                     [](PinnedWorld& w) {
                       w.allocate(64 * kKiB);
                       const StreamId stream = *w.device().create_stream();
                       w.buffers.back().record_stream(stream);
                       EXPECT_TRUE(w.device().destroy_stream(stream).ok());
                     },
                 .run = [](PinnedWorld& w) { w.buffers.clear(); },
                 .never_fails = true});
  all.push_back({.name = "Trim",
                 .prepare = free_pending,
                 .run = [](PinnedWorld& w) { w.allocator().trim(); },
                 .may_change_caches = true});
  all.push_back({.name = "BeginRouting", .run = [](PinnedWorld& w) {
                   w.allocator().begin_routing(kPool, [](StreamId) { return true; });
                 }});
  all.push_back({.name = "Stats", .run = [](PinnedWorld& w) { (void)w.allocator().stats(); }});
  return all;
}

class PinnedHostFaultsTest : public ::testing::TestWithParam<PinnedOperation> {};

TEST_P(PinnedHostFaultsTest, LosesNothingWhenAnyAllocationFails) {
  sweep::expect_safe_operation(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Operations, PinnedHostFaultsTest, ::testing::ValuesIn(pinned_operations()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace ashlar
