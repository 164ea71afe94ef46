// SPDX-License-Identifier: Apache-2.0
//
// Blocks freed by their callers while other streams may still use them. Outside captures, one event
// per stream marks the end of the work (EventQueues). While a stream that uses the block is
// capturing, an event would become part of the graph, so the free is deferred until the capture
// ends or, if `reuse_within_captures` is set, until the graph proves that all uses precede the next
// work on the block's stream. Guarded by the engine's lock.
#pragma once

#include <functional>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/block.h"
#include "engine/event_queues.h"

namespace ashlar {

class PendingFrees {
 public:
  PendingFrees(Device& device, bool reuse_within_captures)
      : device_(device), reuse_within_captures_(reuse_within_captures) {}

  // Declares that another stream uses an allocated block. Allocates the memory that the free of the
  // block needs. Throws std::bad_alloc, without effect, if host memory is exhausted.
  void record_use(Block* block, const DeviceStream& use);
  // Adds a freed block. REQUIRES: block->uses is not empty. If the device fails or host memory is
  // exhausted, the free is deferred and retried by the next collection; only a device failure is
  // returned.
  Status add(Block* block) noexcept;
  // The next four functions append the blocks that have become free to `finished`, even if they
  // fail partway. kHostOutOfMemory: the other pending frees are unchanged.

  // Collects all finished frees: calls collect_deferred, then polls the events.
  Status collect(std::vector<Block*>& finished);
  // Collects before an allocation on `stream`. Calls `collect` unless the stream is capturing.
  // During its capture, polls no event and, if `reuse_within_captures` is set, collects the blocks
  // whose uses the graph proves finished.
  Status collect_for_stream(StreamId stream, std::vector<Block*>& finished);
  // Collects deferred frees whose blocks are no longer in use, and records events for those whose
  // captures have ended. Polls no event.
  Status collect_deferred(std::vector<Block*>& finished);
  // Waits for all pending frees, or at least for those that `wanted` accepts, except frees that a
  // capture still defers.
  Status wait(std::vector<Block*>& finished, const std::function<bool(const Block&)>& wanted = {});

  bool empty() const { return deferred_.empty() && pending_.empty(); }
  // Whether any free is deferred, by a capture or because an event could not be recorded.
  bool has_deferred() const { return !deferred_.empty(); }

  // Captures.
  void capture_began() { ++capture_count_; }
  Status capture_ended();
  int capture_count() const { return capture_count_; }
  bool is_capturing(const DeviceStream& use) const;
  // Whether the caller can wait for the stream without invalidating a capture on the engine's
  // device. A wait for a destroyed stream synchronizes the stream's whole device, so during
  // captures on the engine's device its destroyed streams are not waitable.
  bool is_waitable(const DeviceStream& use) const;
  // REQUIRES: is_waitable(use). kDeviceFault: the stream has been destroyed meanwhile; retry after
  // the capture.
  Status wait_for_stream(const DeviceStream& use) const;
  // Empties the cache of graph ancestors. Called when a routing ends, because usually its capture
  // has ended too.
  void clear_graph_cache() { ancestors_.clear(); }

 private:
  // A free with uses for which no event could be recorded yet. `markers` are the last nodes, at the
  // time of the free, of the captured streams that use the block; empty if unknown.
  struct DeferredFree {
    Block* block = nullptr;
    std::vector<NodeId> markers;
  };
  // Whether the block's stream, or another stream that uses the block, is capturing.
  bool involves_capture(const Block& block) const;
  void add_use(Block* block, const DeviceStream& use);
  void remove_newest_use(Block* block);
  // Calls `collect`, updates used_block_count_, and returns kHostOutOfMemory if `collect` throws
  // std::bad_alloc.
  template <typename Collect>
  Status count_finished(std::vector<Block*>& finished, const Collect& collect);
  Status collect_unfinished(std::vector<Block*>& finished);
  Status retry_deferred(std::vector<Block*>& finished);
  std::vector<NodeId> free_markers(const Block& block) const noexcept;
  const std::unordered_set<NodeId>& ancestors_of(StreamId stream, const CaptureState& state);
  void collect_within_capture(StreamId stream, std::vector<Block*>& finished);
  void drop_captured_uses(Block* block);
  Status wait_for_destroyed_streams(std::vector<Block*>& finished);

  Device& device_;
  const bool reuse_within_captures_;
  EventQueues pending_;
  std::vector<DeferredFree> deferred_;  // has capacity for used_block_count_ frees
  size_t used_block_count_ = 0;         // blocks with declared uses, until they are finished
  // Nodes known to precede the next node of a capturing stream, keyed by capture and stream.
  std::map<std::pair<CaptureId, StreamId>, std::unordered_set<NodeId>> ancestors_;
  // For each allocated or deferred block, the streams whose use was declared while they were
  // capturing. Such a use belongs to the graph and needs no event after the capture.
  std::unordered_map<Block*, std::vector<DeviceStream>> capture_uses_;
  int capture_count_ = 0;
};

}  // namespace ashlar
