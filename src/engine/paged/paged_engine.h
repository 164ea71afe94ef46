// SPDX-License-Identifier: Apache-2.0
//
// Memory that does not fragment: physical memory moves from view to view instead of lying idle
// between live blocks. docs/design/paged.md tells why it is built like this.
// Long because it names every step of the files below.
//
// paged_engine.cc   allocate, free, record_stream: the story, and the fast way
// stitch.cc         a miss: a place for it, or memory put behind one range of addresses
// placing.cc        where views have room, and which extents are idle
// budget.cc         what that may cost
// claim.cc          taking that memory from where it is, or giving it up again
// grow.cc           driver calls: extents, mappings, addresses, plain segments
// reclaim.cc        what is tried when there is no more memory: the ladder
// retire.cc         mappings that nobody needs any more
// trim.cc           memory back to the device, all of it or as far as asked for
// pause.cc          pools without memory for a while, and with it again
// pools.cc          private pools and routing
// counting.cc       statistics: sums over arenas, and their peaks
// looking.cc        what it tells: hooks, history, sharing
// snapshot.cc       what it holds: blocks, views, extents
// checkpoint.cc     the state of a private pool, taken and restored
// validate.cc       the invariants
//
// Locks, in this order: mutex_ (everything slow), counting_mutex_ (the list of arenas, and what was
// reserved), the arenas' own. A hit takes its arena's lock and no other. Driver calls are made
// under mutex_ alone; users' code is called with no lock held.
//
// Invariants: the blocks of a view tile it; an extent is in use through at most one view, its home;
// what is away covers whole slots, whose extents are not at home there; counters equal sums.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

#include "ashlar/clock.h"
#include "ashlar/options.h"
#include "base/mutex.h"
#include "base/routes.h"
#include "engine/engine.h"
#include "engine/hooks.h"
#include "engine/paged/arenas_by_stream.h"
#include "engine/paged/paged_pool.h"
#include "engine/paged/search.h"
#include "engine/pending_frees.h"
#include "engine/remap_observers.h"
#include "engine/return_queue.h"
#include "engine/size_policy.h"

namespace ashlar::paged {

class PagedEngine final : public Engine {
 public:
  // `device` and `clock` outlive the engine; without a clock it is the host's. REQUIRES: options
  // that src/config would accept.
  PagedEngine(Device& device, const AllocatorOptions& options, Clock* clock = nullptr);
  // Gives everything back to the device, blocks in use included: their addresses die with it.
  ~PagedEngine() override;

  Device& device() const override { return device_; }
  Result<Block*> allocate(const AllocationRequest& request) override;
  Block* allocate_fast(size_t bytes, StreamId stream) noexcept override;
  Status free(Block* block, StackId stack = {}) override;
  void free_quietly(Block* block, StackId stack = {}) override;
  Status record_stream(Block* block, const StreamUse& use) override;
  void pin(Block* block) override;
  void unpin(Block* block) override;
  BlockMemory block_memory(const Block* block) const override;
  Status add_accessor(DeviceIndex accessor) override;
  bool is_accessor(DeviceIndex device) const override;
  Status trim(PoolId pool = {}, StackId stack = {}) override;
  Result<size_t> trim_to(const TrimTarget& target) override;
  Status pause(std::string_view tag, bool keep_contents) override;
  Status resume(std::string_view tag) override;
  Status set_memory_fraction(double fraction) override;
  double memory_fraction() const override;
  void set_caching(bool caching) override;
  bool is_caching() const override;
  void set_stream_class(StreamId stream, std::string name) override;
  std::string stream_class(StreamId stream) const override;
  void set_default_class_fraction(const std::string& name, double capacity_fraction) override;
  Status create_pool(PoolId pool, PoolOptions options) override;
  Status retain_pool(PoolId pool) override;
  Status release_pool(PoolId pool) override;
  Result<int> pool_use_count(PoolId pool) const override;
  Status begin_routing(PoolId pool, RouteFilter filter) override;
  Status end_routing(PoolId pool) override;
  void capture_began() override;
  Status capture_ended() override;
  Result<std::vector<DeviceAddress>> live_in_pool(PoolId pool) const override;
  Result<PoolCheckpoint> checkpoint(PoolId pool) override;
  Result<RestoreResult> restore(const PoolCheckpoint& checkpoint) override;
  EngineSnapshot take_snapshot(std::optional<PoolId> pool = {}) override;
  Status annotate(DeviceAddress address, const std::string& said) override;
  AllocatorStats stats() const override;
  void reset_peak_stats() override;
  void reset_total_stats() override;
  size_t largest_cached_bytes() const override;
  std::vector<ExpandableUse> expandable_segments() const override;
  void add_tracker(TraceTracker tracker) override;
  void add_oom_observer(std::function<void(const OomNotice&)> observer) override;
  void add_rejection_observer(std::function<void(const OomNotice&)> observer) override;
  void add_free_memory_callback(std::function<bool()> callback) override;
  Status add_remap_observer(RemapObserver observer) override;

