// SPDX-License-Identifier: Apache-2.0
//
// Lists operations that every engine has, each in a state in which the operation has much to do.
#include <utility>

#include "base/units.h"
#include "sweep/host_allocation_faults.h"
#include "sweep/host_fault_world.h"

namespace ashlar::sweep {
namespace {

using World = HostFaultWorld;

std::vector<HostFaultScenario> allocations() {
  std::vector<HostFaultScenario> all;
  all.push_back({.name = "AllocateSegment", .run = [](World& w) { return w.allocate(3 * kMiB); }});
  all.push_back({.name = "AllocateSmall", .run = [](World& w) { return w.allocate(700); }});
  all.push_back({.name = "AllocateCached",
                 .prepare =
                     [](World& w) {
                       World::must(w.allocate(30 * kMiB));
                       World::must(w.free_last());
                     },
                 .run = [](World& w) { return w.allocate(3 * kMiB); }});
  all.push_back({.name = "AllocateAfterPendingFree",
                 .prepare =
                     [](World& w) {
                       World::must(w.allocate(30 * kMiB));
                       w.keep_side_busy();
                       World::must(w.use_last());
                       World::must(w.free_last());
                       w.finish_side();
                     },
                 .run = [](World& w) { return w.allocate(30 * kMiB); },
                 .may_change_caches = true});
  all.push_back({.name = "AllocateFromFragments",
                 .prepare =
                     [](World& w) {
                       for (int i = 0; i < 8; ++i) World::must(w.allocate(12 * kMiB));
                       for (size_t i = 0; i < w.live.size(); ++i) {
                         World::must(w.engine().free(w.live[i]));
                         w.live.erase(w.live.begin() + static_cast<ptrdiff_t>(i));
                       }
                     },
                 .run = [](World& w) { return w.allocate(50 * kMiB, w.side()); },
                 .may_change_caches = true});
  return all;
}

std::vector<HostFaultScenario> frees() {
  std::vector<HostFaultScenario> all;
  all.push_back({.name = "Free",
                 .prepare =
                     [](World& w) {
                       World::must(w.allocate(3 * kMiB));
                       World::must(w.allocate(3 * kMiB));
                     },
                 .run = [](World& w) { return w.live.empty() ? Status() : w.free_last(); },
                 .may_change_caches = true,
                 .must_not_throw = true});
  const auto use_block = [](World& w) {
    World::must(w.allocate(3 * kMiB));
    w.keep_side_busy();
    World::must(w.use_last());
  };
  all.push_back({.name = "RecordStream",
                 .prepare =
                     [](World& w) {
                       World::must(w.allocate(3 * kMiB));
                       w.keep_side_busy();
                     },
                 .run = [](World& w) { return w.use_last(); }});
  all.push_back({.name = "FreeUsedBlock",
                 .prepare = use_block,
                 .run = [](World& w) { return w.live.empty() ? Status() : w.free_last(); },
                 .may_change_caches = true,
                 .must_not_throw = true});
  all.push_back({.name = "FreeUsedBlockQuietly",
                 .prepare = use_block,
                 .run =
                     [](World& w) {
                       if (w.live.empty()) return Status();
                       w.engine().free_quietly(w.live.back());
                       w.live.pop_back();
                       return Status();
                     },
                 .may_change_caches = true,
                 .must_not_throw = true});
  all.push_back({.name = "UnpinFreedBlock",
                 .prepare =
                     [use_block](World& w) {
                       use_block(w);
                       w.engine().pin(w.live.back());
                       World::must(w.engine().free(w.live.back()));
                     },
                 .run =
                     [](World& w) {
                       if (w.live.empty()) return Status();
                       w.engine().unpin(w.live.back());
                       w.live.pop_back();
                       return Status();
                     },
                 .may_change_caches = true,
                 .must_not_throw = true});
  return all;
}

std::vector<HostFaultScenario> trims() {
  const auto fill_cache = [](World& w) {
    for (const size_t bytes : {size_t{700}, 3 * kMiB, 30 * kMiB}) {
      World::must(w.allocate(bytes));
      World::must(w.allocate(bytes, w.side()));
    }
    w.keep_side_busy();
    World::must(w.engine().record_stream(w.live[2], {&w.device(), w.side()}));
    while (!w.live.empty()) World::must(w.free_last());
  };
  std::vector<HostFaultScenario> all;
  all.push_back({.name = "Trim",
                 .prepare = fill_cache,
                 .run = [](World& w) { return w.engine().trim({}); },
                 .may_change_caches = true});
  all.push_back({.name = "TrimTo",
                 .prepare = fill_cache,
                 .run =
                     [](World& w) {
                       return w.engine().trim_to({10 * kMiB, TrimWait::kForWork, {}}).status();
                     },
                 .may_change_caches = true});
  return all;
}

Status create_pool_once(World& w) {
  if (!w.pools.empty()) return {};
  PoolOptions options;
  {
    const HostAllocationExemption exempt;
    options.tag = "a tag that is longer than a short string";
  }
  Status created = w.engine().create_pool(World::kPool, std::move(options));
  if (created.ok()) w.pools.push_back(World::kPool);
  return created;
}

Status begin_routing_once(World& w) {
  Status begun = w.engine().begin_routing(World::kPool, [](StreamId) { return true; });
  if (begun.ok()) w.pools.push_back(World::kPool);
  return begun;
}

std::vector<HostFaultScenario> pools() {
  const auto route = [](World& w) {
    World::must(create_pool_once(w));
    World::must(begin_routing_once(w));
  };
  std::vector<HostFaultScenario> all;
  all.push_back({.name = "CreatePool", .run = create_pool_once});
  all.push_back({.name = "BeginRouting", .run = [](World& w) {
                   return w.pools.empty() ? begin_routing_once(w) : Status();
                 }});
  all.push_back({.name = "AllocateInPool", .prepare = route, .run = [](World& w) {
                   return w.allocate(3 * kMiB);
                 }});
  all.push_back({.name = "EndRouting",
                 .prepare =
                     [route](World& w) {
                       route(w);
                       World::must(w.allocate(3 * kMiB));
                     },
                 .run = [](World& w) { return w.engine().end_routing(World::kPool); }});
  all.push_back({.name = "ReleasePool",
                 .prepare =
                     [route](World& w) {
                       route(w);
                       World::must(w.engine().end_routing(World::kPool));
                     },
                 .run =
                     [](World& w) {
                       if (w.pools.empty()) return Status();
                       Status released = w.engine().release_pool(World::kPool);
                       if (released.ok()) w.pools.pop_back();
                       return released;
                     },
                 .may_change_caches = true});
  all.push_back({.name = "TrimReleasedPool",
                 .prepare =
                     [route](World& w) {
                       route(w);
                       World::must(w.allocate(3 * kMiB));
                       World::must(w.free_last());
                       World::must(w.engine().end_routing(World::kPool));
                       for (const PoolId pool : std::exchange(w.pools, {})) {
                         World::must(w.engine().release_pool(pool));
                       }
                     },
                 .run = [](World& w) { return w.engine().trim({}); },
                 .may_change_caches = true});
  return all;
}

std::vector<HostFaultScenario> inspections() {
  const auto allocate_and_record = [](World& w) {
    HistoryOptions options;
    options.max_entries = 1000;
    World::must(w.engine().history().start(options));
    World::must(w.allocate(3 * kMiB));
    World::must(w.allocate(700));
  };
  std::vector<HostFaultScenario> all;
  all.push_back({.name = "TakeSnapshot", .prepare = allocate_and_record, .run = [](World& w) {
                   (void)w.engine().take_snapshot();
                   return Status();
                 }});
  all.push_back({.name = "AllocateWithHistory",
                 .prepare = allocate_and_record,
                 .run = [](World& w) { return w.allocate(30 * kMiB); }});
  all.push_back({.name = "FreeWithHistory",
                 .prepare = allocate_and_record,
                 .run = [](World& w) { return w.live.empty() ? Status() : w.free_last(); },
                 .may_change_caches = true,
                 .must_not_throw = true});
  all.push_back({.name = "AllocateWithTracker",
                 .prepare = [](World& w) { w.engine().add_tracker([](const TraceEntry&) {}); },
                 .run = [](World& w) { return w.allocate(3 * kMiB); }});
  all.push_back({.name = "FreeWithTracker",
                 .prepare =
                     [](World& w) {
                       w.engine().add_tracker([](const TraceEntry&) {});
                       World::must(w.allocate(3 * kMiB));
                     },
                 .run = [](World& w) { return w.live.empty() ? Status() : w.free_last(); },
                 .may_change_caches = true,
                 .must_not_throw = true});
  all.push_back({.name = "Stats", .prepare = allocate_and_record, .run = [](World& w) {
                   (void)w.engine().stats();
                   return Status();
                 }});
  return all;
}

}  // namespace

std::vector<HostFaultScenario> common_host_fault_scenarios() {
  std::vector<HostFaultScenario> all;
  for (auto&& part : {allocations(), frees(), trims(), pools(), inspections()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace ashlar::sweep
