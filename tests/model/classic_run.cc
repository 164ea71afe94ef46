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
#include "classic_model.h"
#include "engine/classic/classic_engine.h"

namespace ashlar::model {
namespace {

constexpr DeviceIndex kDevice{0};

class Run {
 public:
  explicit Run(const Setting& setting) : model_(setting.options, setting.capacity_bytes) {
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
    for (StreamId stream : streams_) keep_busy(stream);
  }
  ~Run() { finish_all(); }

  void step(const Operation& operation);
  void check_sums();
  const std::string& disagreement() const { return disagreement_; }

 private:
  struct Live {
    Block* block = nullptr;
    uint64_t address = 0;
    std::set<StreamId> uses;
  };

  Device& device() { return machine_->device(kDevice); }
  void disagree(std::string what) {
    if (disagreement_.empty()) disagreement_ = std::move(what);
  }
  void listen(const TraceEntry& entry);

  void allocate(size_t bytes, StreamId stream);
  void place_next();
  void free(size_t which);
  void trim();
  void route(size_t slot, StreamId stream);
  void unroute(size_t slot);
  void drop(size_t slot);
  void compare_acts();

  // Work on every stream but the default one waits until it is let go on.
  void keep_busy(StreamId stream) {
    if (stream == kDefaultStream) return;
    (void)machine_->hold(kDevice, stream).ok();
    (void)device().call_host(stream, [] {}).ok();
  }
  void finish(StreamId stream) {
    (void)machine_->resume(kDevice, stream).ok();
    (void)device().synchronize_stream(stream).ok();
    for (auto& [address, streams] : pending_) streams.erase(stream);
  }
  void finish_all() {
    for (StreamId stream : streams_) finish(stream);
  }
  // The engine looks at its events: what is done is free.
  void complete() {
    for (auto it = pending_.begin(); it != pending_.end();) {
      if (it->second.empty()) model_.complete(it->first);
      it = it->second.empty() ? pending_.erase(it) : std::next(it);
    }
  }

  std::unique_ptr<sim::Machine> machine_;
  std::unique_ptr<classic::ClassicEngine> engine_;
  ClassicModel model_;
  std::array<StreamId, 4> streams_;
  std::array<PoolId, 3> slots_{};
  uint64_t last_pool_ = 0;
  std::vector<Live> live_;
  std::map<uint64_t, std::set<StreamId>> pending_;  // and the streams that still use it
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
  const size_t which = live_.empty() ? 0 : operation.number % live_.size();
  switch (operation.kind) {
    case Kind::kAllocate: allocate(operation.number, stream); break;
    case Kind::kFree:
      if (!live_.empty()) free(which);
      break;
    case Kind::kUse:
      if (live_.empty() || stream == kDefaultStream) break;
      (void)engine_->record_stream(live_[which].block, {&device(), stream}).ok();
      if (live_[which].block->stream != stream) live_[which].uses.insert(stream);
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
  }
  compare_acts();
}

// When the device is full, the engine waits for all streams: here, it finds them done.
void Run::allocate(size_t bytes, StreamId stream) {
  complete();
  const bool climbs = model_.would_climb(bytes, stream);
  if (climbs) {
    finish_all();
    complete();
  }
  while (model_.place_count() < 4) place_next();
  const Result<Block*> block = engine_->allocate({bytes, stream});
  const std::optional<uint64_t> predicted = model_.allocate(bytes, stream);
  if (climbs) {
    for (StreamId each : streams_) keep_busy(each);
  }
  if (!block.ok() && !block.status().is_out_of_memory()) disagree(block.status().to_string());
  if (block.ok()) live_.push_back({*block, (*block)->address.value(), {}});
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
  if (Status freed = engine_->free(live.block); !freed.ok()) disagree(freed.to_string());
  model_.free(live.address, live.uses.empty() ? State::kFree : State::kPending);
  if (!live.uses.empty()) pending_[live.address] = live.uses;
}

void Run::trim() {
  finish_all();
  complete();
  if (Status trimmed = engine_->trim({}); !trimmed.ok()) disagree(trimmed.to_string());
  model_.trim();
  for (StreamId stream : streams_) keep_busy(stream);
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

std::vector<Operation> shrink(const Setting& setting, std::vector<Operation> operations) {
  const auto disagrees = [&](const std::vector<Operation>& candidate) {
    return run(setting, candidate, 1);
  };
  if (const auto found = disagrees(operations)) operations.resize(found->step + 1);
  for (size_t chunk = operations.size() / 2; chunk > 0; chunk /= 2) {
    for (size_t at = 0; at + chunk <= operations.size();) {
      std::vector<Operation> candidate = operations;
      const auto begin = candidate.begin() + static_cast<ptrdiff_t>(at);
      candidate.erase(begin, begin + static_cast<ptrdiff_t>(chunk));
      const std::optional<Disagreement> found = disagrees(candidate);
      if (found) candidate.resize(found->step + 1);
      if (found) operations = std::move(candidate);
      if (!found) at += chunk;
    }
  }
  return operations;
}

}  // namespace ashlar::model
