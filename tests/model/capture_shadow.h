// SPDX-License-Identifier: Apache-2.0
//
// The test's own record of a capture: the participating streams, and which nodes precede the next
// work of each.
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
  bool is_active() const { return !parts_.empty(); }
  bool includes(StreamId stream) const { return parts_.contains(stream); }
  const std::vector<StreamId>& streams() const { return order_; }
  StreamId origin() const { return order_.front(); }

  void begin(StreamId origin) { add(origin); }
  // The stream works: adds one node after all preceding ones.
  void work(StreamId stream) {
    parts_[stream].preceding.insert(++last_node_);
    parts_[stream].tail = {last_node_};
  }
  // Orders the work of `first` before the next work of `then`, which joins the capture.
  void order(StreamId first, StreamId then) {
    add(then);
    const Part& from = parts_[first];
    Part& to = parts_[then];
    to.preceding.insert(from.preceding.begin(), from.preceding.end());
    to.tail.insert(from.tail.begin(), from.tail.end());
  }
  void end() {
    parts_.clear();
    order_.clear();
  }

  // The last nodes of these streams; none if a stream does not participate.
  std::set<uint64_t> markers(const std::set<StreamId>& streams) const {
    std::set<uint64_t> found;
    for (StreamId stream : streams) {
      const auto part = parts_.find(stream);
      if (part == parts_.end()) return {};
      found.insert(part->second.tail.begin(), part->second.tail.end());
    }
    return found;
  }
  bool are_behind(StreamId stream, const std::set<uint64_t>& nodes) const {
    const std::set<uint64_t>& preceding = parts_.at(stream).preceding;
    return std::includes(preceding.begin(), preceding.end(), nodes.begin(), nodes.end());
  }

 private:
  struct Part {
    std::set<uint64_t> preceding;  // all nodes before the stream's next one
    std::set<uint64_t> tail;       // the last of them
  };
  void add(StreamId stream) {
    if (parts_.try_emplace(stream).second) order_.push_back(stream);
  }

  std::map<StreamId, Part> parts_;
  std::vector<StreamId> order_;
  uint64_t last_node_ = 0;
};

}  // namespace ashlar::model
