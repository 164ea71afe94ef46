// The run itself: each operation on the engine, then on the model, then a comparison.
#include "classic_run.h"

#include <algorithm>
#include <array>
#include <memory>
#include <set>

#include "ashlar/sim.h"
#include "base/random.h"
#include "base/text.h"
#include "base/units.h"
#include "capture_shadow.h"
#include "classic_model.h"
#include "device/relaxed_capture.h"
#include "engine/classic/classic_engine.h"

namespace ashlar::model {
namespace {

constexpr DeviceIndex kDevice{0};

class Run {
 public:
  explicit Run(const Setting& setting)
      : model_(setting.options, setting.capacity_bytes),
        reuses_(setting.options.capture_stream_reuse) {
    sim::Options options;
    options.device_count = 1;
    options.capacity_bytes = setting.capacity_bytes;
    options.backing = sim::Backing::kBookkeeping;
    options.seed = 1;
    machine_ = *sim::Machine::create(options);
    engine_ = std::make_unique<classic::ClassicEngine>(device(), setting.options);
    engine_->add_tracker([this](const TraceEntry& entry) { listen(entry); });
    for (StreamId& stream : streams_) stream = *device().create_stream();
    streams_[0] = kDefaultStream;
    keep_all_busy();
  }
  ~Run() {
    end_capture();
    finish_all();
  }

  void step(const Operation& operation);
  void check_sums();
  const std::string& disagreement() const { return disagreement_; }
  // Which operation allocated the block that this one means; empty: none.
  std::optional<size_t> target_of(const Operation& operation) const {
    const std::optional<size_t> place = place_of(operation);
    return place ? std::optional(live_[*place].allocated_by) : std::nullopt;
  }

 private:
  struct Live {
    Block* block = nullptr;
    uint64_t address = 0;
    size_t allocated_by = 0;  // the operation's id
    std::set<StreamId> uses;
    std::set<StreamId> capture_uses;  // of those, declared in captures only
  };
  // Freed while a capture had to do with it.
  struct SetAside {
    Live live;
    std::set<uint64_t> markers;
  };

  Device& device() { return machine_->device(kDevice); }
  void disagree(std::string what) {
    if (disagreement_.empty()) disagreement_ = std::move(what);
  }
  void listen(const TraceEntry& entry);

  std::optional<size_t> place_of(const Operation& operation) const;
  void allocate(const Operation& operation, StreamId stream);
  void place_next();
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
  void resolve_set_aside();
  void reuse_within_capture(StreamId stream);
  void compare_acts();

  // Work on every stream but the default one waits until it is let go on. A stream that captures
  // was let go on before, and is left alone.
  void keep_busy(StreamId stream) {
    if (stream == kDefaultStream || capture_.includes(stream)) return;
    (void)machine_->hold(kDevice, stream).ok();
    (void)device().call_host(stream, [] {}).ok();
    busy_.insert(stream);
  }
  void keep_all_busy() {
    for (StreamId stream : streams_) keep_busy(stream);
  }
  void finish(StreamId stream) {
    if (capture_.includes(stream)) return;
    const RelaxedCapture relaxed(device());
    (void)machine_->resume(kDevice, stream).ok();
    (void)device().synchronize_stream(stream).ok();
    busy_.erase(stream);
    for (auto& [address, streams] : pending_) streams.erase(stream);
  }
  void finish_all() {
    for (StreamId stream : streams_) finish(stream);
  }
  // The engine looks at its events: what is done is free.
  void complete() {
    resolve_set_aside();
    for (auto it = pending_.begin(); it != pending_.end();) {
      if (it->second.empty()) model_.complete(it->first);
      it = it->second.empty() ? pending_.erase(it) : std::next(it);
    }
  }

