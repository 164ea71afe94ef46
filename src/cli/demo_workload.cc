// SPDX-License-Identifier: Apache-2.0
//
// The workload in the order of its steps: Workload::run is the table of contents.
#include "cli/demo_workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/text.h"
#include "base/units.h"
#include "cli/finish_log.h"
#include "cli/table.h"

namespace ashlar {
namespace {

constexpr DeviceIndex kFirst{0};
constexpr DeviceIndex kSecond{1};
constexpr size_t kPiecesPerHalf = 4;
constexpr size_t kExtentCount = 2 * kPiecesPerHalf;
constexpr std::array kLanes = {Lane::kLeft, Lane::kRight, Lane::kJoin, Lane::kReduce};

// Numbers without a pattern, and a weight by place: one lost or misplaced number changes the sum.
uint32_t number_at(uint64_t place) { return static_cast<uint32_t>(place * 2654435761U) >> 8; }
uint64_t weight_at(uint64_t place) { return place % 1021 + 1; }

DeviceIndex device_of(Lane lane) { return lane == Lane::kReduce ? kSecond : kFirst; }

class Workload {
 public:
  Workload(std::unique_ptr<sim::Machine> machine, size_t extent_bytes)
      : extent_bytes_(extent_bytes), machine_(std::move(machine)) {}

  Result<WorkloadRecord> run();

 private:
  Status build_view();
  Status build_alias();
  Status allocate_on_second();
  Status open_streams();
  Status queue_writers();
  Status queue_join();
  Status queue_reduce();
  Status let_it_run();
  Status compare();
  Status give_back();

  Result<DeviceAddress> map_extents(const std::vector<ExtentId>& extents);
  Status unmap_extents(DeviceAddress begin);
  Status queue_writer(Lane lane, size_t extent, const std::string& piece);
  Status write_extent(const sim::DeviceMemory& memory, size_t extent);
  Status add_one(const sim::DeviceMemory& memory);
  Status add_up(const sim::DeviceMemory& memory);

  Device& first() { return machine_->device(kFirst); }
  Device& second() { return machine_->device(kSecond); }
  Device& device(Lane lane) { return machine_->device(device_of(lane)); }
  StreamId stream(Lane lane) const { return streams_[static_cast<size_t>(lane)]; }
  EventId done(Lane lane) const { return done_[static_cast<size_t>(lane)]; }
  size_t total_bytes() const { return kExtentCount * extent_bytes_; }
  size_t number_count() const { return total_bytes() / sizeof(uint32_t); }
  void asked(std::string_view where, std::string what) {
    record_.asked.push_back({std::string(where), std::move(what)});
  }
  void check(std::string sentence, bool holds) {
    record_.checks.push_back({std::move(sentence), holds});
  }

  const size_t extent_bytes_;
  WorkloadRecord record_;
  FinishLog log_;
  // Each is set by one piece of work, and read by the host after it has waited for that piece.
  size_t writers_seen_by_join_ = 0;
  size_t joins_seen_by_reduce_ = 0;

  std::vector<ExtentId> extents_;
  DeviceAddress view_;     // on the first device: the extents in order
  DeviceAddress alias_;    // on the first device: the same extents in reverse
  DeviceAddress numbers_;  // on the second device: where the view is copied to
  DeviceAddress sum_;      // on the second device, from its stream-ordered pool
  uint64_t* host_sum_ = nullptr;
  std::array<StreamId, kLaneCount> streams_;
  std::array<EventId, kLaneCount> done_;  // of a lane: what the next lane waits for

