// SPDX-License-Identifier: Apache-2.0
//
// Blocks that their callers freed while work elsewhere may still be using them. Outside of captures
// an event on each such stream tells when it is over (PendingFrees). While a stream that uses a
// block is capturing, an event would become part of the graph, so the block is set aside until the
// capture is over; or, where asked for, until the graph proves that whatever used the block comes
// before what its stream does next. Guarded by the engine's lock.
#pragma once

#include <functional>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/block.h"
#include "engine/pending_frees.h"

namespace ashlar {

class WaitingFrees {
 public:
  WaitingFrees(Device& device, bool reuse_within_captures)
      : device_(device), reuse_within_captures_(reuse_within_captures) {}

  // A stream uses an allocated block, too.
  void record_use(Block* block, const StreamUse& use);
  // The block was freed. REQUIRES: a stream uses it. A failure of the device leaves it set aside,
  // to be tried again with the next collection.
  Status add(Block* block);
  // All append what has become free to `finished`, in the order in which it did, also when they
  // fail half-way.
  Status collect(std::vector<Block*>& finished);
  // The same for an allocation on the stream. While that captures, its events are left alone, and
  // there is only what its graph shows to be over.
  Status collect_for(StreamId stream, std::vector<Block*>& finished);
  // What was set aside and nothing uses any more; the rest of it gets its events. None is looked
  // at.
  Status collect_set_aside(std::vector<Block*>& finished);
  // Waits for all, or for the wanted blocks only; not for what a capture still holds.
  Status wait(std::vector<Block*>& finished, const std::function<bool(const Block&)>& wanted = {});

  bool empty() const { return set_aside_.empty() && pending_.empty(); }
  // Blocks that wait for more than events: for a capture, or for their events to be recorded.
  bool has_set_aside() const { return !set_aside_.empty(); }

  // --- captures -------------------------------------------------------------------------------
  void capture_began() { ++capture_count_; }
  Status capture_ended();
  int capture_count() const { return capture_count_; }
  bool is_capturing(const StreamUse& use) const;
  // Whether waiting for the stream would disturb no capture. A stream that is gone can be waited
  // for only with all of its device.
  bool is_waitable(const StreamUse& use) const;
  // REQUIRES: waitable. kDeviceFault: the stream was destroyed since, and may be waited for later.
  Status wait_for_stream(const StreamUse& use) const;
  // The graphs that were walked may be over: they are walked again.
  void forget_graphs() { behind_.clear(); }

 private:
  // A freed block that waits for a capture, and the nodes that use it (empty: unknown).
  struct SetAside {
    Block* block = nullptr;
    std::vector<NodeId> markers;
  };
  // Its own stream, or one that uses it, is capturing.
  bool involves_capture(const Block& block) const;
  std::vector<NodeId> free_markers(const Block& block) const;
  const std::unordered_set<NodeId>& nodes_behind(StreamId stream, const CaptureState& state);
  void collect_within_capture(StreamId stream, std::vector<Block*>& finished);
  void drop_captured_uses(Block* block);
  Status wait_for_gone_streams(std::vector<Block*>& finished);

  Device& device_;
  const bool reuse_within_captures_;
  PendingFrees pending_;
  std::vector<SetAside> set_aside_;
  // Nodes known to come before what a stream does next in a capture.
  std::map<std::pair<CaptureId, StreamId>, std::unordered_set<NodeId>> behind_;
  // Uses declared while capturing: they are the graph's, and need no event afterwards. Only of
  // blocks that are allocated or set aside.
  std::unordered_map<Block*, std::vector<StreamUse>> capture_uses_;
  int capture_count_ = 0;
};

}  // namespace ashlar