  // Every invariant above; the first one that does not hold, in words.
  Status validate() const;

 private:
  // --- paged_engine.cc
  PagedBlock* take_at_once(const AllocationRequest& request);
  bool put_at_once(PagedBlock* block, StackId stack);
  [[gnu::noinline, gnu::hot]] void record_taken(const PagedBlock& block);
  [[gnu::noinline, gnu::hot]] void record_put(const PagedBlock& block, StackId stack);
  [[gnu::noinline]] Result<Block*> allocate_from_arena(const AllocationRequest& request);
  Result<Block*> allocate_slowly(const AllocationRequest& request);
  Result<Block*> allocate_locked(Search& search) ASHLAR_REQUIRES(mutex_);
  Result<Block*> find_or_grow(Search& search) ASHLAR_REQUIRES(mutex_);
  Result<Block*> allocate_uncached(Search& search) ASHLAR_REQUIRES(mutex_);
  Block* take_cached(Search& search, double tolerance) ASHLAR_REQUIRES(mutex_);
  // All need the arena's lock.
  static void count_out(Heap& heap, PagedBlock* block, const AllocationRequest& request) {
    block->state = BlockState::kAllocated;
    block->requested_bytes = request.bytes;
    block->stack = request.stack;
    heap.counters.risen.add(amount_of(*block));
  }
  // True: the counters may have a new peak.
  bool hand_out(Arena& arena, PagedBlock* block, const AllocationRequest& request) {
    Heap& heap = arena.heap(block->is_small);
    count_out(heap, block, request);
    note(TraceAction::kAlloc, *block, request.bytes, request.stack);
    return !arena.may_rise(heap, {});
  }
  static bool is_above_levels(const Block& handed_out);
  void take_back(PagedBlock* block, StackId stack) {
    if (is_watched()) note_free(*block, stack);
    block->arena->heap(block->is_small).counters.fallen.add(amount_of(*block));
    block->arena->put(block);
  }
  static Amount amount_of(const Block& block) {
    return {1, static_cast<int64_t>(block.bytes), static_cast<int64_t>(block.requested_bytes)};
  }
  // Nothing has to happen before it is free.
  static bool is_simple(const PagedBlock& block) {
    return block.is_allocated() && block.uses.empty() && block.pin_count == 0 && !block.is_uncached;
  }
  [[gnu::noinline]] Status free_to_arena(PagedBlock* block, StackId stack);
  [[gnu::noinline]] void free_to_arena_quietly(PagedBlock* block, StackId stack);
  Status free_slowly(PagedBlock* block, StackId stack);
  Status finish_free(PagedBlock* block) ASHLAR_REQUIRES(mutex_);
  void make_free(PagedBlock* block) ASHLAR_REQUIRES(mutex_);
  void make_all_free(const std::vector<Block*>& finished) ASHLAR_REQUIRES(mutex_);
  Status collect_waiting(StreamId stream) ASHLAR_REQUIRES(mutex_);
  bool ask_callbacks() ASHLAR_REQUIRES(mutex_);
  // Says whether the next allocation may take the fast way.
  void refresh() ASHLAR_REQUIRES(mutex_);
  void defer_error(Status error) ASHLAR_REQUIRES(mutex_);

