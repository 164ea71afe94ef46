// SPDX-License-Identifier: Apache-2.0
//
// What an allocator held at one moment, and how it came to that: values with no policy, copied out
// of an allocator or read from a file. The words are PyTorch's where it has them, so that its
// snapshot files and ours say the same things.
//
// Stacks, frames and strings that many entries share are kept once, in tables, and named by their
// position there. Position 0 of each table stands for "none".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ashlar/export.h"
#include "ashlar/trace.h"
#include "ashlar/types.h"

namespace ashlar {

// One function on the way to an allocation.
struct Frame {
  std::string name{};
  std::string filename{};
  int64_t line = 0;
  // What a compiler of graphs adds to a frame, under PyTorch's keys ("fx_node_op", …).
  std::vector<std::pair<std::string, std::string>> extra{};
  friend bool operator==(const Frame&, const Frame&) = default;
};

// A captured stack: positions in SnapshotTables::frames, innermost first.
struct Stack {
  std::vector<uint32_t> frames{};
  // For work of a backward pass, the forward pass's stack, as lines of text.
  std::vector<std::string> forward{};
  friend bool operator==(const Stack&, const Stack&) = default;
};

struct SnapshotTables {
  std::vector<Frame> frames = {{}};
  std::vector<Stack> stacks = {{}};
  std::vector<std::string> strings = {{}};
  friend bool operator==(const SnapshotTables&, const SnapshotTables&) = default;
};

enum class SnapshotBlockState { kAllocated, kPendingFree, kInactive };

struct SnapshotBlock {
  DeviceAddress address;
  size_t bytes = 0;
  size_t requested_bytes = 0;  // of an inactive block: what was last asked for, or 0
  SnapshotBlockState state = SnapshotBlockState::kInactive;
  StackId stack;
  friend bool operator==(const SnapshotBlock&, const SnapshotBlock&) = default;
};

// Blocks in address order; they tile it:  sum(block.bytes) == total_bytes. Of an expandable
// segment, each contiguous mapped run is a segment of its own.
struct SnapshotSegment {
  DeviceIndex device;
  DeviceAddress address;
  size_t total_bytes = 0;
  size_t allocated_bytes = 0;  // of allocated blocks
  size_t active_bytes = 0;     // of allocated and pending ones
  size_t requested_bytes = 0;  // what was asked for, of the active ones
  StreamId stream;
  bool is_large = false;
  bool is_expandable = false;
  // Of a pool that is paused: its blocks keep their addresses, and the device has the memory.
  bool is_paused = false;
  PoolId pool;
  StackId stack;  // of the call that got it from the device
  std::vector<SnapshotBlock> blocks{};

  size_t reserved_bytes() const { return is_paused ? 0 : total_bytes; }
  friend bool operator==(const SnapshotSegment&, const SnapshotSegment&) = default;
};

// Where an extent is mapped: as many addresses as it has bytes.
struct SnapshotMapping {
  DeviceAddress address;
  int64_t made_us = 0;  // since 1970, by the clock of the trace
  friend bool operator==(const SnapshotMapping&, const SnapshotMapping&) = default;
};

// Physical memory from one create call of the device, of engines that map it (`paged`). Mappings by
// address; each lies in a view, and no two of any extents overlap. Where it is at home its memory
// is handed out, and that stretch is part of an expandable segment; its other mappings wait to be
// used again. Without a home it is idle: it has no part in any segment.
struct SnapshotExtent {
  DeviceIndex device;
  ExtentId id;  // the device's name for it; no other extent of the device has it
  size_t bytes = 0;
  bool is_large = false;
  StreamId stream;  // which used it last
  PoolId pool;
  std::optional<DeviceAddress> home{};  // one of its mappings
  // Where the entries of a trace have left it; none: they never told. Memory that is free may have
  // gone elsewhere since, which is told when it is used again.
  std::optional<DeviceAddress> traced{};
  std::vector<SnapshotMapping> mappings{};
  friend bool operator==(const SnapshotExtent&, const SnapshotExtent&) = default;
};

// Addresses that extents are mapped at. No two views overlap; from the beginning on, `mapped_bytes`
// of a view have been mapped: what no extent has there any more was given back.
struct SnapshotView {
  DeviceIndex device;
  DeviceAddress address;
  size_t reserved_bytes = 0;
  size_t mapped_bytes = 0;  // <= reserved_bytes
  bool is_large = false;
  StreamId stream;
  PoolId pool;
  friend bool operator==(const SnapshotView&, const SnapshotView&) = default;
};

// A moment that the program marked: {"name": …, "stage": "START" or "END"}, or other fields.
struct Annotation {
  DeviceIndex device;
  int64_t time_us = 0;
  std::vector<std::pair<std::string, std::string>> fields{};
  friend bool operator==(const Annotation&, const Annotation&) = default;
};

// A setting's value: PyTorch writes flags, numbers, text, and one table of numbers.
using SettingValue =
    std::variant<bool, int64_t, double, std::string, std::vector<std::pair<std::string, int64_t>>>;

struct Snapshot {
  std::vector<SnapshotSegment> segments{};  // by device, then by address
  // Of engines that have them: what the expandable segments are made of.
  std::vector<SnapshotView> views{};                     // by device, then by address
  std::vector<SnapshotExtent> extents{};                 // by device, then by id
  std::vector<std::vector<TraceEntry>> device_traces{};  // by device; oldest entry first
  std::vector<Annotation> annotations{};
  std::vector<std::pair<std::string, SettingValue>> settings{};
  // The same for pinned host memory, where it was recorded.
  std::vector<SnapshotSegment> host_segments{};
  std::vector<std::vector<TraceEntry>> host_traces{};
  SnapshotTables tables{};
  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

// Writes it as PyTorch does (`torch.cuda.memory._dump_snapshot`): what opens PyTorch's snapshots
// opens this; views and extents stand under a key of our own. Throws DeviceError, with the system's
// reason, if the file cannot be written.
ASHLAR_EXPORT void save_snapshot(const Snapshot& snapshot, const std::string& path);

}  // namespace ashlar
