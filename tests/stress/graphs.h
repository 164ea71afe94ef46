// SPDX-License-Identifier: Apache-2.0
//
// Graphs that one thread captures on its own streams and replays. A graph's memory belongs to it
// for as long as it may be replayed: memory freed during the capture serves only this capture and
// later ones of the same pool. Graphs may be replayed in any order, but a replay overwrites the
// results of graphs captured later.
#pragma once

#include <optional>
#include <vector>

#include "environment.h"

namespace ashlar::stress {

class Graphs {
 public:
  Graphs(Environment& field, Random& random) : environment_(field), random_(random) {}

  void act();
  void free_all();
  size_t live_count(size_t device) const;

 private:
  struct Graph {
    GraphId id;
    LiveBlocks results;    // allocated and not freed during the capture
    bool has_run = false;  // was the last graph that could overwrite its results
  };
  // The pool and two streams that only these graphs use, until everything is dropped.
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
  void look();
  void check_results();
  void use_outside();

  Environment& environment_;
  Random& random_;
  std::optional<CaptureSite> site_;
  std::vector<Graph> graphs_;  // in order of capture
  LiveBlocks outside_;         // on the same stream, outside captures
};

}  // namespace ashlar::stress
