// What the public types of symmetric memory are made of. Each part keeps alive what it needs.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ashlar/symmetric.h"
#include "symm/arena.h"
#include "symm/circle.h"
#include "symm/collectives/order_guard.h"
#include "symm/collectives/team.h"
#include "symm/collectives/thresholds.h"
#include "symm/pad.h"
#include "symm/process.h"
#include "symm/remote_pads.h"
#include "symm/segment_pool.h"
#include "symm/turn.h"

namespace ashlar::symm {

// kUsage: negative. 0 is for ever.
Result<Deadline> deadline_of(Timeout timeout);

// Whom a buffer goes back to.
struct Buffer::Origin {
  Origin() = default;
  virtual ~Origin() = default;
  Origin(const Origin&) = delete;
  Origin& operator=(const Origin&) = delete;
  // REQUIRES: the beginning of a buffer that came from here.
  virtual void take_back(std::byte* data) noexcept = 0;
};

struct Heap::Parts final : Buffer::Origin {
  void take_back(std::byte* data) noexcept override;

  std::shared_ptr<Process> process;  // also owned by this process's other heaps
  std::unique_ptr<Arena> arena;

  Mutex mutex;
  std::set<std::string> pool_names ASHLAR_GUARDED_BY(mutex);
};

struct Pool::Parts final : Buffer::Origin {
  Parts(std::shared_ptr<Heap::Parts> of_heap, const PoolOptions& options);
  ~Parts() override;
  void take_back(std::byte* data) noexcept override;

  const std::shared_ptr<Heap::Parts> heap;
  const std::string name;
  SegmentPool pool;
};

// The group's pad has one channel more than users see: collectives meet there.
struct Group::Parts {
  Parts(std::shared_ptr<Heap::Parts> of_heap, std::shared_ptr<Store> of_store,
        GroupOptions with_options)
      : heap(std::move(of_heap)),
        store(std::move(of_store)),
        options(std::move(with_options)),
        channel_turns(static_cast<size_t>(options.channel_count)) {}

  Team team() { return {.pads = *pads, .order = order, .channel = options.channel_count}; }
  // Ok: it can be worked with. Otherwise it was left, or has failed.
  Status state() const;
  Status check_channel(int channel) const;
  Status barrier(int channel, Timeout timeout);
  // REQUIRES: just joined; collective.
  Status measure(Deadline deadline);

  const std::shared_ptr<Heap::Parts> heap;
  const std::shared_ptr<Store> store;
  const GroupOptions options;
  // Constant once joined.
  std::unique_ptr<Circle> circle;
  std::unique_ptr<RemotePads> remote_pads;  // null: all ranks are on this machine
  std::unique_ptr<Pads> pads;
  Thresholds thresholds;

  OrderGuard order;
  std::vector<Turn> channel_turns;  // one thread at a time is in a barrier of a channel
  // Relaxed: it guards no memory, which stays mapped; a call that overlaps `leave` may see either.
  std::atomic<bool> is_left{false};
};

struct Handle::Parts {
  std::shared_ptr<Group::Parts> group;
  PeerHandle peers;
  std::vector<std::byte*> buffers;
  std::vector<std::byte*> pads;
};

}  // namespace ashlar::symm
