// SPDX-License-Identifier: Apache-2.0
//
// The test's own record of a capture: the participating streams, and for each stream the graph
// nodes that precede its next work.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "ashlar/types.h"

namespace ashlar::model {

class CaptureShadow {
 public:
  bool is_active() const { return !stream_nodes_.empty(); }
  bool includes(StreamId stream) const { return stream_nodes_.contains(stream); }
  const std::vector<StreamId>& streams() const { return join_order_; }
  StreamId origin() const { return join_order_.front(); }

  void begin(StreamId origin) { add(origin); }
  // Adds one node for work on the stream. All nodes that preceded the stream's next work precede
  // the new node, which becomes the stream's only tail.
  void work(StreamId stream) {
    stream_nodes_[stream].preceding.insert(++last_node_);
    stream_nodes_[stream].tail = {last_node_};
  }
  // Makes the next work on `after` depend on all work on `before`. Adds `after` to the capture.
  void order(StreamId before, StreamId after) {
    add(after);
    const StreamNodes& before_nodes = stream_nodes_[before];
    StreamNodes& after_nodes = stream_nodes_[after];
    after_nodes.preceding.insert(before_nodes.preceding.begin(), before_nodes.preceding.end());
    after_nodes.tail.insert(before_nodes.tail.begin(), before_nodes.tail.end());
  }
  void end() {
    stream_nodes_.clear();
    join_order_.clear();
  }

  // Returns the last nodes of the streams, or no nodes if any of the streams does not participate.
  std::set<uint64_t> markers(const std::set<StreamId>& streams) const {
    std::set<uint64_t> found;
    for (StreamId stream : streams) {
      const auto nodes_of = stream_nodes_.find(stream);
      if (nodes_of == stream_nodes_.end()) return {};
      found.insert(nodes_of->second.tail.begin(), nodes_of->second.tail.end());
    }
    return found;
  }
  // Returns whether all nodes precede the stream's next work.
  bool all_precede(StreamId stream, const std::set<uint64_t>& nodes) const {
    const std::set<uint64_t>& preceding = stream_nodes_.at(stream).preceding;
    return std::includes(preceding.begin(), preceding.end(), nodes.begin(), nodes.end());
  }

 private:
  struct StreamNodes {
    std::set<uint64_t> preceding;  // all nodes before the stream's next work
    std::set<uint64_t> tail;       // the nodes on which that work will depend directly
  };
  void add(StreamId stream) {
    if (stream_nodes_.try_emplace(stream).second) join_order_.push_back(stream);
  }

  std::map<StreamId, StreamNodes> stream_nodes_;
  std::vector<StreamId> join_order_;
  uint64_t last_node_ = 0;
};

}  // namespace ashlar::model
