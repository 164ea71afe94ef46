// SPDX-License-Identifier: Apache-2.0
//
// The steps are listed in Workload::run and implemented in that order. The file is long because the
// steps share the state of one class.
#include "cli/demo/demo_workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <utility>

#include "base/mutex.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/terminal/table.h"

namespace ashlar {
namespace {

constexpr DeviceIndex kFirst{0};
constexpr DeviceIndex kSecond{1};
constexpr size_t kPiecesPerHalf = 4;
constexpr size_t kExtentCount = 2 * kPiecesPerHalf;
constexpr std::array kLanes = {Lane::kLeft, Lane::kRight, Lane::kJoin, Lane::kReduce};

// The numbers are irregular and their weights depend on the position, so a lost or misplaced number
// changes the sum.
uint32_t number_at(uint64_t index) { return static_cast<uint32_t>(index * 2654435761U) >> 8; }
uint64_t weight_at(uint64_t index) { return index % 1021 + 1; }

DeviceIndex device_of(Lane lane) { return lane == Lane::kReduce ? kSecond : kFirst; }

// The finished pieces of work, in order. Thread safe: stream threads append to it.
class FinishLog {
 public:
  void append(Lane lane, std::string piece) {
    MutexLock lock(mutex_);
    finished_.push_back({lane, std::move(piece)});
  }
  std::vector<FinishedPiece> all() const {
    MutexLock lock(mutex_);
    return finished_;
  }
  size_t count(std::initializer_list<Lane> lanes) const {
    size_t count = 0;
    for (const FinishedPiece& each : all())
      count += static_cast<size_t>(std::ranges::count(lanes, each.lane));
    return count;
  }

 private:
  mutable Mutex mutex_;
  std::vector<FinishedPiece> finished_ ASHLAR_GUARDED_BY(mutex_);
};

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
  Status resume_streams();
  Status check_result();
  Status release_all();

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
  void add_operation(std::string_view subject, std::string description) {
    record_.operations.push_back({std::string(subject), std::move(description)});
  }
  void check(std::string text, bool holds) { record_.checks.push_back({std::move(text), holds}); }

  const size_t extent_bytes_;
  WorkloadRecord record_;
  FinishLog log_;
  // Each of these counters is written by one piece of work, and read after that piece has finished.
  size_t writers_seen_by_join_ = 0;
  size_t joins_seen_by_reduce_ = 0;

  std::vector<ExtentId> extents_;
  DeviceAddress view_;     // on the first device: the extents in order
  DeviceAddress alias_;    // on the first device: the same extents in reverse order
  DeviceAddress numbers_;  // on the second device: the copy of the view
  DeviceAddress sum_;      // on the second device, from its stream-ordered pool
  uint64_t* host_sum_ = nullptr;
  std::array<StreamId, kLaneCount> streams_;
  std::array<EventId, kLaneCount> done_;  // recorded at the end of each lane's work

