// SPDX-License-Identifier: Apache-2.0
//
// A monitored program for tests. Reads one command per line from standard input, prints "done"
// after each, and exits at the end of its input.
//
//   live_program [--port] [--silent]      --port: also listens on a port, and prints the address
//                                         --silent: monitored only if the environment enables it
//   live_program --hostile-metrics [--openmetrics]
//                                         prints metrics with special characters in all labels
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/allocator.h"
#include "ashlar/host.h"
#include "ashlar/live.h"
#include "ashlar/sim.h"
#include "ashlar/snapshot.h"
#include "live/exporters.h"
#include "unit/live/status_sample.h"

namespace ashlar {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// The program's objects, which commands change.
struct ProgramState {
  sim::Machine& machine;
  Allocator& allocator;
  std::vector<Buffer> held{};
  std::optional<HostAllocator> host{};
  std::vector<HostBuffer> pinned{};  // buffers of `host`, which must outlive them
};

// Allocates blocks with holes between them and a block that is stitched from the holes. Then trims
// while a busy stream still uses freed memory, which cannot be released.
void stitch(ProgramState& state) {
  Allocator& allocator = state.allocator;
  std::vector<Buffer> freed;
  allocator.allocate(160 * kMiB).reset();
  for (int i = 0; i < 8; ++i) {
    (i % 2 == 0 ? freed : state.held).push_back(allocator.allocate(20 * kMiB));
  }
  freed.clear();
  state.held.push_back(allocator.allocate(80 * kMiB));
  Device& device = allocator.device();
  const StreamId busy = *device.create_stream();
  const DeviceIndex index = device.properties().index;
  if (!state.machine.pause_stream(index, busy).ok()) std::abort();
  if (!device.call_host(busy, [] {}).ok()) std::abort();
  allocator.allocate(32 * kMiB, busy).reset();
  allocator.trim_to(0, {.wait = TrimWait::kNever});
  if (!state.machine.resume_stream(index, busy).ok()) std::abort();
}

void run_command(const std::string& command, ProgramState& state) {
  Allocator& allocator = state.allocator;
  std::vector<Buffer>& held = state.held;
  if (command == "pin") {
    if (!state.host) state.host.emplace(allocator.device());
    state.pinned.push_back(state.host->allocate(8 * kMiB));
  }
  if (command == "unpin" && !state.pinned.empty()) state.pinned.pop_back();
  if (command == "allocate") held.push_back(allocator.allocate(64 * kMiB));
  if (command == "free" && !held.empty()) held.pop_back();
  if (command == "trim") allocator.trim();
  if (command == "stitch") stitch(state);
  if (command.starts_with("save ")) save_snapshot(allocator.snapshot(), command.substr(5));
  if (command == "record") allocator.history().start();
  if (command == "oom") {
    try {
      held.push_back(allocator.allocate(size_t{1} << 40));
    } catch (const OutOfMemory&) {
      std::cout << "out of memory, as expected\n";
    }
  }
}

int run(const std::vector<std::string_view>& arguments) {
  bool has_port = false;
  bool is_silent = false;
  bool is_open_metrics = false;
  bool is_hostile = false;
  for (const std::string_view each : arguments) {
    is_hostile = is_hostile || each == "--hostile-metrics";
    is_open_metrics = is_open_metrics || each == "--openmetrics";
    has_port = has_port || each == "--port";
    is_silent = is_silent || each == "--silent";
  }
  if (is_hostile) {
    const auto format =
        is_open_metrics ? live::MetricsFormat::kOpenMetrics : live::MetricsFormat::kPrometheus;
    std::cout << live::format_metrics(live::hostile_process(), format);
    return 0;
  }
  sim::Options options;
  options.capacity_bytes = size_t{1} << 33;
  const auto machine = *sim::Machine::try_create(options);
  std::optional<LiveServer> live;
  if (!is_silent) live.emplace(has_port ? LiveOptions{.port = 0, .token = {}} : LiveOptions());
  Allocator first(machine->device(DeviceIndex(0)));
  Allocator second(machine->device(DeviceIndex(1)), parse_options("engine:classic"));
  const PoolId pool = first.pools().create();
  std::cout << (live ? live->url() : "") << std::endl;
  ProgramState state{.machine = *machine, .allocator = first};
  state.held.push_back(second.allocate(5 * kMiB));
  for (std::string command; std::getline(std::cin, command);) {
    run_command(command, state);
    std::cout << "done" << std::endl;
  }
  first.pools().release(pool);
  return 0;
}

}  // namespace
}  // namespace ashlar

int main(int count, char** values) {
  return ashlar::run(std::vector<std::string_view>(values + 1, values + count));
}