  // --- stitch.cc
  Result<Block*> stitch(Search& search) ASHLAR_REQUIRES(mutex_);
  std::set<const Arena*> find_lenders(const Search& search) ASHLAR_REQUIRES(mutex_);
  static void leave_out_gone(PagedPool& pool, std::set<const Arena*>& lenders);
  Plan best_plan(const Search& search, const std::set<const Arena*>& lenders)
      ASHLAR_REQUIRES(mutex_);
  std::vector<Extent*> idle_to_be_mapped(const Search& search) const ASHLAR_REQUIRES(mutex_);
  Plan plan_growth(const Search& search) ASHLAR_REQUIRES(mutex_);
  std::vector<Tail> tails_to_grow(const Search& search) ASHLAR_REQUIRES(mutex_);
  void place_new_memory(const Search& search, Plan& plan) const ASHLAR_REQUIRES(mutex_);
  Plan pieces_for(const Search& search, View* view, size_t have_bytes,
                  const std::vector<Extent*>& idle) ASHLAR_REQUIRES(mutex_);
  double cost_of(const Search& search, const Plan& plan) const ASHLAR_REQUIRES(mutex_);
  size_t grown_bytes(const Search& search) const;
  static size_t spare_bytes(const Search& search);
  size_t small_extent_bytes() const;
  bool is_shareable() const;
  size_t shared_extent_bytes(bool is_small) const;
  size_t growth_step_bytes(const Search& search) const;
  size_t fresh_extent_bytes(const Search& search) const ASHLAR_REQUIRES(mutex_);
  size_t fresh_count(const Search& search, size_t bytes) const ASHLAR_REQUIRES(mutex_);
  std::vector<size_t> fresh_sizes(const Search& search, size_t bytes) const ASHLAR_REQUIRES(mutex_);

  // --- placing.cc: all need the locks of the pool's arenas
  // Finds every extent of the lenders that no block uses; `asking` needs no wait for its own.
  void mark_idle(PagedPool& pool, const std::set<const Arena*>& lenders, const Arena* asking)
      ASHLAR_REQUIRES(mutex_);
  Plan plan_placement(const Search& search) ASHLAR_REQUIRES(mutex_);
  Tail find_tail(View& view, const Search& search) ASHLAR_REQUIRES(mutex_);
  bool may_use(const View& view, const Search& search) const ASHLAR_REQUIRES(mutex_);
  void consider_runs(View& view, const IdleMap& idle, BestPlace& best) ASHLAR_REQUIRES(mutex_);
  static Run run_around(const View& view, size_t first, size_t end, const IdleMap& idle);
  // What plans see of a slot is what it is.
  void pack(View& view, size_t slot) const {
    const PackedSlot now = packed(view, slot);
    view.packed[slot].extent = now.extent;
    view.packed[slot].is_usable = now.is_usable;
  }
  PackedSlot packed(const View& view, size_t slot) const;

  // --- budget.cc
  // What the driver takes for mapping one more extent.
  static constexpr double kMapUs = 34;
  bool can_afford_to_stitch(const Search& search) ASHLAR_REQUIRES(mutex_)
      ASHLAR_EXCLUDES(counting_mutex_);
  void charge_mapping(const Search& search, size_t borrowed_count, size_t all_count,
                      int64_t begin_ns) ASHLAR_REQUIRES(mutex_);
  size_t ample_bytes(const Search& search) const ASHLAR_REQUIRES(mutex_);
  Plan plan_ample_growth(const Search& search) const ASHLAR_REQUIRES(mutex_);

  // --- claim.cc
  Claim claim(const Plan& plan, const Search& search) ASHLAR_REQUIRES(mutex_);
  void claim_range(View& view, PagedBlock* from, AddressRange range, Claim& claim)
      ASHLAR_REQUIRES(mutex_);
  // Takes an idle extent out of the free block that it is part of.
  void carve(Extent& extent) ASHLAR_REQUIRES(mutex_);
  void move_view(View& view, Arena& arena) ASHLAR_REQUIRES(mutex_);
  // All need the arena's lock.
  void bring_back(Arena& arena) ASHLAR_REQUIRES(mutex_);
  void send_guests_off(PagedBlock* block, std::vector<Extent*>& guests) ASHLAR_REQUIRES(mutex_);
  void leave_home(Extent& extent) ASHLAR_REQUIRES(mutex_);
  void come_home(Extent& extent, View& view, size_t slot) ASHLAR_REQUIRES(mutex_);
  // Work of the lenders so far comes before what the borrower does next; no host waits.
  Status hand_over(const std::set<Arena*>& lenders, Arena& borrower) ASHLAR_REQUIRES(mutex_);
  // The extents of the claim are its arena's from now on, and trackers hear of it.
  void show_at_home(const Claim& claim) ASHLAR_REQUIRES(mutex_);
  void show(Extent& extent, AddressRange range, const Arena& arena) ASHLAR_REQUIRES(mutex_);
  // What is left and right of the block to come is free; the block itself is handed out.
  Block* hand_out_of(Claim& claim, size_t bytes, const AllocationRequest& request)
      ASHLAR_REQUIRES(mutex_);
  Block* finish_claim(Claim& claim, const Search& search) ASHLAR_REQUIRES(mutex_);
  void give_up(Claim& claim) ASHLAR_REQUIRES(mutex_);