  // The last member, so that it is destroyed first: its threads use the members above.
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
    Status (Workload::*function)();
  };
  static constexpr Step kSteps[] = {
      {"build the view", &Workload::build_view},
      {"build the alias", &Workload::build_alias},
      {"allocate on the second device", &Workload::allocate_on_second},
      {"open the streams", &Workload::open_streams},
      {"queue the writers", &Workload::queue_writers},
      {"queue the join", &Workload::queue_join},
      {"queue the reduction", &Workload::queue_reduce},
      {"resume the streams", &Workload::resume_streams},
      {"check the result", &Workload::check_result},
      {"release everything", &Workload::release_all},
  };
  for (const Step& step : kSteps) {
    if (Status status = (this->*step.function)(); !status.ok()) {
      return Status::device_fault(status.failed_call(), status.code(),
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
  add_operation(
      "sim:0", fmt::format("reserve {} of address space and map {} extents of {}: a view",
                           format_bytes(total_bytes()), kExtentCount, format_bytes(extent_bytes_)));
  return Status();
}

Status Workload::build_alias() {
  Result<DeviceAddress> alias = map_extents({extents_.rbegin(), extents_.rend()});
  if (!alias.ok()) return alias.status();
  alias_ = *alias;
  add_operation("sim:0", "map the same extents at other addresses, in reverse order: an alias");
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

// Allocates memory on the second device. The first attempt fails by fault injection. Like an
// engine, the workload then releases cached memory and retries.
Status Workload::allocate_on_second() {
  Result<ExtentId> cached = second().create(total_bytes());
  if (!cached.ok()) return cached.status();
  machine_->inject({.call = DeviceCall::kAllocate,
                    .device = kSecond,
                    .status = Status::out_of_memory("injected by the demo")});

  Result<DeviceAddress> numbers = second().allocate(total_bytes());
  const bool refused = !numbers.ok() && numbers.status().is_out_of_memory();
  const std::string answer = numbers.status().to_string();
  if (refused) {
    if (Status status = second().release(*cached); !status.ok()) return status;
    numbers = second().allocate(total_bytes());
  }
  if (!numbers.ok()) return numbers.status();
  numbers_ = *numbers;
  add_operation("sim:1", fmt::format("allocate {}: \"{}\"; release a cached extent and retry: ok",
                                     format_bytes(total_bytes()), answer));
  check("out of memory was distinguished from other failures, and the retry succeeded", refused);
  return Status();
}

// Creates the streams and pauses them, to check that queueing work does not block.
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
  add_operation(name(Lane::kLeft),
                "L1-L4: one kernel per extent writes the lower half of the view");
  add_operation(name(Lane::kRight), "R1-R4: the same for the upper half, concurrently");
  return Status();
}

Status Workload::queue_writer(Lane lane, size_t extent, const std::string& piece) {
  return machine_->try_launch(kFirst, stream(lane),
                              [this, lane, extent, piece](const sim::DeviceMemory& memory) {
                                Status status = write_extent(memory, extent);
                                log_.append(lane, piece);
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
  Status noted = first().call_host(join, [this] { log_.append(Lane::kJoin, "C"); });
  if (!noted.ok()) return noted;
  add_operation(name(Lane::kJoin),
                "A: wait for the events of left and right, then add 1 through the alias");
  add_operation(name(Lane::kJoin), "C: copy the view to sim:1");
  return first().record_event(done(Lane::kJoin), join);
}

Status Workload::add_one(const sim::DeviceMemory& memory) {
  writers_seen_by_join_ = log_.count({Lane::kLeft, Lane::kRight});
  Result<std::span<uint32_t>> numbers = memory.try_view<uint32_t>(alias_, number_count());
  if (!numbers.ok()) return numbers.status();
  for (uint32_t& number : *numbers) ++number;
  log_.append(Lane::kJoin, "A");
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
                              [this, piece] { log_.append(Lane::kReduce, piece); });
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
  add_operation(name(Lane::kReduce),
                "Z: allocate 8 B from the stream-ordered pool and set them to zero");
  add_operation(name(Lane::kReduce),
                "S: wait for the copy's event, then sum up, weighted by position");
  add_operation(name(Lane::kReduce), "H: copy the sum to pinned host memory");
  return status;
}

Status Workload::add_up(const sim::DeviceMemory& memory) {
  joins_seen_by_reduce_ = log_.count({Lane::kJoin});
  Result<std::span<uint32_t>> numbers = memory.try_view<uint32_t>(numbers_, number_count());
  if (!numbers.ok()) return numbers.status();
  Result<std::span<uint64_t>> sum = memory.try_view<uint64_t>(sum_, 1);
  if (!sum.ok()) return sum.status();
  for (size_t i = 0; i < numbers->size(); ++i) sum->front() += (*numbers)[i] * weight_at(i);
  log_.append(Lane::kReduce, "S");
  return Status();
}

Status Workload::resume_streams() {
  check("queueing did not block: no piece had finished when the last was queued",
        log_.all().empty());
  for (Lane lane : kLanes) {
    Status resumed = machine_->resume_stream(device_of(lane), stream(lane));
    if (!resumed.ok()) return resumed;
  }
  if (Status status = second().synchronize_device(); !status.ok()) return status;
  return first().synchronize_device();
}

Status Workload::check_result() {
  check("A started after L1-L4 and R1-R4 had finished", writers_seen_by_join_ == kExtentCount);
  check("S started after A and C had finished", joins_seen_by_reduce_ == 2);

  uint64_t expected = 0;
  for (size_t i = 0; i < number_count(); ++i) expected += (number_at(i) + 1) * weight_at(i);
  record_.sum = *host_sum_;
  check(
      fmt::format("the weighted sum of {} numbers is {} (expected {})",
                  group_digits(number_count()), group_digits(record_.sum), group_digits(expected)),
      record_.sum == expected);
  return Status();
}

Status Workload::release_all() {
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
    Result<DeviceMemoryStats> use = machine_->device(index).memory_stats();
    if (!use.ok()) return use.status();
    is_empty = is_empty && use->free_bytes == use->total_bytes;
  }
  check("all memory was released: both devices are empty", is_empty);
  return Status();
}

Status Workload::unmap_extents(DeviceAddress begin) {
  const AddressRange range = {begin, total_bytes()};
  if (Status status = first().unmap(range); !status.ok()) return status;
  return first().free_addresses(range);
}

}  // namespace
}  // namespace ashlar
