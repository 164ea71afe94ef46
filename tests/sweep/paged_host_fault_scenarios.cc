// SPDX-License-Identifier: Apache-2.0
//
// Stitching, remapping and trimming of stitched memory; pausing, checkpoints, observers of mappings
// and plain segments.
#include "sweep/paged_host_fault_scenarios.h"

#include <utility>

#include "ashlar/pool.h"
#include "base/units.h"
#include "sweep/host_allocation_faults.h"

namespace ashlar::paged {
namespace {

using sweep::HostAllocationExemption;
using sweep::HostFaultScenario;
using World = sweep::HostFaultWorld;

constexpr const char* kTag = "weights";

void free_all(World& w) {
  while (!w.live.empty()) World::must(w.free_last());
}

// Leaves four holes of 12 MiB between four live blocks.
void make_holes(World& w, StreamId stream = kDefaultStream) {
  for (int i = 0; i < 8; ++i) World::must(w.allocate(12 * kMiB, stream));
  for (size_t i = 0; i < w.live.size(); ++i) {
    World::must(w.engine().free(w.live[i]));
    w.live.erase(w.live.begin() + static_cast<ptrdiff_t>(i));
  }
}

// Leaves a live block that is stitched from holes, and free memory in other views.
void stitch(World& w) {
  make_holes(w);
  World::must(w.allocate(40 * kMiB));
}

// Leaves 20 unused mappings besides the 48 of the extents.
void leave_unused_mappings(World& w) {
  stitch(w);
  World::must(w.free_last());
  World::must(w.allocate(12 * kMiB));  // returns displaced extents to their origins
}

// The first trim retires mappings, the second one unmaps them.
Status retire_mappings(World& w) {
  for (int i = 0; i < 2; ++i) {
    Status trimmed = w.engine().trim_to({SIZE_MAX, TrimWait::kForWork, {}}).status();
    if (!trimmed.ok()) return trimmed;
  }
  return {};
}

void use_pool(World& w, PoolOptions options) {
  World::must(w.engine().create_pool(World::kPool, std::move(options)));
  World::must(w.engine().begin_routing(World::kPool, [](StreamId) { return true; }));
  w.pools.push_back(World::kPool);  // two uses
  w.pools.push_back(World::kPool);
}

std::vector<HostFaultScenario> stitch_scenarios() {
  std::vector<HostFaultScenario> all;
  all.push_back({.name = "StitchSeveralHoles",
                 .prepare = [](World& w) { make_holes(w); },
                 .run = [](World& w) { return w.allocate(40 * kMiB); },
                 .may_change_caches = true});
  all.push_back({.name = "StitchMemoryOfAnotherStream",
                 .prepare = [](World& w) { make_holes(w, w.side()); },
                 .run = [](World& w) { return w.allocate(70 * kMiB); },
                 .may_change_caches = true});
  all.push_back({.name = "TakeOverView",
                 .prepare =
                     [](World& w) {
                       World::must(w.allocate(60 * kMiB, w.side()));
                       World::must(w.allocate(50 * kMiB, w.side()));
                       free_all(w);
                     },
                 .run = [](World& w) { return w.allocate(90 * kMiB); },
                 .may_change_caches = true});
  all.push_back({.name = "ReturnDisplacedMemory",
                 .prepare =
                     [](World& w) {
                       stitch(w);
                       free_all(w);
                     },
                 .run = [](World& w) { return w.allocate(90 * kMiB); },
                 .may_change_caches = true});
  all.push_back({.name = "FreeStitchedBlock",
                 .prepare = stitch,
                 .run = [](World& w) { return w.live.size() < 5 ? Status() : w.free_last(); },
                 .may_change_caches = true,
                 .must_not_throw = true});
  return all;
}

std::vector<HostFaultScenario> stitch_scenarios_with_device_faults() {
  std::vector<HostFaultScenario> all;
  all.push_back({.name = "StitchWhileDeviceFails",
                 .prepare = [](World& w) { make_holes(w); },
                 .run =
                     [](World& w) {
                       {
                         const HostAllocationExemption exempt;
                         w.machine().clear_faults();
                         w.machine().inject({.call = DeviceCall::kMap, .nth = 3});
                       }
                       const bool is_allocated = w.allocate(70 * kMiB).ok();
                       {
                         const HostAllocationExemption exempt;
                         w.machine().clear_faults();
                       }
                       return is_allocated ? Status() : w.allocate(70 * kMiB);
                     },
                 .may_change_caches = true});
  all.push_back({.name = "RollBackWhileDeviceFails",
                 .prepare = [](World& w) { make_holes(w); },
                 .run =
                     [](World& w) {
                       {
                         const HostAllocationExemption exempt;
                         w.machine().clear_faults();
                         w.machine().inject({.call = DeviceCall::kSetAccess});
                         w.machine().inject({.call = DeviceCall::kUnmap});
                       }
                       const bool is_allocated = w.allocate(70 * kMiB).ok();
                       {
                         const HostAllocationExemption exempt;
                         w.machine().clear_faults();
                       }
                       if (is_allocated) return Status();
                       (void)w.engine().trim({}).ok();  // reports that unmapping failed
                       return w.allocate(70 * kMiB);
                     },
                 .may_change_caches = true});
  return all;
}

std::vector<HostFaultScenario> trim_scenarios() {
  std::vector<HostFaultScenario> all;
  all.push_back({.name = "TrimWhileStitched",
                 .prepare =
                     [](World& w) {
                       stitch(w);
                       World::must(w.engine().free(w.live[0]));
                       w.live.erase(w.live.begin());
                     },
                 .run = [](World& w) { return w.engine().trim({}); },
                 .may_change_caches = true});
  all.push_back({.name = "TrimStitchedMemory",
                 .prepare =
                     [](World& w) {
                       stitch(w);
                       free_all(w);
                     },
                 .run = [](World& w) { return w.engine().trim({}); },
                 .may_change_caches = true});
  all.push_back({.name = "TrimWithoutWaiting",
                 .prepare =
                     [](World& w) {
                       for (int i = 0; i < 3; ++i) World::must(w.allocate(12 * kMiB));
                       for (int i = 0; i < 3; ++i) World::must(w.allocate(12 * kMiB, w.side()));
                       w.keep_side_busy();
                       free_all(w);
                     },
                 .run =
                     [](World& w) {
                       return w.engine().trim_to({0, TrimWait::kNever, {}}).status();
                     },
                 .may_change_caches = true});
  return all;
}

std::vector<HostFaultScenario> reclaim_scenarios() {
  std::vector<HostFaultScenario> all;
  all.push_back({.name = "RetireMappings",
                 .prepare = leave_unused_mappings,
                 .run = retire_mappings,
                 .may_change_caches = true,
                 .max_mappings = 72});
  all.push_back({.name = "AllocateWithoutMappings",
                 .prepare = leave_unused_mappings,
                 .run = [](World& w) { return w.allocate(44 * kMiB); },
                 .may_change_caches = true,
                 .max_mappings = 70});
  all.push_back({.name = "ReclaimReleasedPool",
                 .prepare =
                     [](World& w) {
                       use_pool(w, {});
                       World::must(w.allocate(90 * kMiB));
                       free_all(w);
                       World::must(w.engine().end_routing(World::kPool));
                       for (const PoolId pool : std::exchange(w.pools, {})) {
                         World::must(w.engine().release_pool(pool));
                       }
                       w.pools.reserve(4);
                     },
                 .run = [](World& w) { return w.allocate(90 * kMiB); },
                 .may_change_caches = true});
  all.push_back({.name = "UseMemoryOfDestroyedStream",
                 .prepare =
                     [](World& w) {
                       const StreamId stream = *w.device().create_stream();
                       World::must(w.allocate(100 * kMiB, stream));
                       free_all(w);
                       World::must(w.device().destroy_stream(stream));
                     },
                 .run = [](World& w) { return w.allocate(100 * kMiB); },
                 .may_change_caches = true});
  return all;
}

std::vector<HostFaultScenario> pause_scenarios() {
  const auto fill = [](World& w) {
    use_pool(w, {.tag = kTag});
    make_holes(w);
    World::must(w.allocate(700));
    World::must(w.engine().end_routing(World::kPool));
  };
  std::vector<HostFaultScenario> all;
  all.push_back({.name = "Pause",
                 .prepare = fill,
                 .run = [](World& w) { return w.engine().pause(kTag, false); },
                 .may_change_caches = true});
  all.push_back({.name = "PauseAndKeepContents",
                 .prepare = fill,
                 .run = [](World& w) { return w.engine().pause(kTag, true); },
                 .may_change_caches = true});
  all.push_back({.name = "Resume",
                 .prepare =
                     [fill](World& w) {
                       fill(w);
                       World::must(w.engine().pause(kTag, true));
                     },
                 .run = [](World& w) { return w.engine().resume(kTag); },
                 .may_change_caches = true});
  return all;
}

std::vector<HostFaultScenario> checkpoint_scenarios() {
  const auto taken = std::make_shared<PoolCheckpoint>();
  const auto fill = [](World& w) {
    use_pool(w, {});
    make_holes(w);
    World::must(w.allocate(700, w.side()));
  };
  std::vector<HostFaultScenario> all;
  all.push_back({.name = "TakeCheckpoint", .prepare = fill, .run = [](World& w) {
                   return w.engine().checkpoint(World::kPool).status();
                 }});
  all.push_back({.name = "RestoreCheckpoint",
                 .prepare =
                     [=](World& w) {
                       fill(w);
                       *taken = *w.engine().checkpoint(World::kPool);
                       World::must(w.allocate(40 * kMiB, w.side()));
                     },
                 .run =
                     [=](World& w) {
                       Result<RestoreResult> restored = w.engine().restore(*taken);
                       const HostAllocationExemption exempt;
                       if (restored.ok()) w.live = restored->allocated;
                       w.live.reserve(16);
                       return restored.status();
                     },
                 .may_change_caches = true});
  return all;
}

std::vector<HostFaultScenario> observer_scenarios() {
  const auto observe = [](World& w) {
    World::must(w.engine().add_remap_observer(
        {.before_unmap = [](AddressRange) {}, .after_map = [](AddressRange) {}}));
  };
  std::vector<HostFaultScenario> all;
  all.push_back({.name = "AddRemapObserver", .prepare = stitch, .run = [](World& w) {
                   return w.engine().add_remap_observer(
                       {.before_unmap = {}, .after_map = [](AddressRange) {}});
                 }});
  all.push_back({.name = "AllocateWithRemapObserver", .prepare = observe, .run = [](World& w) {
                   return w.allocate(30 * kMiB);
                 }});
  all.push_back({.name = "TrimWithRemapObserver",
                 .prepare =
                     [observe](World& w) {
                       observe(w);
                       stitch(w);
                       free_all(w);
                     },
                 .run = [](World& w) { return w.engine().trim({}); },
                 .may_change_caches = true});
  all.push_back({.name = "RetireMappingsWithRemapObserver",
                 .prepare =
                     [observe](World& w) {
                       observe(w);
                       leave_unused_mappings(w);
                     },
                 .run = retire_mappings,
                 .may_change_caches = true,
                 .max_mappings = 72});
  return all;
}

// A source that allocates from the device.
class DeviceSource final : public SegmentSource {
 public:
  explicit DeviceSource(Device& device) : device_(device) {}
  Result<DeviceAddress> allocate(size_t bytes, StreamId) override {
    return device_.allocate(bytes);
  }
  // The device's free needs host memory. If it fails for lack of host memory, it changes nothing
  // and can be repeated.
  void free(DeviceAddress address, size_t) override {
    if (!device_.free(address).ok()) World::must(device_.free(address));
  }

