// SPDX-License-Identifier: Apache-2.0
//
// What one thread captures on streams of its own, and replays. The memory that a graph works on is
// the graph's for as long as it may be replayed, freed or not: whatever is freed during the capture
// serves this capture and later ones of the same pool, and nobody else. As with any such pool,
// graphs may be replayed at will, but a replay spoils what graphs captured later have left behind.
#pragma once

#include <optional>
#include <vector>

#include "field.h"

namespace ashlar::stress {

class Graphs {
 public:
  Graphs(Field& field, Random& random) : field_(field), random_(random) {}

  void act();
  void free_all();
  size_t live_count(size_t device) const;

 private:
  struct Graph {
    GraphId id;
    HeldBlocks results;    // allocated during the capture, and not freed there
    bool has_run = false;  // last of all that could have spoiled its results
  };
  // Where it all happens, until everything is dropped: one pool, and two streams that nobody else
  // gives work to.
  struct Place {
    size_t device = 0;
    PoolId pool;
    StreamUse main;
    StreamUse side;
  };
  bool make_place();
  void capture();
  void work_in_capture(Graph& graph);
  void fork(Graph& graph);
  void end_capture(Graph graph);
  void replay();
  void look();
  void check_results();
  void use_outside();

  Field& field_;
  Random& random_;
  std::optional<Place> place_;
  std::vector<Graph> graphs_;  // in the order in which they were captured
  HeldBlocks outside_;         // of the same stream, but of no capture
};

}  // namespace ashlar::stress