  // Last, so that it goes first: its threads use what is above.
  std::unique_ptr<sim::Machine> machine_;
};

}  // namespace

Result<WorkloadRecord> run_workload(const sim::Options& options) {
  Result<std::unique_ptr<sim::Machine>> machine = sim::Machine::try_create(options);
  if (!machine.ok()) return machine.status();
  return Workload(*std::move(machine), options.granularity_bytes).run();
}

sim::Options workload_machine(std::optional<uint64_t> seed) {
  sim::Options options;
  options.device_count = 2;
  options.seed = seed;
  return options;
}

std::string_view name(Lane lane) {
  switch (lane) {
    case Lane::kLeft: return "sim:0 left";
    case Lane::kRight: return "sim:0 right";
    case Lane::kJoin: return "sim:0 join";
    case Lane::kReduce: return "sim:1 reduce";
  }
  return "";
}

namespace {

Result<WorkloadRecord> Workload::run() {
  struct Step {
    std::string_view purpose;
    Status (Workload::*act)();
  };
  static constexpr Step kSteps[] = {
      {"build the view", &Workload::build_view},
      {"build the alias", &Workload::build_alias},
      {"allocate on the second device", &Workload::allocate_on_second},
      {"open the streams", &Workload::open_streams},
      {"queue the writers", &Workload::queue_writers},
      {"queue the join", &Workload::queue_join},
      {"queue the reduction", &Workload::queue_reduce},
      {"let it run", &Workload::let_it_run},
      {"compare the results", &Workload::compare},
      {"give everything back", &Workload::give_back},
  };
  for (const Step& step : kSteps) {
    if (Status status = (this->*step.act)(); !status.ok()) {
      return Status::device_fault(status.call(), status.code(),
                                  text("could not ", step.purpose, ": ", status.to_string()));
    }
  }
  record_.finished = log_.all();
  record_.costs = {machine_->costs(kFirst), machine_->costs(kSecond)};
  return std::move(record_);
}

Status Workload::build_view() {
  for (size_t i = 0; i < kExtentCount; ++i) {
    Result<ExtentId> extent = first().create(extent_bytes_);
    if (!extent.ok()) return extent.status();
    extents_.push_back(*extent);
  }
  Result<DeviceAddress> view = map_extents(extents_);
  if (!view.ok()) return view.status();
  view_ = *view;
  asked("sim:0",
        fmt::format("reserve {} of addresses and put {} extents of {} behind them: a view",
                    format_bytes(total_bytes()), kExtentCount, format_bytes(extent_bytes_)));
  return Status();
}

Status Workload::build_alias() {
  Result<DeviceAddress> alias = map_extents({extents_.rbegin(), extents_.rend()});
  if (!alias.ok()) return alias.status();
  alias_ = *alias;
  asked("sim:0", "map the same extents at other addresses too, in reverse: an alias");
  return Status();
}

Result<DeviceAddress> Workload::map_extents(const std::vector<ExtentId>& extents) {
  Result<DeviceAddress> begin = first().reserve(total_bytes());
  if (!begin.ok()) return begin;
  for (size_t i = 0; i < extents.size(); ++i) {
    Status mapped = first().map(*begin + i * extent_bytes_, extents[i]);
    if (!mapped.ok()) return mapped;
  }
  Status granted = first().set_access({*begin, total_bytes()}, kFirst, Access::kReadWrite);
  if (!granted.ok()) return granted;
  return begin;
}

// The first try fails on purpose; giving back what is merely kept is what an engine would do too.
Status Workload::allocate_on_second() {
  Result<ExtentId> kept = second().create(total_bytes());
  if (!kept.ok()) return kept.status();
  machine_->inject({.call = DeviceCall::kAllocate,
                    .device = kSecond,
                    .status = Status::out_of_memory("injected by the demo")});

  Result<DeviceAddress> numbers = second().allocate(total_bytes());
  const bool refused = !numbers.ok() && numbers.status().is_out_of_memory();
  const std::string answer = numbers.status().to_string();
  if (refused) {
    if (Status status = second().release(*kept); !status.ok()) return status;
    numbers = second().allocate(total_bytes());
  }
  if (!numbers.ok()) return numbers.status();
  numbers_ = *numbers;
  asked("sim:1", fmt::format("allocate {}: \"{}\"; give back an extent that was only kept, "
                             "try again: done",
                             format_bytes(total_bytes()), answer));
  check("out of memory was told apart from failure, and the second try succeeded", refused);
  return Status();
}

// The streams are held, so that it shows whether queueing waits for anything.
Status Workload::open_streams() {
  for (Lane lane : kLanes) {
    Result<StreamId> stream = device(lane).create_stream();
    if (!stream.ok()) return stream.status();
    streams_[static_cast<size_t>(lane)] = *stream;
    Result<EventId> event = device(lane).create_event();
    if (!event.ok()) return event.status();
    done_[static_cast<size_t>(lane)] = *event;
    if (Status held = machine_->pause_stream(device_of(lane), *stream); !held.ok()) return held;
  }
  return Status();
}

Status Workload::queue_writers() {
  for (size_t i = 0; i < kPiecesPerHalf; ++i) {
    Status left = queue_writer(Lane::kLeft, i, fmt::format("L{}", i + 1));
    if (!left.ok()) return left;
    Status right = queue_writer(Lane::kRight, kPiecesPerHalf + i, fmt::format("R{}", i + 1));
    if (!right.ok()) return right;
  }
  for (Lane lane : {Lane::kLeft, Lane::kRight}) {
    Status recorded = first().record_event(done(lane), stream(lane));
    if (!recorded.ok()) return recorded;
  }
  asked(name(Lane::kLeft), "L1-L4: one kernel per extent writes the lower half of the view");
  asked(name(Lane::kRight), "R1-R4: the same for the upper half, at the same time");
  return Status();
}

Status Workload::queue_writer(Lane lane, size_t extent, const std::string& piece) {
  return machine_->try_launch(kFirst, stream(lane),
                              [this, lane, extent, piece](const sim::DeviceMemory& memory) {
                                Status status = write_extent(memory, extent);
                                log_.note(lane, piece);
                                return status;
                              });
}

Status Workload::write_extent(const sim::DeviceMemory& memory, size_t extent) {
  const size_t count = extent_bytes_ / sizeof(uint32_t);
  Result<std::span<uint32_t>> numbers =
      memory.try_view<uint32_t>(view_ + extent * extent_bytes_, count);
  if (!numbers.ok()) return numbers.status();
  for (size_t i = 0; i < count; ++i) (*numbers)[i] = number_at(extent * count + i);
  return Status();
}

Status Workload::queue_join() {
  const StreamId join = stream(Lane::kJoin);
  for (Lane lane : {Lane::kLeft, Lane::kRight}) {
    if (Status status = first().wait_event(join, done(lane)); !status.ok()) return status;
  }
  Status added = machine_->try_launch(
      kFirst, join, [this](const sim::DeviceMemory& memory) { return add_one(memory); });
  if (!added.ok()) return added;
  Status copied = first().copy_to_peer(kSecond, numbers_, view_, total_bytes(), join);
  if (!copied.ok()) return copied;
  Status noted = first().call_host(join, [this] { log_.note(Lane::kJoin, "C"); });
  if (!noted.ok()) return noted;
  asked(name(Lane::kJoin), "A: wait for left and right by events, add 1 to all, through the alias");
  asked(name(Lane::kJoin), "C: copy the view to sim:1");
  return first().record_event(done(Lane::kJoin), join);
}

Status Workload::add_one(const sim::DeviceMemory& memory) {
  writers_seen_by_join_ = log_.count({Lane::kLeft, Lane::kRight});
  Result<std::span<uint32_t>> numbers = memory.try_view<uint32_t>(alias_, number_count());
  if (!numbers.ok()) return numbers.status();
  for (uint32_t& number : *numbers) ++number;
  log_.note(Lane::kJoin, "A");
  return Status();
}

Status Workload::queue_reduce() {
  const StreamId reduce = stream(Lane::kReduce);
  Result<void*> host = second().allocate_host(sizeof(uint64_t));
  if (!host.ok()) return host.status();
  host_sum_ = static_cast<uint64_t*>(*host);
  Result<DeviceAddress> sum = second().allocate_async(sizeof(uint64_t), reduce);
  if (!sum.ok()) return sum.status();
  sum_ = *sum;

  const auto note = [this](const char* piece) {
    return second().call_host(stream(Lane::kReduce),
                              [this, piece] { log_.note(Lane::kReduce, piece); });
  };
  Status status = second().fill(sum_, 0, sizeof(uint64_t), reduce);
  if (status.ok()) status = note("Z");
  if (status.ok()) status = second().wait_event(reduce, done(Lane::kJoin));
  if (status.ok()) {
    status = machine_->try_launch(
        kSecond, reduce, [this](const sim::DeviceMemory& memory) { return add_up(memory); });
  }
  if (status.ok()) status = second().copy_to_host(host_sum_, sum_, sizeof(uint64_t), reduce);
  if (status.ok()) status = note("H");
  if (status.ok()) status = second().free_async(sum_, reduce);
  asked(name(Lane::kReduce), "Z: take 8 B from the stream-ordered pool and set them to zero");
  asked(name(Lane::kReduce),
        "S: wait for the copy by an event, add everything up, each number weighted by its place");
  asked(name(Lane::kReduce), "H: copy the sum to pinned host memory");
  return status;
}

Status Workload::add_up(const sim::DeviceMemory& memory) {
  joins_seen_by_reduce_ = log_.count({Lane::kJoin});
  Result<std::span<uint32_t>> numbers = memory.try_view<uint32_t>(numbers_, number_count());
  if (!numbers.ok()) return numbers.status();
  Result<std::span<uint64_t>> sum = memory.try_view<uint64_t>(sum_, 1);
  if (!sum.ok()) return sum.status();
  for (size_t i = 0; i < numbers->size(); ++i) sum->front() += (*numbers)[i] * weight_at(i);
  log_.note(Lane::kReduce, "S");
  return Status();
}

Status Workload::let_it_run() {
  check("queueing waited for nothing: no piece had finished when the last was queued",
        log_.all().empty());
  for (Lane lane : kLanes) {
    Status resumed = machine_->resume_stream(device_of(lane), stream(lane));
    if (!resumed.ok()) return resumed;
  }
  if (Status status = second().synchronize_device(); !status.ok()) return status;
  return first().synchronize_device();
}

Status Workload::compare() {
  check("A began only after L1-L4 and R1-R4 had finished", writers_seen_by_join_ == kExtentCount);
  check("S began only after A and C had finished", joins_seen_by_reduce_ == 2);

  uint64_t expected = 0;
  for (size_t i = 0; i < number_count(); ++i) expected += (number_at(i) + 1) * weight_at(i);
  record_.sum = *host_sum_;
  check(
      fmt::format("the weighted sum of {} numbers came out as {}; the host says {}",
                  group_digits(number_count()), group_digits(record_.sum), group_digits(expected)),
      record_.sum == expected);
  return Status();
}

Status Workload::give_back() {
  Status status = second().free_host(host_sum_);
  if (status.ok()) status = second().free(numbers_);
  if (status.ok()) status = unmap_extents(alias_);
  if (status.ok()) status = unmap_extents(view_);
  for (ExtentId extent : extents_) {
    if (status.ok()) status = first().release(extent);
  }
  for (Lane lane : kLanes) {
    if (status.ok()) status = device(lane).destroy_event(done(lane));
    if (status.ok()) status = device(lane).destroy_stream(stream(lane));
  }
  if (!status.ok()) return status;

  bool is_empty = true;
  for (DeviceIndex index : {kFirst, kSecond}) {
    Result<MemoryStats> use = machine_->device(index).memory_stats();
    if (!use.ok()) return use.status();
    is_empty = is_empty && use->free_bytes == use->total_bytes;
  }
  check("everything was given back: both devices are empty again", is_empty);
  return Status();
}

Status Workload::unmap_extents(DeviceAddress begin) {
  const AddressRange range = {begin, total_bytes()};
  if (Status status = first().unmap(range); !status.ok()) return status;
  return first().free_addresses(range);
}

}  // namespace
}  // namespace ashlar