 private:
  Device& device_;
};

std::vector<HostFaultScenario> plain_segment_scenarios() {
  const auto use_source = [](World& w) {
    PoolOptions options;
    options.source = std::make_shared<DeviceSource>(w.device());
    use_pool(w, std::move(options));
  };
  std::vector<HostFaultScenario> all;
  all.push_back({.name = "AllocateFromSource", .prepare = use_source, .run = [](World& w) {
                   return w.allocate(3 * kMiB);
                 }});
  all.push_back({.name = "ReturnToSource",
                 .prepare =
                     [use_source](World& w) {
                       use_source(w);
                       World::must(w.allocate(3 * kMiB));
                       free_all(w);
                       World::must(w.engine().end_routing(World::kPool));
                       for (const PoolId pool : std::exchange(w.pools, {})) {
                         World::must(w.engine().release_pool(pool));
                       }
                     },
                 .run = [](World& w) { return w.engine().trim({}); },
                 .may_change_caches = true});
  all.push_back({.name = "AllocateUncached",
                 .prepare = [](World& w) { w.engine().set_caching(false); },
                 .run = [](World& w) { return w.allocate(3 * kMiB); }});
  all.push_back({.name = "FreeUncached",
                 .prepare =
                     [](World& w) {
                       w.engine().set_caching(false);
                       World::must(w.allocate(3 * kMiB));
                     },
                 .run = [](World& w) { return w.live.empty() ? Status() : w.free_last(); },
                 .may_change_caches = true,
                 .must_not_throw = true});
  return all;
}

std::vector<HostFaultScenario> many_streams_scenarios() {
  // More arenas than plans visit, so that the next plan puts arenas to rest.
  const auto use_streams = [](World& w) {
    for (int i = 0; i < 8; ++i) {
      const Result<StreamId> stream = w.device().create_stream();
      World::must(stream.status());
      World::must(w.allocate(3 * kMiB, *stream));
    }
  };
  std::vector<HostFaultScenario> all;
  all.push_back({.name = "LetArenasRest", .prepare = use_streams, .run = [](World& w) {
                   return w.allocate(3 * kMiB, w.side());
                 }});
  all.push_back({.name = "WakeArenas",
                 .prepare =
                     [use_streams](World& w) {
                       use_streams(w);
                       World::must(w.allocate(3 * kMiB, w.side()));
                       free_all(w);
                     },
                 .run = [](World& w) { return w.allocate(20 * kMiB); },
                 .may_change_caches = true});
  return all;
}

}  // namespace

std::vector<HostFaultScenario> paged_host_fault_scenarios() {
  std::vector<HostFaultScenario> all;
  for (auto&& part : {stitch_scenarios(), stitch_scenarios_with_device_faults(), trim_scenarios(),
                      reclaim_scenarios(), pause_scenarios(), checkpoint_scenarios(),
                      observer_scenarios(), plain_segment_scenarios(), many_streams_scenarios()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace ashlar::paged
