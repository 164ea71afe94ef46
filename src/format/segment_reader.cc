// SPDX-License-Identifier: Apache-2.0
//
// Converts dicts to segments and blocks. Requested sizes and block addresses, which old files lack,
// are computed from the values that exist.
#include "format/segment_reader.h"

#include <algorithm>
#include <tuple>

#include "base/text.h"

namespace ashlar {

bool SegmentReader::read_segments(Key key, Value list, std::vector<SnapshotSegment>& segments) {
  std::span<const Value> items;
  if (!fields_.list(key, list, items)) return false;
  segments.clear();  // if the key is duplicated, the last value applies
  for (size_t i = 0; i < items.size(); ++i) {
    SnapshotSegment segment;
    if (!read_segment(items[i], segment)) {
      return fields_.fail(text(key_text(key), "[", i, "]", fields_.problem()));
    }
    // Charges three times the size, because the replay and the viewer each copy the segment.
    if (!fields_.charge(3 * sizeof(segment))) return false;
    segments.push_back(std::move(segment));
  }
  return check_overlaps(key, segments);
}

bool SegmentReader::read_segment(Value dict, SnapshotSegment& segment) {
  std::span<const Value> items;
  if (!fields_.dict(Key::kSegments, dict, items)) return fields_.fail(": " + fields_.problem());
  PresentKeys present;
  stack_values_ = {};
  for (size_t i = 0; i < items.size(); i += 2) {
    if (items[i].kind != ValueKind::kString) continue;
    if (!read_segment_field(key_of(items[i]), items[i + 1], segment, present)) {
      return fields_.fail(": " + fields_.problem());
    }
  }
  if (!read_stack(segment.stack)) return fields_.fail(": " + fields_.problem());
  if (present.blocks.kind == ValueKind::kNone) {
    return fields_.fail(": \"blocks\" is missing (expected a list)");
  }
  if (!read_blocks(present.blocks, segment)) return false;
  if (!check_tiling(segment)) return fields_.fail(": " + fields_.problem());

  size_t allocated = 0;
  size_t active = 0;
  size_t requested = 0;
  for (const SnapshotBlock& block : segment.blocks) {
    if (block.state == SnapshotBlockState::kAllocated) allocated += block.bytes;
    if (block.state == SnapshotBlockState::kInactive) continue;
    active += block.bytes;
    requested += block.requested_bytes;
  }
  if (!present.allocated) segment.allocated_bytes = allocated;
  if (!present.active) segment.active_bytes = active;
  if (!present.requested) segment.requested_bytes = requested;
  return true;
}

bool SegmentReader::read_segment_field(Key key, Value value, SnapshotSegment& segment,
                                       PresentKeys& present) {
  uint64_t bits = 0;
  switch (key) {
    case Key::kDevice: return fields_.device(key, value, segment.device);
    case Key::kAddress:
      if (!fields_.bits(key, value, bits)) return false;
      segment.address = DeviceAddress(bits);
      return true;
    case Key::kTotalSize: return fields_.bytes(key, value, segment.total_bytes);
    case Key::kAllocatedSize:
      present.allocated = true;
      return fields_.bytes(key, value, segment.allocated_bytes);
    case Key::kActiveSize:
      present.active = true;
      return fields_.bytes(key, value, segment.active_bytes);
    case Key::kRequestedSize:
      present.requested = true;
      return fields_.bytes(key, value, segment.requested_bytes);
    case Key::kStream:
      if (!fields_.bits(key, value, bits)) return false;
      segment.stream = StreamId(bits);
      return true;
    case Key::kSegmentType:
      segment.is_large = value == Value::string(static_cast<uint32_t>(Key::kLarge));
      return segment.is_large || value == Value::string(static_cast<uint32_t>(Key::kSmall)) ||
             fields_.fail(key, value, "large or small");
    case Key::kIsExpandable: return fields_.boolean(key, value, segment.is_expandable);
    case Key::kIsPaused: return fields_.boolean(key, value, segment.is_paused);
    case Key::kSegmentPoolId: return fields_.pool(key, value, segment.pool);
    case Key::kFrames: stack_values_.frames = value; return true;
    case Key::kForwardFrames: stack_values_.forward = value; return true;
    case Key::kBlocks: present.blocks = value; return true;
    default: return true;
  }
}

bool SegmentReader::read_blocks(Value list, SnapshotSegment& segment) {
  std::span<const Value> items;
  if (!fields_.list(Key::kBlocks, list, items)) return fields_.fail(": " + fields_.problem());
  // A block may become an allocation in analyses.
  constexpr size_t kBlockBytes = sizeof(SnapshotBlock) + 192;
  if (!fields_.charge(items.size() * kBlockBytes)) return fields_.fail(": " + fields_.problem());
  segment.blocks.reserve(items.size());
  DeviceAddress next = segment.address;
  for (size_t i = 0; i < items.size(); ++i) {
    SnapshotBlock block;
    block.address = next;  // replaced if the file has an address
    if (!read_block(items[i], block)) {
      return fields_.fail(text(".blocks[", i, "]: ", fields_.problem()));
    }
    next = block.address + block.bytes;
    segment.blocks.push_back(block);
  }
  return true;
}

bool SegmentReader::read_block(Value dict, SnapshotBlock& block) {
  std::span<const Value> items;
  if (!fields_.dict(Key::kBlocks, dict, items)) return false;
  PresentKeys present;
  Value history{};
  stack_values_ = {};
  for (size_t i = 0; i < items.size(); i += 2) {
    if (items[i].kind != ValueKind::kString) continue;
    if (key_of(items[i]) == Key::kHistory) history = items[i + 1];
    if (!read_block_field(key_of(items[i]), items[i + 1], block, present)) return false;
  }
  if (history.kind != ValueKind::kNone && !read_history(history, block, present)) return false;
  // Old files have no requested size. The block size is assumed instead.
  if (!present.requested && block.state != SnapshotBlockState::kInactive) {
    block.requested_bytes = block.bytes;
  }
  return read_stack(block.stack);
}

bool SegmentReader::read_block_field(Key key, Value value, SnapshotBlock& block,
                                     PresentKeys& present) {
  uint64_t bits = 0;
  switch (key) {
    case Key::kAddress:
      if (!fields_.bits(key, value, bits)) return false;
      block.address = DeviceAddress(bits);
      return true;
    case Key::kSize: return fields_.bytes(key, value, block.bytes);
    case Key::kRequestedSize:
      present.requested = true;
      return fields_.bytes(key, value, block.requested_bytes);
    case Key::kState: return read_state(value, block);
    case Key::kFrames: stack_values_.frames = value; return true;
    case Key::kForwardFrames: stack_values_.forward = value; return true;
    default: return true;
  }
}

bool SegmentReader::read_state(Value value, SnapshotBlock& block) {
  if (!fields_.string(Key::kState, value)) return false;
  switch (key_of(value)) {
    case Key::kActiveAllocated: block.state = SnapshotBlockState::kAllocated; return true;
    case Key::kActivePendingFree:
    case Key::kActiveAwaitingFree:  // the spelling in PyTorch's documentation
      block.state = SnapshotBlockState::kPendingFree;
      return true;
    case Key::kInactive: block.state = SnapshotBlockState::kInactive; return true;
    default:
      return fields_.fail(Key::kState, value, "active_allocated, active_pending_free or inactive");
  }
}

// Until 2023, PyTorch wrote for each block a list of the allocations that had occupied it, newest
// first. Takes the requested size and the stack from the newest allocation, unless the block has
// its own.
bool SegmentReader::read_history(Value list, SnapshotBlock& block, PresentKeys& present) {
  std::span<const Value> all;
  std::span<const Value> newest;
  if (!fields_.list(Key::kHistory, list, all)) return false;
  if (all.empty()) return true;
  if (!fields_.dict(Key::kHistory, all.front(), newest)) return false;
  for (size_t i = 0; i < newest.size(); i += 2) {
    if (newest[i].kind != ValueKind::kString) continue;
    const Key key = key_of(newest[i]);
    if (key == Key::kRealSize && !present.requested) {
      if (!fields_.bytes(key, newest[i + 1], block.requested_bytes)) return false;
      present.requested = true;
    }
    if (key == Key::kFrames && stack_values_.frames.kind == ValueKind::kNone) {
      stack_values_.frames = newest[i + 1];
    }
  }
  return true;
}

// Like a missing key, an empty list "frames" means that no stack was captured: current files have
// the key for every segment and block.
bool SegmentReader::read_stack(StackId& stack) {
  const Value frames = stack_values_.frames;
  if (frames.kind == ValueKind::kList && !fields_.store().converted(frames) &&
      fields_.store().items(frames).empty()) {
    stack_values_.frames = {};
  }
  return stacks_.read(stack_values_, stack) && fields_.charge_text(stacks_.text_bytes(stack));
}

bool SegmentReader::check_tiling(const SnapshotSegment& segment) {
  if (AddressRange{segment.address, segment.total_bytes}.overflows()) {
    return fields_.fail("the segment overflows the address space (expected fewer bytes)");
  }
  DeviceAddress next = segment.address;
  for (const SnapshotBlock& block : segment.blocks) {
    if (block.address != next || block.bytes > segment.total_bytes - (next - segment.address)) {
      return fields_.fail(text("the block at ", block.address,
                               " does not tile its segment (expected ", next,
                               " and a size within the segment)"));
    }
    next = next + block.bytes;
  }
  if (next == segment.address + segment.total_bytes) return true;
  return fields_.fail(text("the blocks have ", next - segment.address,
                           " bytes in total (expected the segment's size, ", segment.total_bytes,
                           ")"));
}

// Checks for overlaps among the segments of one device. Each device has its own addresses, and so
// does host memory.
bool SegmentReader::check_overlaps(Key key, const std::vector<SnapshotSegment>& segments) {
  std::vector<const SnapshotSegment*> sorted;
  for (const SnapshotSegment& segment : segments) {
    if (segment.total_bytes > 0) sorted.push_back(&segment);
  }
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
    return std::tie(a->device, a->address) < std::tie(b->device, b->address);
  });
  const auto overlap =
      std::adjacent_find(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
        return a->device == b->device && b->address - a->address < a->total_bytes;
      });
  if (overlap == sorted.end()) return true;
  return fields_.fail(text(key_text(key), ": the segment of device ", (*overlap)->device, " at ",
                           (*overlap)->address, " has ", (*overlap)->total_bytes,
                           " bytes and overlaps the next one (expected no overlaps)"));
}

}  // namespace ashlar
