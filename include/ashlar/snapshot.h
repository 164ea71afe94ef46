// SPDX-License-Identifier: Apache-2.0
//
// The state of an allocator at one moment and its recorded history, as plain values that were
// copied from an allocator or read from a file. Terms and fields are PyTorch's where PyTorch has
// them, so that snapshot files of Ashlar and PyTorch are interchangeable.
//
// Frames, stacks and strings are stored once, in tables, and referenced by index. Index 0 of each
// table means "none".
//
// Errors: `save_snapshot` throws.
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

// One frame of a call stack.
struct Frame {
  std::string name{};
  std::string filename{};
  int64_t line = 0;  // 0: unknown
  // Additional fields that PyTorch's graph compiler writes ("fx_node_op", …).
  std::vector<std::pair<std::string, std::string>> extra{};
  friend bool operator==(const Frame&, const Frame&) = default;
};

// A call stack. `frames` holds indexes into SnapshotTables::frames, innermost frame first.
struct Stack {
  std::vector<uint32_t> frames{};
  // For allocations of a backward pass: the stack of the forward pass, one line per frame.
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
  size_t requested_bytes = 0;  // for an inactive block: the size of the last request, or 0
  SnapshotBlockState state = SnapshotBlockState::kInactive;
  StackId stack;
  friend bool operator==(const SnapshotBlock&, const SnapshotBlock&) = default;
};

// A contiguous range of device memory. In address order, its blocks cover it without gaps:
//   sum(block.bytes) == total_bytes.
// Each contiguous mapped range of an expandable segment is listed as a segment.
struct SnapshotSegment {
  DeviceIndex device;
  DeviceAddress address;
  size_t total_bytes = 0;
  size_t allocated_bytes = 0;  // sum of the sizes of allocated blocks
  size_t active_bytes = 0;     // sum of the sizes of blocks that are allocated or pending free
  size_t requested_bytes = 0;  // sum of the requested sizes of active blocks
  StreamId stream;
  bool is_large = false;
  bool is_expandable = false;
  // Whether the segment belongs to a paused pool: its memory was returned to the device, but its
  // blocks keep their addresses.
  bool is_paused = false;
  PoolId pool;
  StackId stack;  // stack of the call that obtained the segment from the device
  std::vector<SnapshotBlock> blocks{};

  size_t reserved_bytes() const { return is_paused ? 0 : total_bytes; }
  friend bool operator==(const SnapshotSegment&, const SnapshotSegment&) = default;
};

// A mapping of a whole extent: [address, address + extent.bytes).
struct SnapshotMapping {
  DeviceAddress address;
  int64_t mapped_at_us = 0;  // microseconds since the Unix epoch, on the trace's clock
  friend bool operator==(const SnapshotMapping&, const SnapshotMapping&) = default;
};

// Physical memory from one Device::create call, for engines that map extents (`paged`). `mappings`
// is sorted by address. Each mapping lies inside one view; mappings never overlap. An extent may be
// mapped at several addresses but is in use at no more than one, `attached_address`, where it is
// part of an expandable segment. The other mappings are kept for reuse. An extent without an
// attached address is idle and part of no segment.
struct SnapshotExtent {
  DeviceIndex device;
  ExtentId id;  // unique among the extents of the device
  size_t bytes = 0;
  bool is_large = false;
  StreamId stream;  // stream of the extent's last use
  PoolId pool;
  std::optional<DeviceAddress> attached_address{};  // address of one of `mappings`
  // The extent's address according to the trace; empty if the trace has no entry for the extent.
  // While the extent is free, the address may differ from `attached_address`, because the trace
  // records a move only when the extent is used again.
  std::optional<DeviceAddress> traced_address{};
  std::vector<SnapshotMapping> mappings{};
  friend bool operator==(const SnapshotExtent&, const SnapshotExtent&) = default;
};

// A reserved address range that extents are mapped into. Views do not overlap. The first
// `mapped_bytes` of a view have been mapped at some time; parts of them may have been unmapped
// since.
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

// A marker set by the program: {"name": …, "stage": "START" or "END"}, or other fields.
struct Annotation {
  DeviceIndex device;
  int64_t time_us = 0;
  std::vector<std::pair<std::string, std::string>> fields{};
  friend bool operator==(const Annotation&, const Annotation&) = default;
};

// The value of a setting. PyTorch's settings are flags, numbers, strings, and one table of numbers.
using SettingValue =
    std::variant<bool, int64_t, double, std::string, std::vector<std::pair<std::string, int64_t>>>;

struct Snapshot {
  std::vector<SnapshotSegment> segments{};  // sorted by device, then by address
  // The views and extents behind expandable segments, for engines that map extents.
  std::vector<SnapshotView> views{};                     // sorted by device, then by address
  std::vector<SnapshotExtent> extents{};                 // sorted by device, then by id
  std::vector<std::vector<TraceEntry>> device_traces{};  // indexed by device; oldest entry first
  std::vector<Annotation> annotations{};
  std::vector<std::pair<std::string, SettingValue>> settings{};
  // Pinned host memory, if it was recorded.
  std::vector<SnapshotSegment> host_segments{};
  std::vector<std::vector<TraceEntry>> host_traces{};
  SnapshotTables tables{};
  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

struct SnapshotOptions {
  std::optional<PoolId> pool{};  // include only segments, views and extents of this pool
  bool include_traces = true;    // include the recorded history
  // Include only entries and annotations from this time on (TraceEntry::time_us).
  int64_t since_us = 0;
};

// Writes the format of `torch.cuda.memory._dump_snapshot`, so that every tool for PyTorch's
// snapshots can open the file. Views and extents are stored under an additional key. Throws
// DeviceError if the file cannot be written.
ASHLAR_EXPORT void save_snapshot(const Snapshot& snapshot, const std::string& path);

}  // namespace ashlar
