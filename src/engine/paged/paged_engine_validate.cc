// SPDX-License-Identifier: Apache-2.0
//
// Checks the invariants of the engine's components.
#include <algorithm>
#include <map>

#include "base/text.h"
#include "engine/paged/paged_engine.h"

namespace ashlar::paged {
namespace {

Status violation(std::string what) { return Status::device_fault("validate", 0, std::move(what)); }

// Checks that blocks tile their view and that free neighbours are merged.
Status check_blocks(const View& view) {
  size_t offset = 0;
  const PagedBlock* before = nullptr;
  for (const PagedBlock* block = view.first; block != nullptr; block = block->next) {
    if (view.offset_of(*block) != offset) return violation(text("gap before ", block->address));
    if (block->bytes == 0) return violation(text("empty block at ", block->address));
    if (block->previous != before) return violation(text("wrong link at ", block->address));
    if (block->arena != view.arena) {
      return violation(text("the block at ", block->address, " is in the wrong arena"));
    }
    const bool could_merge = before != nullptr && block->is_in_ranges() && before->is_in_ranges();
    if (could_merge && !view.arena->pool.options.no_split) {
      return violation(text("free neighbours at ", block->address, " are not merged"));
    }
    offset += block->bytes;
    before = block;
  }
  if (before != view.last) {
    return violation(text("wrong last block of the view at ", view.reserved.begin));
  }
  return offset == view.mapped_bytes ? Status() : violation("blocks do not tile their view");
}

// Checks that slots tile their view and that the counts of slots are correct.
Status check_slots(const View& view) {
  size_t end = 0;
  size_t attached_count = 0;
  size_t displaced_count = 0;
  for (size_t i = 0; i < view.slots.size(); ++i) {
    const Slot& slot = view.slots[i];
    if (slot.offset != end) return violation("slots do not tile their view");
    end = slot.end();
    const bool is_attached = slot.extent != nullptr && slot.extent->is_attached_to(view, i);
    if (slot.has_displaced && !is_attached) return violation("a displaced extent is not attached");
    attached_count += is_attached ? 1 : 0;
    displaced_count += slot.has_displaced ? 1 : 0;
  }
  if (end != view.mapped_bytes) return violation("slots do not tile their view");
  if (attached_count != view.attached_count) return violation("wrong count of attached extents");
  if (displaced_count != view.displaced_count) return violation("wrong count of displaced extents");
  return {};
}

// Checks that detached blocks cover exactly the slots whose extents are not attached to the view.
Status check_detached_blocks(const View& view) {
  for (const PagedBlock* block = view.first; block != nullptr; block = block->next) {
    const size_t begin = view.offset_of(*block);
    for (size_t i = view.slot_at(begin);
         i < view.slots.size() && view.slots[i].offset < begin + block->bytes; ++i) {
      const Slot& slot = view.slots[i];
      const bool is_attached = slot.extent != nullptr && slot.extent->is_attached_to(view, i);
      if (is_attached == block->is_detached()) {
        return violation(text("the block at ", block->address, " does not match its extents"));
      }
      if (!block->is_detached()) continue;
      const bool is_slot = slot.offset == begin && slot.bytes == block->bytes;
      if (!is_slot) return violation("a detached block is not one slot");
      if (slot.detached_block != block) return violation("a slot refers to a wrong block");
    }
  }
  return {};
}

// Checks that slots and extents refer to each other and that retired slots are not in use.
Status check_mappings(const View& view) {
  for (size_t i = 0; i < view.slots.size(); ++i) {
    const Slot& slot = view.slots[i];
    const auto is_here = [&](const Extent::Mapping& mapping) {
      return mapping.view == &view && mapping.slot == i;
    };
    if (slot.is_retired() && (slot.extent == nullptr || slot.extent->is_attached_to(view, i))) {
      return violation(text("the mapping at ", view.at(slot.offset), " is retired and in use"));
    }
    if (slot.is_unmap_announced && !slot.is_retired()) {
      return violation("an announced mapping is not retired");
    }
    if (view.packed_state(i) != view.packed[i]) return violation("a packed slot is out of date");
    if (slot.extent == nullptr) continue;
    const auto& mappings = slot.extent->mappings;
    if (std::count_if(mappings.begin(), mappings.end(), is_here) != 1) {
      return violation(text("an extent does not list its mapping at ", view.at(slot.offset)));
    }
    if (slot.bytes != slot.extent->bytes) return violation("an extent is mapped in part");
    if (slot.extent->attached_view != nullptr &&
        slot.extent->is_attached_to(view, i) !=
            view.arena->pool.idle.is_attached_to(slot.extent->number(), view)) {
      return violation("the idle map has a wrong attached view");
    }
  }
  return {};
}

Status check_extent(const Extent& extent, const PagedPool& pool) {
  for (const Extent::Mapping& mapping : extent.mappings) {
    if (mapping.view->slots[mapping.slot].extent != &extent) {
      return violation("a mapping of an extent is another extent's");
    }
  }
  if (pool.options.never_remap && extent.mappings.size() > 1) {
    return violation("an extent of a pool with never_remap is mapped twice");
  }
  if (pool.idle.is_attached(extent) != (extent.attached_view != nullptr)) {
    return violation("the idle map has a wrong attached state");
  }
  if (!extent.is_releasing && !extent.is_traced_at_mapping()) {
    return violation("the trace places an extent at an address where it is not mapped");
  }
  if (extent.attached_view == nullptr) return {};
  if (extent.attached_view->slots[extent.attached_slot].extent != &extent) {
    return violation("an extent is attached to another extent's slot");
  }
  if (extent.arena != extent.attached_view->arena) {
    return violation("an attached extent is in another arena than its view");
  }
  return {};
}

// Checks that the counters of each arena equal the sums over its blocks.
Status check_counters(const PagedPool& pool) {
  std::map<const Arena*, Counters> sums;
  for (const auto& view : pool.views) {
    for (const PagedBlock* block = view->first; block != nullptr; block = block->next) {
      if (!block->is_active()) continue;
      Counters& sum = sums[block->arena];
      (block->is_allocated() ? sum.total_allocated : sum.pending).add(amount_of(*block));
    }
  }
  for (const auto& [stream, arena] : pool.arenas) {
    Counters counted;
    for (const SubArena& sub : arena->sub_arenas) {
      counted.total_allocated.add(sub.counters.allocated());
      counted.pending.add(sub.counters.pending);
    }
    const Counters& sum = sums[arena.get()];
    if (!(sum.total_allocated == counted.total_allocated) || !(sum.pending == counted.pending)) {
      return violation(text("the counters of stream ", stream.value(), " are wrong"));
    }
  }
  return {};
}

// Checks that plans can find all arenas that do not rest, and their views.
Status check_candidates(const PagedPool& pool) {
  const std::vector<Arena*>& arenas = pool.candidates.arenas();
  for (const auto& [stream, arena] : pool.arenas) {
    const bool is_listed = std::find(arenas.begin(), arenas.end(), arena.get()) != arenas.end();
    if (!is_listed && !arena->planning.is_resting) return violation("plans omit an active arena");
  }
  const std::vector<View*>& views = pool.candidates.views();
  for (const auto& view : pool.views) {
    const bool is_listed = std::find(views.begin(), views.end(), view.get()) != views.end();
    const bool is_resting = view->arena->planning.is_resting;
    if (!is_listed && !is_resting) return violation("plans omit a view of an active arena");
    if (is_listed && is_resting && !view->is_plain) return violation("a view does not rest");
  }
  return {};
}

// Checks that each arena reserves enough blocks for the slots of its views.
Status check_reserves(const PagedPool& pool) {
  std::map<const Arena*, size_t> wanted;
  for (const auto& view : pool.views) {
    wanted[view->arena] += Arena::kBlocksPerSlot * view->slots.size();
  }
  for (const auto& [arena, count] : wanted) {
    if (arena->reserved_block_count() < count) {
      return violation(text("stream ", arena->stream.value(), " reserves too few blocks"));
    }
  }
  return {};
}

// Checks that each view counts its ranges in the retirements.
Status check_retirements(const PagedPool& pool) {
  std::map<const View*, uint32_t> counts;
  for (const Retirement& retirement : pool.retirements) {
    for (const UnusedMappings& unused : retirement.mappings) ++counts[unused.view];
  }
  for (const auto& view : pool.views) {
    const auto found = counts.find(view.get());
    const uint32_t count = found == counts.end() ? 0 : found->second;
    if (count != view->retirement.range_count)
      return violation("wrong count of retirements of a view");
  }
  return {};
}

// Checks all invariants of one pool. REQUIRES: the engine's lock.
Status check_pool(const PagedPool& pool) {
  ArenaLocks arenas(pool);
  for (const auto& extent : pool.extents) {
    if (Status checked = check_extent(*extent, pool); !checked.ok()) return checked;
  }
  for (const auto& view : pool.views) {
    if (Status checked = check_blocks(*view); !checked.ok()) return checked;
    if (view->is_plain) continue;
    for (const auto check : {check_slots, check_mappings, check_detached_blocks}) {
      if (Status checked = check(*view); !checked.ok()) return checked;
    }
  }
  if (Status checked = check_candidates(pool); !checked.ok()) return checked;
  if (Status checked = check_reserves(pool); !checked.ok()) return checked;
  if (Status checked = check_retirements(pool); !checked.ok()) return checked;
  return check_counters(pool);
}

// Counts the retired slots that a retirement of the pool will unmap.
size_t count_listed(const PagedPool& pool) {
  size_t count = 0;
  for (const Retirement& retirement : pool.retirements) {
    for (const UnusedMappings& unused : retirement.mappings) {
      for (size_t i = unused.first; i < unused.end; ++i) {
        count += unused.view->slots[i].retirement == retirement.serial ? 1 : 0;
      }
    }
  }
  return count;
}

}  // namespace

Status PagedEngine::validate() const {
  EngineLock lock(mutex_);
  size_t held_bytes = 0;
  size_t extent_count = 0;
  for (const auto& [id, pool] : pools_.all()) {
    if (Status checked = check_pool(*pool); !checked.ok()) return checked;
    extent_count += pool->extents.size();
    for (const auto& extent : pool->extents) held_bytes += extent->is_dropped ? 0 : extent->bytes;
    for (const auto& view : pool->views) held_bytes += view->is_plain ? view->reserved.bytes : 0;
  }
  if (Status checked = validate_usage(); !checked.ok()) return checked;
  if (held_bytes != extents_.held_bytes()) return violation("wrong held bytes");
  if (extent_count != extents_.extent_count()) return violation("wrong count of extents");
  const auto reserved = static_cast<size_t>(peaks_.reserved_bytes());
  return reserved == held_bytes ? Status() : violation("wrong reserved bytes");
}

// Checks the number of mappings and the size of the reserved addresses against ViewTable's totals.
// Does not check MappingRetirer's bounds, which may be exceeded temporarily.
Status PagedEngine::validate_usage() const {
  MappingUsage usage;
  MappingUsage retired;
  size_t listed_count = 0;
  for (const auto& [id, pool] : pools_.all()) {
    for (const auto& extent : pool->extents) usage.mappings += extent->mappings.size();
    for (const auto& view : pool->views) {
      if (view->is_plain) continue;
      usage.address_bytes += view->reserved.bytes;
      if (view->retirement.is_whole) retired.address_bytes += view->reserved.bytes;
      for (const Slot& slot : view->slots) retired.mappings += slot.is_retired() ? 1 : 0;
    }
    listed_count += count_listed(*pool);
  }
  if (!(usage == views_.usage())) return violation("wrong count of mappings or addresses");
  if (!(retired == views_.retired())) return violation("wrong count of retired mappings");
  if (listed_count != retired.mappings) return violation("a retired mapping is in no retirement");
  return {};
}

}  // namespace ashlar::paged
