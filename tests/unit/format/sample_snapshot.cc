// SPDX-License-Identifier: Apache-2.0
//
// Sets every field at least once.
#include "unit/format/sample_snapshot.h"

namespace ashlar {
namespace {

TraceEntry entry(TraceAction action, uint64_t address, size_t bytes) {
  TraceEntry made;
  made.action = action;
  made.address = DeviceAddress(address);
  made.bytes = bytes;
  made.stream = StreamId(~uint64_t{0});
  made.time_us = 1'794'701'177'002'409 + static_cast<int64_t>(address);
  return made;
}

SnapshotSegment segment(uint64_t address) {
  SnapshotSegment made;
  made.address = DeviceAddress(address);
  made.total_bytes = 3 << 20;
  made.allocated_bytes = 1 << 20;
  made.active_bytes = 2 << 20;
  made.requested_bytes = (2 << 20) - 100;
  made.is_large = true;
  made.pool = {.capture = 1, .user = 70000};
  const auto block = [&made](SnapshotBlockState state, size_t requested, StackId stack) {
    made.blocks.push_back({.address = made.address + made.blocks.size() * (1 << 20),
                           .bytes = 1 << 20,
                           .requested_bytes = requested,
                           .state = state,
                           .stack = stack});
  };
  block(SnapshotBlockState::kAllocated, (1 << 20) - 100, StackId(1));
  block(SnapshotBlockState::kPendingFree, 1 << 20, StackId(2));
  block(SnapshotBlockState::kInactive, 0, StackId());
  return made;
}

// Adds an extent whose home is at the end of the expandable segment, and an idle extent.
void add_extents(Snapshot& made) {
  const DeviceAddress view(0xffffff8000000000);
  made.views.push_back({.device = DeviceIndex(1),
                        .address = view,
                        .reserved_bytes = 64 << 20,
                        .mapped_bytes = 9 << 20,
                        .stream = StreamId(~uint64_t{0}),
                        .pool = {.capture = 1, .user = 70000}});
  made.extents.push_back({.device = DeviceIndex(1),
                          .id = ExtentId(3),
                          .bytes = 2 << 20,
                          .is_large = true,
                          .stream = StreamId(7),
                          .pool = {.capture = 1, .user = 70000},
                          .attached_address = view + (1 << 20),
                          .traced_address = view + (4 << 20),
                          .mappings = {{view + (1 << 20), 1'794'701'177'002'409},
                                       {view + (4 << 20), 1'794'701'177'002'410}}});
  made.extents.push_back({.device = DeviceIndex(1),
                          .id = ExtentId(uint64_t{1} << 63),
                          .bytes = 1 << 20,
                          .stream = {},
                          .pool = {},
                          .mappings = {{view + (8 << 20), 0}}});
}

}  // namespace

Snapshot sample_snapshot() {
  Snapshot made;
  made.tables.frames.push_back(
      {.name = "inner", .filename = "a \"b\"\\\n\x01é.py", .line = 70000, .extra = {}});
  made.tables.frames.push_back({.name = "outer",
                                .filename = std::string(300, 'x'),
                                .line = 0,
                                .extra = {{"fx_node_op", "call_function"}}});
  made.tables.stacks.push_back({.frames = {1, 2}, .forward = {}});
  made.tables.stacks.push_back({.frames = {2}, .forward = {"File \"m.py\", line 3"}});
  made.tables.stacks.push_back({.frames = {}, .forward = {}});
  made.tables.strings = {"", "Torch-Compiled Region: 0/1", "step 7, \"warm-up\""};

  made.segments.push_back(segment(0x7f0000000000));
  made.segments.push_back(segment(0xffffff8000000000));
  made.segments[1].device = DeviceIndex(1);
  made.segments[1].is_large = false;
  made.segments[1].is_expandable = true;
  made.segments[1].is_paused = true;

  add_extents(made);

  made.device_traces.resize(2);
  std::vector<TraceEntry>& trace = made.device_traces[0];
  trace.push_back(entry(TraceAction::kSegmentAlloc, 0x7f0000000000, 3 << 20));
  trace.push_back(entry(TraceAction::kAlloc, 0x7f0000000000, (1 << 20) - 100));
  trace.back().compile_context = StringId(1);
  trace.back().user_metadata = StringId(2);
  trace.back().stack = StackId(1);
  trace.push_back(entry(TraceAction::kOom, 5 << 20, size_t{1} << 40));
  trace.back().stack = StackId(3);
  trace.push_back(entry(TraceAction::kFreeRequested, 0x7f0000000000, (1 << 20) - 100));
  trace.back().has_pool = trace.back().has_compile_context = false;
  trace.back().has_time = trace.back().has_user_metadata = false;
  trace.back().time_us = 0;
  made.device_traces[1].push_back(entry(TraceAction::kAnnotate, 0xffffff8000000000, 0));
  made.device_traces[1].back().device = DeviceIndex(1);
  made.device_traces[1].back().pool = {.capture = 0, .user = 3};

  made.annotations.push_back({.device = DeviceIndex(0),
                              .time_us = 1'794'701'177'002'409,
                              .fields = {{"name", "train"}, {"stage", "START"}}});
  made.annotations.push_back({.device = DeviceIndex(0),
                              .time_us = 1'794'701'177'002'509,
                              .fields = {{"name", "train"}, {"stage", "END"}}});
  made.settings = {{"flag", true},
                   {"max_split_size", int64_t{-1}},
                   {"threshold", 0.0},
                   {"share", 0.1},
                   {"PYTORCH_CUDA_ALLOC_CONF", std::string("a:b")},
                   {"roundup_power2_divisions",
                    std::vector<std::pair<std::string, int64_t>>{{"1", 0}, {"2", 8}}}};
  made.host_segments.push_back(segment(0x10000));
  made.host_traces.push_back({entry(TraceAction::kAlloc, 0x10000, 77)});
  return made;
}

}  // namespace ashlar
