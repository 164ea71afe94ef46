// SPDX-License-Identifier: Apache-2.0
//
// What the steps of a miss hand to each other: the request, the plan for it, and what it has taken;
// and what a trim and a retirement find out before they decide.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "engine/engine.h"
#include "engine/paged/view.h"

namespace ashlar::paged {

struct PagedPool;

// One request on its way: what it asks for, and what has been found out about it.
struct Search {
  AllocationRequest request;
  size_t bytes = 0;
  bool is_small = false;
  PagedPool* pool = nullptr;
  Arena* arena = nullptr;
  size_t device_bytes = 0;  // what was last asked of the device, or would have been
  bool is_ample = false;    // more than necessary was planned for, to save time
  bool must_save = false;   // and that did not fit: now whatever it costs
  bool rejected = false;    // refused by our own limit, without asking the device
  bool lacks_room = false;  // the device had no mappings or no addresses left
};

// Where a miss could be served: a stretch of a view's addresses, all of whose memory is free or
// idle elsewhere; and for one that ends too early, what to map behind it.
struct Plan {
  View* view = nullptr;        // null: a new one
  PagedBlock* from = nullptr;  // the block that contains `offset`; null: nothing is there yet
  size_t offset = 0;
  std::vector<Extent*> pieces{};  // idle ones to be mapped at the view's end
  size_t fresh_bytes = 0;         // and what is missing then
  bool exists = false;
};

// A stretch of a view that could be used: its memory is free there, or idle and could come back.
struct Run {
  PagedBlock* first = nullptr;  // null: none
  size_t begin = 0;
  size_t end = 0;
  size_t borrowed_bytes = 0;  // of it: what other streams used last
};

// The best place for a request that was found so far, and what it costs: bytes that become useless,
// or as good as that.
struct BestPlace {
  size_t wanted_bytes = 0;
  Plan plan{};
  int64_t cost = INT64_MAX;
  bool is_perfect = false;  // of the very size, and nothing becomes useless

  // In a run with so many idle bytes and at most so many free ones beside them.
  bool could_be_better(size_t idle_bytes, size_t beside_bytes) const;
  void consider(View& view, const Run& run);
};

// The end of a view, as far as it could be used.
struct Tail {
  View* view = nullptr;
  PagedBlock* first = nullptr;  // null: nothing of it
  size_t begin = 0;

  size_t bytes() const { return view->mapped_bytes - begin; }
};

// What a plan has taken: a block that is nobody else's, around the place of the one to come.
struct Claim {
  View* view = nullptr;
  PagedBlock* block = nullptr;  // null: nothing of the view yet
  size_t offset = 0;            // of the block to come
  std::vector<Extent*> pieces{};
  std::set<Arena*> lenders{};  // whose streams used the memory before
};

// How far the streams of a pool have got, as a trim sees it.
struct Progress {
  std::set<const Arena*> lenders{};           // whose memory may leave at all
  std::set<const Arena*> idle{};              // their streams have nothing to do
  std::map<const Arena*, uint64_t> passed{};  // theirs have passed the marker of this round

  bool has_passed(const Extent& extent) const {
    const auto found = passed.find(extent.arena);
    return found != passed.end() && found->second == extent.marked_round;
  }
};

// How many mappings, and how many addresses.
struct Crowd {
  size_t mappings = 0;
  size_t address_bytes = 0;
};

}  // namespace ashlar::paged
