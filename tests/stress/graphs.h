// SPDX-License-Identifier: Apache-2.0
//
// Graphs that one thread captures on its own streams and replays. As long as a graph may be
// replayed, memory that was freed during its capture may be reused only by the same capture and by
// later captures with the same pool. Graphs may be replayed in any order, but a replay may
// overwrite the results of graphs that were captured later.
#pragma once

#include <optional>
#include <vector>

#include "environment.h"

namespace ashlar::stress {

class Graphs {
 public:
  Graphs(Environment& environment, Random& random) : environment_(environment), random_(random) {}

  void step();
  void free_all();
  size_t live_count(size_t device) const;

 private:
  struct Graph {
    GraphId id;
    LiveBlocks results;  // allocated and not freed during the capture
    bool has_valid_results =
        false;  // has been replayed, and no earlier graph has been replayed since
  };
  // The pool and the two streams that only these graphs use. They are destroyed together with the
  // graphs.
  struct CaptureSite {
    size_t device = 0;
    PoolId pool;
    DeviceStream main;
    DeviceStream side;
  };
  bool create_site();
  void capture();
  void work_in_capture(Graph& graph);
  void fork(Graph& graph);
  void end_capture(Graph graph);
  void replay();
  void check_random_result();
  void check_results();
  void use_outside_captures();

  Environment& environment_;
  Random& random_;
  std::optional<CaptureSite> site_;
  std::vector<Graph> graphs_;  // in the order of their captures
  LiveBlocks outside_blocks_;  // allocated on the main stream, outside captures
};

}  // namespace ashlar::stress