  // --- grow.cc
  bool is_above_limit(size_t more_bytes) const ASHLAR_REQUIRES(mutex_);
  size_t limit_bytes() const ASHLAR_REQUIRES(mutex_);
  Status check_limit(Search& search, size_t more_bytes) ASHLAR_REQUIRES(mutex_);
  Result<View*> new_view(Search& search, size_t bytes) ASHLAR_REQUIRES(mutex_);
  Result<std::vector<Extent*>> create_extents(const Search& search,
                                              const std::vector<size_t>& sizes)
      ASHLAR_REQUIRES(mutex_);
  // Puts the pieces behind the view's end, and into the claim.
  Status map_behind(Claim& claim, Search& search) ASHLAR_REQUIRES(mutex_);
  // Unmaps it everywhere and gives it back; what the device refuses stays, and the error is noted.
  bool release_extent(PagedPool& pool, Extent* extent) ASHLAR_REQUIRES(mutex_);
  // Observers hear that these will be unmapped; that takes our lock away for a moment. From here on
  // nobody uses the extents, until one is gone or must `stay` after all.
  void announce_leaving(const std::vector<Extent*>& extents) ASHLAR_REQUIRES(mutex_);
  void stay(Extent& extent) ASHLAR_REQUIRES(mutex_);
  bool release_view(View& view) ASHLAR_REQUIRES(mutex_);
  Result<Block*> grow_plain(Search& search, size_t segment_bytes) ASHLAR_REQUIRES(mutex_);
  bool release_plain(View& view, TrimWait wait = TrimWait::kForWork) ASHLAR_REQUIRES(mutex_);
  void show_elsewhere(const View& view) ASHLAR_REQUIRES(mutex_);
  void erase_view(View& view) ASHLAR_REQUIRES(mutex_);

  // --- reclaim.cc
  Result<Block*> reclaim_and_retry(Search& search, Status why) ASHLAR_REQUIRES(mutex_);
  Result<Block*> grow(Search& search) ASHLAR_REQUIRES(mutex_);
  Block* borrow_from_overflow_pools(Search& search) ASHLAR_REQUIRES(mutex_);
  Status wait_for_waiting(PoolId pool) ASHLAR_REQUIRES(mutex_);
  static std::map<Arena*, int64_t> uses_of_gone(const PagedPool& pool);
  Status report_oom(const Search& search) ASHLAR_REQUIRES(mutex_);

  // --- retire.cc
  void retire_mappings() ASHLAR_REQUIRES(mutex_);
  Status shed_mappings() ASHLAR_REQUIRES(mutex_);
  size_t most_spare_mappings(size_t extent_count) const;
  size_t most_address_bytes() const;
  Crowd most_allowed() const ASHLAR_REQUIRES(mutex_);
  Crowd unretired() const ASHLAR_REQUIRES(mutex_);
  void retire_down_to(const Crowd& target) ASHLAR_REQUIRES(mutex_);
  void find_spare(View& view, std::vector<Spare>& spare) const ASHLAR_REQUIRES(mutex_);
  static bool is_spare(const View& view, size_t slot);
  static void find_unused(PagedPool& pool, std::vector<View*>& unused);
  static bool is_in_use(const View& view);
  bool vacate(View& view) ASHLAR_REQUIRES(mutex_);
  void retire(const std::vector<Spare>& spare, const Crowd& target) ASHLAR_REQUIRES(mutex_);
  bool record_behind(const Spare& spare, std::map<Arena*, std::optional<EventId>>& events)
      ASHLAR_REQUIRES(mutex_);
  // May unlock for a moment, to tell observers.
  void unmap_retired() ASHLAR_REQUIRES(mutex_);
  bool is_over(Retirement& retirement) ASHLAR_REQUIRES(mutex_);
  void announce(Retirement& retirement) ASHLAR_REQUIRES(mutex_);
  void unmap_spare(const Spare& spare, uint64_t retirement) ASHLAR_REQUIRES(mutex_);
  void forget_mapping(View& view, size_t index) ASHLAR_REQUIRES(mutex_);