  std::unique_ptr<sim::Machine> machine_;
  std::unique_ptr<classic::ClassicEngine> engine_;
  ClassicModel model_;
  const bool reuses_;
  std::array<StreamId, 4> streams_;
  std::array<PoolId, 3> slots_{};
  uint64_t last_pool_ = 0;
  std::vector<Live> live_;
  std::map<uint64_t, std::set<StreamId>> pending_;  // and the streams that still use it
  std::set<StreamId> busy_;
  CaptureShadow capture_;
  std::vector<SetAside> set_aside_;
  std::vector<Act> acts_;
  Random random_{1};
  std::set<uint64_t> used_slots_;
  std::string disagreement_;
};

void Run::listen(const TraceEntry& entry) {
  const bool concerns_device =
      entry.action == TraceAction::kSegmentAlloc || entry.action == TraceAction::kSegmentFree ||
      entry.action == TraceAction::kSegmentMap || entry.action == TraceAction::kSegmentUnmap;
  if (concerns_device) acts_.push_back({entry.action, entry.address.value(), entry.bytes});
}

void Run::step(const Operation& operation) {
  const StreamId stream = streams_[operation.which % streams_.size()];
  const size_t slot = operation.number % slots_.size();
  const std::optional<size_t> place = place_of(operation);
  switch (operation.kind) {
    case Kind::kAllocate: allocate(operation, stream); break;
    case Kind::kFree:
      if (place) free(*place);
      break;
    case Kind::kUse:
      if (place && stream != kDefaultStream) use(live_[*place], stream);
      break;
    case Kind::kFinish:
      finish(stream);
      keep_busy(stream);
      break;
    case Kind::kTrim: trim(); break;
    case Kind::kFraction: {
      const std::array<double, 4> fractions = {1, 0.9, 0.6, 1};
      (void)engine_->set_memory_fraction(fractions[slot]).ok();
      model_.set_fraction(fractions[slot]);
      break;
    }
    case Kind::kRoute: route(slot, stream); break;
    case Kind::kUnroute: unroute(slot); break;
    case Kind::kDrop: drop(slot); break;
    case Kind::kCapture: begin_capture(slot, stream); break;
    case Kind::kWork: work(stream); break;
    case Kind::kOrder: {
      if (!capture_.is_active()) break;
      const std::vector<StreamId>& captured = capture_.streams();
      const StreamId other = captured[operation.number / 2 % captured.size()];
      const bool is_first = operation.number % 2 == 0;
      order(is_first ? other : stream, is_first ? stream : other);
      break;
    }
    case Kind::kEnd: end_capture(); break;
  }
  compare_acts();
}

std::optional<size_t> Run::place_of(const Operation& operation) const {
  const bool means_block = operation.kind == Kind::kFree || operation.kind == Kind::kUse;
  if (!means_block || live_.empty()) return std::nullopt;
  if (!operation.target) return operation.number % live_.size();
  const auto found = std::find_if(live_.begin(), live_.end(), [&](const Live& each) {
    return each.allocated_by == *operation.target;
  });
  if (found == live_.end()) return std::nullopt;
  return static_cast<size_t>(found - live_.begin());
}

// When the engine would wait for streams, it finds them done. For a stream that is capturing it
// looks at no event.
void Run::allocate(const Operation& operation, StreamId stream) {
  const size_t bytes = operation.number;
  const bool is_capturing = capture_.includes(stream);
  if (is_capturing) {
    reuse_within_capture(stream);
  } else {
    complete();
  }
  const bool climbs = model_.would_climb(bytes, stream);
  if (climbs) finish_all();
  if (climbs && !is_capturing) complete();
  while (model_.place_count() < 4) place_next();
  const Result<Block*> block = engine_->allocate({bytes, stream});
  const std::optional<uint64_t> predicted = model_.allocate(bytes, stream);
  if (climbs) keep_all_busy();
  if (!block.ok() && !block.status().is_out_of_memory()) disagree(block.status().to_string());
  if (block.ok()) live_.push_back({*block, (*block)->address.value(), operation.id, {}, {}});
  if (block.ok() != predicted.has_value()) {
    disagree(text("the model says ", predicted ? "a block" : "out of memory", ", the engine ",
                  block.ok() ? "a block" : block.status().to_string()));
  } else if (block.ok() && live_.back().address != *predicted) {
    disagree(text("the model says address ", *predicted, ", the engine ", live_.back().address));
  }
}

// Somewhere new, in no order, and far enough from the next for any segment.
void Run::place_next() {
  constexpr uint64_t kFirst = uint64_t{1} << 50;
  constexpr uint64_t kSlotCount = uint64_t{1} << 18;
  uint64_t slot = random_.below(kSlotCount);
  while (!used_slots_.insert(slot).second) slot = random_.below(kSlotCount);
  const uint64_t address = kFirst + slot * kGiB;
  machine_->place_next(kDevice, DeviceAddress(address));
  model_.place_next(address);
}

void Run::free(size_t which) {
  const Live live = live_[which];
  live_[which] = live_.back();
  live_.pop_back();
  std::set<StreamId> streams = live.uses;
  streams.insert(live.block->stream);
  if (Status freed = engine_->free(live.block); !freed.ok()) disagree(freed.to_string());
  model_.free(live.address, live.uses.empty() ? State::kFree : State::kPending);
  if (live.uses.empty()) return;
  if (involves_capture(live)) {
    set_aside_.push_back({live, capture_.markers(streams)});
  } else {
    pending_[live.address] = live.uses;
  }
}

// During a capture, it waits for nothing.
void Run::trim() {
  finish_all();
  if (!capture_.is_active()) complete();
  if (Status trimmed = engine_->trim({}); !trimmed.ok()) disagree(trimmed.to_string());
  model_.trim();
  keep_all_busy();
}

void Run::use(Live& live, StreamId stream) {
  if (Status used = engine_->record_stream(live.block, {&device(), stream}); !used.ok()) {
    disagree(used.to_string());
  }
  if (live.block->stream == stream) return;
  const bool is_new = live.uses.insert(stream).second;
  if (!capture_.includes(stream)) live.capture_uses.erase(stream);
  if (capture_.includes(stream) && is_new) live.capture_uses.insert(stream);
}

// --- pools --------------------------------------------------------------------------------------

void Run::route(size_t slot, StreamId stream) {
  const bool taken = std::any_of(model_.pools().begin(), model_.pools().end(),
                                 [&](const auto& each) { return each.second.routed == stream; });
  if (taken) return;
  if (!model_.pools().contains(slots_[slot])) {
    slots_[slot] = PoolId{0, ++last_pool_};
    const PoolOptions options{.source = nullptr, .use_on_oom = slot == 1, .no_split = slot == 2};
    (void)engine_->create_pool(slots_[slot], options).ok();
    model_.pools()[slots_[slot]] = {.use_on_oom = slot == 1, .no_split = slot == 2};
  }
  ModelPool& pool = model_.pools()[slots_[slot]];
  if (pool.freeable || pool.routed) return;
  pool.routed = stream;
  const Status begun =
      engine_->begin_routing(slots_[slot], [stream](StreamId asked) { return asked == stream; });
  if (!begun.ok()) disagree(begun.to_string());
}

void Run::unroute(size_t slot) {
  const auto pool = model_.pools().find(slots_[slot]);
  if (pool == model_.pools().end() || !pool->second.routed) return;
  pool->second.routed.reset();
  const bool ended = engine_->end_routing(slots_[slot]).ok();
  if (!ended || !engine_->release_pool(slots_[slot]).ok()) disagree("the routing did not end");
}

void Run::drop(size_t slot) {
  const auto pool = model_.pools().find(slots_[slot]);
  if (pool == model_.pools().end() || pool->second.routed || pool->second.freeable) return;
  pool->second.freeable = true;
  if (!engine_->release_pool(slots_[slot]).ok()) disagree("the pool was not let go");
}

// --- captures -----------------------------------------------------------------------------------

void Run::begin_capture(size_t slot, StreamId stream) {
  if (capture_.is_active() || stream == kDefaultStream) return;
  route(slot, stream);
  finish(stream);
  engine_->capture_began();
  const Status begun = device().begin_capture(stream, CaptureMode::kGlobal);
  if (!begun.ok()) disagree(begun.to_string());
  capture_.begin(stream);
  model_.set_capturing(capture_.streams());
}

void Run::work(StreamId stream) {
  if (!capture_.includes(stream)) return;
  if (Status queued = device().call_host(stream, [] {}); !queued.ok()) disagree(queued.to_string());
  capture_.work(stream);
}

// A stream that has taken no part cannot come before one that has: that would break the capture.
void Run::order(StreamId first, StreamId then) {
  const bool can_join = then != kDefaultStream && first != then;
  if (!capture_.includes(first) || !can_join) return;
  finish(then);
  const EventId event = *device().create_event();
  Status ordered = device().record_event(event, first);
  if (ordered.ok()) ordered = device().wait_event(then, event);
  if (!ordered.ok()) disagree(ordered.to_string());
  (void)device().destroy_event(event).ok();
  capture_.order(first, then);
  model_.set_capturing(capture_.streams());
}

// The device tells if the engine did something that broke the capture.
void Run::end_capture() {
  if (!capture_.is_active()) return;
  const StreamId origin = capture_.origin();
  for (StreamId stream : std::vector(capture_.streams())) order(stream, origin);
  const Result<GraphId> graph = device().end_capture(origin);
  if (!graph.ok()) disagree(graph.status().to_string());
  if (graph.ok()) (void)device().destroy_graph(*graph).ok();
  if (!engine_->capture_ended().ok()) disagree("the capture did not end");
  capture_.end();
  model_.set_capturing({});
  keep_all_busy();
}

bool Run::involves_capture(const Live& live) const {
  return capture_.includes(live.block->stream) ||
         std::any_of(live.uses.begin(), live.uses.end(),
                     [&](StreamId stream) { return capture_.includes(stream); });
}

// What has no more to do with a capture waits for the uses that were not the capture's own.
void Run::resolve_set_aside() {
  std::erase_if(set_aside_, [&](const SetAside& each) {
    if (involves_capture(each.live)) return false;
    std::set<StreamId> left;
    for (StreamId stream : each.live.uses) {
      const bool waits = !each.live.capture_uses.contains(stream) && busy_.contains(stream);
      if (waits) left.insert(stream);
    }
    pending_[each.live.address] = left;
    return true;
  });
}

void Run::reuse_within_capture(StreamId stream) {
  if (!reuses_) return;
  std::erase_if(set_aside_, [&](const SetAside& each) {
    const bool is_candidate = each.live.block->stream == stream && !each.markers.empty();
    if (!is_candidate || !capture_.are_behind(stream, each.markers)) return false;
    model_.complete(each.live.address);
    return true;
  });
}

// --- comparing ----------------------------------------------------------------------------------

void Run::compare_acts() {
  const std::vector<Act> predicted = model_.take_acts();
  const std::vector<Act> happened = std::exchange(acts_, {});
  if (predicted == happened) return;
  std::string what = "device calls differ; the model:";
  for (const Act& act : predicted) {
    what += text(" ", name(act.action), "(", act.address, ", ", act.bytes, ")");
  }
  what += "; the engine:";
  for (const Act& act : happened) {
    what += text(" ", name(act.action), "(", act.address, ", ", act.bytes, ")");
  }
  disagree(std::move(what));
}

void Run::check_sums() {
  if (Status valid = engine_->validate(); !valid.ok()) disagree(valid.to_string());
  const AllocatorStats sums = model_.sums();
  const AllocatorStats stats = engine_->stats();
  const auto compare = [&](std::string_view what, const StatTriple& a, const StatTriple& b) {
    const bool same = a.all.current == b.all.current &&
                      a.small_pool.current == b.small_pool.current &&
                      a.large_pool.current == b.large_pool.current;
    if (!same) disagree(text(what, ": ", a.all.current, " by the model, ", b.all.current));
  };
  compare("allocation", sums.allocation, stats.allocation);
  compare("allocated_bytes", sums.allocated_bytes, stats.allocated_bytes);
  compare("active", sums.active, stats.active);
  compare("active_bytes", sums.active_bytes, stats.active_bytes);
  compare("requested_bytes", sums.requested_bytes, stats.requested_bytes);
  compare("segment", sums.segment, stats.segment);
  compare("reserved_bytes", sums.reserved_bytes, stats.reserved_bytes);
  compare("inactive_split", sums.inactive_split, stats.inactive_split);
  compare("inactive_split_bytes", sums.inactive_split_bytes, stats.inactive_split_bytes);
  if (stats.ooms != model_.ooms()) disagree("ooms differ");
  if (stats.alloc_retries != model_.retries()) disagree("alloc_retries differ");
  for (const PoolId& pool : slots_) {
    if (pool.is_default()) continue;
    const bool exists = engine_->pool_use_count(pool).ok();
    if (exists != model_.pools().contains(pool)) disagree("a pool should be gone, or should not");
  }
}

}  // namespace

std::optional<Disagreement> run(const Setting& setting, const std::vector<Operation>& operations,
                                size_t check_every) {
  Run run(setting);
  for (size_t i = 0; i < operations.size(); ++i) {
    run.step(operations[i]);
    if (i % check_every == 0 || i + 1 == operations.size()) run.check_sums();
    if (!run.disagreement().empty()) return Disagreement{i, run.disagreement()};
  }
  return std::nullopt;
}

namespace {

// Up to the one that disagrees, each block named by the operation that allocated it.
std::vector<Operation> with_targets(const Setting& setting, std::vector<Operation> operations) {
  Run run(setting);
  for (size_t i = 0; i < operations.size(); ++i) {
    operations[i].target = run.target_of(operations[i]);
    run.step(operations[i]);
    run.check_sums();
    if (!run.disagreement().empty()) operations.resize(i + 1);
  }
  return operations;
}

// Leaves out ever smaller stretches that do not matter.
std::vector<Operation> without_stretches(const Setting& setting,
                                         std::vector<Operation> operations) {
  for (size_t chunk = operations.size() / 2; chunk > 0; chunk /= 2) {
    for (size_t at = 0; at + chunk <= operations.size();) {
      std::vector<Operation> candidate = operations;
      const auto begin = candidate.begin() + static_cast<ptrdiff_t>(at);
      candidate.erase(begin, begin + static_cast<ptrdiff_t>(chunk));
      const std::optional<Disagreement> found = run(setting, candidate, 1);
      if (found) candidate.resize(found->step + 1);
      if (found) operations = std::move(candidate);
      if (!found) at += chunk;
    }
  }
  return operations;
}

}  // namespace

std::vector<Operation> shrink(const Setting& setting, std::vector<Operation> operations) {
  operations = with_targets(setting, std::move(operations));
  for (size_t before = SIZE_MAX; operations.size() < before;) {
    before = operations.size();
    operations = without_stretches(setting, std::move(operations));
  }
  return operations;
}

}  // namespace ashlar::model
