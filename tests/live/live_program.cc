// SPDX-License-Identifier: Apache-2.0
//
// A monitored program for tests. Reads one command per line from standard input, prints "done"
// after each, and ends with its input.
//
//   live_program [--port] [--silent]      --port: also listens on a port, and prints the address
//                                         --silent: monitored only if the environment says so
//   live_program --hostile-metrics        prints OpenMetrics with special characters in all names
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

// The program's state.
struct Work {
  sim::Machine& machine;
  Allocator& allocator;
  std::vector<Buffer> held{};
  std::optional<HostAllocator> host{};
  std::vector<HostBuffer> pinned{};  // destroyed first
};

// A view with blocks and holes, a block stitched from the holes, and then idle memory of a stream
// that is still busy.
void stitch(Work& work) {
  Allocator& allocator = work.allocator;
  std::vector<Buffer> freed;
  allocator.allocate(160 * kMiB).reset();
  for (int i = 0; i < 8; ++i) {
    (i % 2 == 0 ? freed : work.held).push_back(allocator.allocate(20 * kMiB));
  }
  freed.clear();
  work.held.push_back(allocator.allocate(80 * kMiB));
  Device& device = allocator.device();
  const StreamId busy = *device.create_stream();
  const DeviceIndex index = device.properties().index;
  if (!work.machine.pause_stream(index, busy).ok()) std::abort();
  if (!device.call_host(busy, [] {}).ok()) std::abort();
  allocator.allocate(32 * kMiB, busy).reset();
  allocator.trim_to(0, {.wait = TrimWait::kNever});
  if (!work.machine.resume_stream(index, busy).ok()) std::abort();
}

void execute(const std::string& word, Work& work) {
  Allocator& allocator = work.allocator;
  std::vector<Buffer>& held = work.held;
  if (word == "pin") {
    if (!work.host) work.host.emplace(allocator.device());
    work.pinned.push_back(work.host->allocate(8 * kMiB));
  }
  if (word == "unpin" && !work.pinned.empty()) work.pinned.pop_back();
  if (word == "allocate") held.push_back(allocator.allocate(64 * kMiB));
  if (word == "free" && !held.empty()) held.pop_back();
  if (word == "trim") allocator.trim();
  if (word == "stitch") stitch(work);
  if (word.starts_with("save ")) save_snapshot(allocator.snapshot(), word.substr(5));
  if (word == "record") allocator.history().start();
  if (word == "oom") {
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
  for (const std::string_view each : arguments) {
    if (each == "--hostile-metrics") {
      std::cout << live::openmetrics(live::hostile_process());
      return 0;
    }
    has_port = has_port || each == "--port";
    is_silent = is_silent || each == "--silent";
  }
  sim::Options options;
  options.capacity_bytes = size_t{1} << 33;
  const auto machine = *sim::Machine::try_create(options);
  std::optional<LiveServer> live;
  if (!is_silent) live.emplace(has_port ? LiveOptions{.port = 0, .token = {}} : LiveOptions());
  Allocator first(machine->device(DeviceIndex(0)));
  Allocator second(machine->device(DeviceIndex(1)), parse_options("engine:classic"));
  const PoolId pool = first.pools().create();
  std::cout << (live ? live->address() : "") << std::endl;
  Work work{.machine = *machine, .allocator = first};
  work.held.push_back(second.allocate(5 * kMiB));
  for (std::string word; std::getline(std::cin, word);) {
    execute(word, work);
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