  // --- validate.cc
  Status check_crowd() const ASHLAR_REQUIRES(mutex_);

  // --- trim.cc
  void finish_trim() ASHLAR_REQUIRES(mutex_);
  Status release_cached(PoolId pool) ASHLAR_REQUIRES(mutex_);
  Result<size_t> release_down_to(const TrimTarget& target) ASHLAR_REQUIRES(mutex_);
  Status collect_finished() ASHLAR_REQUIRES(mutex_);
  std::vector<PoolId> trimmable_pools() const ASHLAR_REQUIRES(mutex_);
  // All of these say how many bytes went back: about as many as wanted, or all there are.
  size_t release_memory(PoolId pool, size_t wanted_bytes, TrimWait wait) ASHLAR_REQUIRES(mutex_);
  size_t release_extents(PagedPool& pool, size_t wanted_bytes, TrimWait wait)
      ASHLAR_REQUIRES(mutex_);
  size_t release_segments(PagedPool& pool, size_t wanted_bytes, TrimWait wait)
      ASHLAR_REQUIRES(mutex_);
  void ask_progress(Arena& arena, Progress& progress) ASHLAR_REQUIRES(mutex_);
  Result<bool> ask_idle(StreamId stream) ASHLAR_REQUIRES(mutex_);
  bool is_stream_idle(StreamId stream) ASHLAR_REQUIRES(mutex_);
  bool are_all_idle() ASHLAR_REQUIRES(mutex_);
  std::vector<Extent*> take_idle(PagedPool& pool, size_t wanted_bytes, TrimWait wait,
                                 const Progress& progress) ASHLAR_REQUIRES(mutex_);
  void set_apart_busy(std::vector<Extent*>& leaving, Progress& progress) ASHLAR_REQUIRES(mutex_);
  // REQUIRES: they have no home, and no work needs them.
  size_t give_back(PagedPool& pool, const std::vector<Extent*>& leaving) ASHLAR_REQUIRES(mutex_);
  void release_empty_views(PagedPool& pool) ASHLAR_REQUIRES(mutex_);
  void give_back_to_sources() ASHLAR_REQUIRES(mutex_);
  void wait_for_sources() ASHLAR_REQUIRES(mutex_);
  // An event after all that the arena's stream has been given so far; kInvalidArgument: the stream
  // is gone.
  Result<EventId> record_on(const Arena& arena) ASHLAR_REQUIRES(mutex_);
  void give_back_event(EventId event) ASHLAR_REQUIRES(mutex_) { spare_events_.push_back(event); }

  // --- pause.cc
  enum class Change { kPause, kPauseAndKeep, kResume };
  enum class CopyWay { kToHost, kToDevice };
  Status change_tagged(std::string_view tag, Change change);
  Result<std::vector<PagedPool*>> tagged_pools(std::string_view tag) const ASHLAR_REQUIRES(mutex_);
  static bool is_any_trimmed(const std::vector<PagedPool*>& pools);
  static Status paused(const PagedPool& pool);
  Status pause_pools(const std::vector<PagedPool*>& pools, bool keep_contents)
      ASHLAR_REQUIRES(mutex_);
  static Status check_pausable(PagedPool& pool);
  Status wait_for_users(const std::vector<PagedPool*>& pools) ASHLAR_REQUIRES(mutex_);
  Status back_up(const std::vector<PagedPool*>& pools) ASHLAR_REQUIRES(mutex_);
  static void find_live(const PagedPool& pool, std::vector<Extent*>& live);
  // REQUIRES: the extents' pools are changing, by this thread.
  Result<StreamId> find_copier() ASHLAR_REQUIRES(mutex_);
  Status copy_backups(const std::vector<Extent*>& extents, CopyWay way, StreamId copier);
  Status drop_extents(const std::vector<PagedPool*>& pools) ASHLAR_REQUIRES(mutex_);
  Status drop(Extent& extent) ASHLAR_REQUIRES(mutex_);
  Status resume_pools(const std::vector<PagedPool*>& pools) ASHLAR_REQUIRES(mutex_);
  Status bring_back(Extent& extent) ASHLAR_REQUIRES(mutex_);
  Result<ExtentId> create_again(size_t bytes) ASHLAR_REQUIRES(mutex_);
  void forget_backup(Extent& extent) ASHLAR_REQUIRES(mutex_);
  void forget_backups(PagedPool& pool) ASHLAR_REQUIRES(mutex_);
  void free_stale_backups() ASHLAR_REQUIRES(mutex_);

