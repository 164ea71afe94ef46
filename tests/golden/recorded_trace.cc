// Reading recorded traces and replaying them.
#include "golden/recorded_trace.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <sstream>

#include "base/text.h"

namespace ashlar {
namespace {

constexpr DeviceIndex kDevice{0};
constexpr size_t kRecordedCapacity = 150109880320;  // of the H200 the traces come from

std::unique_ptr<sim::Machine> make_machine() {
  sim::Options options;
  options.device_count = 1;
  options.capacity_bytes = kRecordedCapacity;
  options.backing = sim::Backing::kBookkeeping;
  options.seed = 1;
  return *sim::Machine::create(options);
}

}  // namespace

std::vector<RecordedAct> read_recorded_trace(const std::string& name) {
  const std::string command =
      text(ASHLAR_PYTHON_PATH, " ", ASHLAR_GOLDEN_FOLDER, "/trace_to_text.py ",
           ASHLAR_GOLDEN_FOLDER, "/traces/", name, ".pickle.xz");
  std::unique_ptr<FILE, int (*)(FILE*)> output(::popen(command.c_str(), "r"), ::pclose);
  std::string all;
  std::vector<char> part(1 << 16);
  for (size_t got = 0; (got = std::fread(part.data(), 1, part.size(), output.get())) > 0;) {
    all.append(part.data(), got);
  }
  std::istringstream lines(all);
  std::vector<RecordedAct> acts;
  for (RecordedAct act; lines >> act.action >> act.address >> act.bytes >> act.stream;) {
    acts.push_back(act);
  }
  return acts;
}

TraceReplay::TraceReplay(const std::vector<RecordedAct>& acts, const AllocatorOptions& options)
    : acts_(acts),
      machine_(make_machine()),
      device_(machine_->device(kDevice)),
      engine_(device_, options) {
  for (const RecordedAct& act : acts) streams_[act.stream] = kDefaultStream;
  for (auto& [recorded, stream] : streams_) {
    if (recorded != 0) stream = *device_.create_stream();
  }
}

Outcome TraceReplay::run(bool recorded_addresses) {
  engine_.add_tracker([this](const TraceEntry& entry) {
    const std::string action(name(entry.action));
    if (!action.starts_with("segment_")) return;
    outcome_.segment_acts.push_back(
        text(action, " ", entry.bytes, " ", entry.stream, " after ", outcome_.alloc_count));
  });
  for (size_t i = 0; i < acts_.size() && outcome_.failure.empty(); ++i) {
    perform(i, recorded_addresses);
  }
  EXPECT_TRUE(engine_.validate().ok()) << engine_.validate().to_string();
  outcome_.stats = engine_.stats();
  return outcome_;
}

void TraceReplay::perform(size_t index, bool recorded_addresses) {
  const RecordedAct& act = acts_[index];
  if (act.action.starts_with("segment_")) {
    outcome_.wanted_segment_acts.push_back(text(
        act.action, " ", act.bytes, " ", streams_[act.stream], " after ", outcome_.alloc_count));
    const bool is_new = act.action == "segment_alloc" && recorded_addresses;
    if (is_new) machine_->place_next(kDevice, DeviceAddress(act.address));
  } else if (act.action == "alloc") {
    allocate(act);
  } else if (act.action == "free_requested") {
    const RecordedAct* next = index + 1 < acts_.size() ? &acts_[index + 1] : nullptr;
    free(act, next != nullptr && next->action == "free_completed" && next->address == act.address);
  } else if (act.action == "free_completed") {
    complete(act);
  }
}

void TraceReplay::allocate(const RecordedAct& act) {
  Result<Block*> block = engine_.allocate({act.bytes, streams_[act.stream]});
  if (!block.ok()) {
    outcome_.failure = block.status().to_string();
    return;
  }
  ++outcome_.alloc_count;
  if ((*block)->address.value() == act.address) ++outcome_.same_address_count;
  live_[act.address] = *block;
}

void TraceReplay::free(const RecordedAct& act, bool completes_at_once) {
  const auto found = live_.find(act.address);
  if (found == live_.end()) return;
  if (!completes_at_once) {
    const StreamId user = *device_.create_stream();
    EXPECT_TRUE(machine_->hold(kDevice, user).ok());
    EXPECT_TRUE(device_.call_host(user, [] {}).ok());
    EXPECT_TRUE(engine_.record_stream(found->second, {&device_, user}).ok());
    pending_[act.address] = user;
  }
  EXPECT_TRUE(engine_.free(found->second).ok());
  live_.erase(found);
}

void TraceReplay::complete(const RecordedAct& act) {
  const auto found = pending_.find(act.address);
  if (found == pending_.end()) return;
  EXPECT_TRUE(machine_->resume(kDevice, found->second).ok());
  EXPECT_TRUE(device_.synchronize_stream(found->second).ok());
  EXPECT_TRUE(device_.destroy_stream(found->second).ok());
  pending_.erase(found);
}

}  // namespace ashlar