  // --- pools.cc
  PagedPool* find_pool(PoolId pool) const ASHLAR_REQUIRES(mutex_);
  PagedPool& add_pool(PoolId pool, PoolOptions options) ASHLAR_REQUIRES(mutex_);
  void erase_pool(PoolId pool) ASHLAR_REQUIRES(mutex_);
  // The pool goes; the events that were recorded for it serve others.
  void keep_events_of(PagedPool& pool) ASHLAR_REQUIRES(mutex_);
  Arena& arena_of(PagedPool& pool, StreamId stream) ASHLAR_REQUIRES(mutex_);
  Arena& default_arena(StreamId stream) {
    Arena* arena = default_arenas_.find(stream);
    return arena != nullptr ? *arena : find_default_arena(stream);
  }
  Arena& find_default_arena(StreamId stream) ASHLAR_EXCLUDES(mutex_);

  // --- counting.cc
  void count_reserved(const Arena& arena, bool is_small, int64_t bytes) ASHLAR_REQUIRES(mutex_);
  void count_stitch() ASHLAR_REQUIRES(mutex_);
  void count_segments(bool is_small, int64_t more) ASHLAR_REQUIRES(mutex_);
  void count_lent(const Extent& extent, const Arena& to, bool is_small) ASHLAR_REQUIRES(mutex_);
  AllocatorStats stats_locked() const ASHLAR_REQUIRES(mutex_);
  // At any moment so far, as far as somebody looked.
  int64_t highest_allocated_bytes() const ASHLAR_EXCLUDES(counting_mutex_);
  // Sums up, raises peaks, and says how far each arena may go unseen from here.
  void settle(const Arena* asking = nullptr) const ASHLAR_EXCLUDES(counting_mutex_);
  void settle_locked(const Arena* asking) const ASHLAR_REQUIRES(counting_mutex_);
  void share_room(Arena& arena, const Arena* asking) const ASHLAR_REQUIRES(counting_mutex_);

  // --- looking.cc
  bool is_watched() const { return history_.is_on() || hooks_.has_trackers(); }
  void note(TraceAction action, const PagedBlock& block, size_t bytes, StackId stack) {
    if (is_watched()) note_watched(action, block, bytes, stack);
  }
  void note_watched(TraceAction action, const PagedBlock& block, size_t bytes, StackId stack);
  // Asked for and done, at once.
  void note_free(const PagedBlock& block, StackId stack);
  // Who freed it may not be known; who allocated it is the next best thing to say.
  static History::Operation act_on(TraceAction action, const PagedBlock& block, size_t bytes,
                                   StackId stack) {
    return {action,
            false,
            stack != StackId() ? stack : block.stack,
            block.address,
            bytes,
            block.stream,
            block.arena->pool.id};
  }
  static History::Operation act_of_free(const PagedBlock& block, StackId stack) {
    History::Operation act =
        act_on(TraceAction::kFreeRequested, block, block.requested_bytes, stack);
    act.is_immediate_free = true;
    return act;
  }
  void note_memory(TraceAction action, const Arena& arena, AddressRange range)
      ASHLAR_REQUIRES(mutex_);
  template <typename Visit>
  void for_each_block(const Visit& visit) const ASHLAR_REQUIRES(mutex_);

  // --- checkpoint.cc
  // A block of a checkpoint, and where it lay.
  struct Place {
    View* view = nullptr;
    BlockRecord record;
    StreamId stream;
  };
  Result<RestoreResult> restore_locked(const PoolCheckpoint& checkpoint) ASHLAR_REQUIRES(mutex_);
  Status free_all(PagedPool& pool, std::vector<DeviceAddress>& freed) ASHLAR_REQUIRES(mutex_);
  static View* view_around(const PagedPool& pool, AddressRange range);
  Block* allocate_at(PagedPool& pool, const Place& place) ASHLAR_REQUIRES(mutex_);

  Device& device_;
  Clock& clock_;
  const AllocatorOptions options_;
  const SizePolicy sizes_;
  const DeviceIndex index_;
  const size_t capacity_bytes_;
  const size_t granule_bytes_;  // 0: the device has no views for us, and all pools are plain
  const double tolerance_;      // how much of a request may become useless beside it, unasked

  std::atomic<bool> needs_care_{false};  // the fast way is closed
  // How many more requests come that are not served at once before somebody looks whether what
  // waits for other streams is over; one that finds no memory looks by itself. On a line of its
  // own: hits read the one above.
  alignas(64) std::atomic<int> hits_before_look_{0};
  std::atomic<bool> has_waiting_{false};

  mutable Mutex mutex_;
  std::map<PoolId, std::unique_ptr<PagedPool>> pools_ ASHLAR_GUARDED_BY(mutex_);
  PagedPool* default_pool_ = nullptr;
  ArenasByStream default_arenas_;  // its own, which live as long as the engine
  Routes routes_ ASHLAR_GUARDED_BY(mutex_);
  int route_count_ ASHLAR_GUARDED_BY(mutex_) = 0;
  PendingFrees waiting_ ASHLAR_GUARDED_BY(mutex_);
  int vain_looks_ ASHLAR_GUARDED_BY(mutex_) = 0;  // in a row, at `waiting_`
  std::vector<DeviceIndex> accessors_ ASHLAR_GUARDED_BY(mutex_);
  std::map<StreamId, std::string> stream_classes_ ASHLAR_GUARDED_BY(mutex_);
  std::map<std::string, double> default_class_fractions_ ASHLAR_GUARDED_BY(mutex_);
  size_t held_bytes_ ASHLAR_GUARDED_BY(mutex_) = 0;
  size_t growing_bytes_ ASHLAR_GUARDED_BY(mutex_) = 0;  // asked of the device now, unlocked
  size_t mapping_count_ ASHLAR_GUARDED_BY(mutex_) = 0;  // of extents in views
  size_t retired_count_ ASHLAR_GUARDED_BY(mutex_) = 0;  // of these
  size_t address_bytes_ ASHLAR_GUARDED_BY(mutex_) = 0;  // reserved for views
  size_t retired_address_bytes_ ASHLAR_GUARDED_BY(mutex_) = 0;
  uint64_t last_retirement_ ASHLAR_GUARDED_BY(mutex_) = 0;
  uint64_t last_announcement_ ASHLAR_GUARDED_BY(mutex_) = 0;
  uint64_t move_count_ ASHLAR_GUARDED_BY(mutex_) = 0;  // of memory between views: their clock
  bool has_mapped_ ASHLAR_GUARDED_BY(mutex_) = false;  // since mappings were last retired
  ReturnQueue return_queue_;
  double memory_fraction_ ASHLAR_GUARDED_BY(mutex_) = 1.0;
  bool caching_ ASHLAR_GUARDED_BY(mutex_) = true;
  Status deferred_error_ ASHLAR_GUARDED_BY(mutex_);  // of a free path; the next allocate reports it
  StackId caller_stack_ ASHLAR_GUARDED_BY(mutex_);
  int64_t visited_count_ ASHLAR_GUARDED_BY(mutex_) = 0;  // by the last plan; see placing.cc
  uint64_t idle_round_ ASHLAR_GUARDED_BY(mutex_) = 0;    // likewise; see View
  uint64_t seen_round_ ASHLAR_GUARDED_BY(mutex_) = 0;    // of a view that would grow; see Extent
  std::optional<EventId> handover_ ASHLAR_GUARDED_BY(mutex_);
  std::vector<EventId> spare_events_ ASHLAR_GUARDED_BY(mutex_);  // free to be recorded again
  std::thread::id changer_ ASHLAR_GUARDED_BY(mutex_);  // who pauses or resumes now; nobody at most
  std::condition_variable changed_;                    // `changer_` is done, or a trim
  std::optional<StreamId> copier_ ASHLAR_GUARDED_BY(mutex_);    // of backups
  std::vector<void*> stale_backups_ ASHLAR_GUARDED_BY(mutex_);  // pinned, to be freed

  mutable Mutex counting_mutex_;
  std::vector<Arena*> arenas_ ASHLAR_GUARDED_BY(counting_mutex_);  // by serial
  uint64_t last_arena_ ASHLAR_GUARDED_BY(counting_mutex_) = 0;
  mutable AllocatorStats stats_ ASHLAR_GUARDED_BY(counting_mutex_);
  mutable int64_t highest_allocated_bytes_ ASHLAR_GUARDED_BY(counting_mutex_) = 0;
  // What arenas of pools that are gone have counted.
  std::map<StreamId, std::array<Counters, 2>> retired_ ASHLAR_GUARDED_BY(counting_mutex_);

  Hooks hooks_;
  RemapObservers remaps_;
};

}  // namespace ashlar::paged
