// SPDX-License-Identifier: Apache-2.0
//
// Collectives by those of ashlar::symm, or by puts and a barrier.
#include "shmem/collectives.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "shmem/strides.h"

namespace ashlar::shmem {
namespace {

Meeting& meet(Team& team) { return World::get().teams().meet(team); }

int64_t offset_of(const void* address, int64_t bytes) {
  return static_cast<int64_t>(World::get().offset_of(address, static_cast<size_t>(bytes)));
}

// Null: in place, which is where the facade leaves it then.
void* out_of(const Moving& moving) { return moving.dest == moving.source ? nullptr : moving.dest; }

int64_t times(int64_t bytes, size_t count) {
  int64_t product = 0;
  if (__builtin_mul_overflow(bytes, count, &product)) {
    refuse(count, " times ", bytes, " bytes are more than there is memory");
  }
  return product;
}

}  // namespace

int64_t Moving::total() const {
  if (bytes > static_cast<size_t>(std::numeric_limits<int64_t>::max())) refuse(bytes, " bytes");
  return times(static_cast<int64_t>(bytes), count);
}

void sync(Team& team) { meet(team).group().barrier(); }

void broadcast(Team& team, const Moving& moving, int root, RootGets root_gets) {
  const int64_t bytes = moving.total();
  offset_of(moving.dest, bytes);
  const bool is_left_alone = root_gets == RootGets::kNot && team.rank() == root;
  meet(team).memory().broadcast(bytes, root,
                                {.offset_bytes = offset_of(moving.source, bytes),
                                 .out = is_left_alone ? nullptr : out_of(moving)});
}

void fcollect(Team& team, const Moving& moving) {
  const int64_t bytes = moving.total();
  offset_of(moving.source, bytes);
  const int64_t all = times(bytes, static_cast<size_t>(team.size()));
  meet(team).memory().all_gather(moving.source, bytes,
                                 {.offset_bytes = offset_of(moving.dest, all)});
}

void collect(Team& team, const Moving& moving) {
  World& world = World::get();
  const auto bytes = static_cast<size_t>(moving.total());
  world.offset_of(moving.source, bytes);
  Meeting& meeting = meet(team);
  const std::vector<uint64_t> shares = meeting.gather("shmem_collect", bytes);
  const auto own = shares.begin() + team.rank();
  const size_t begin = std::accumulate(shares.begin(), own, size_t{0});
  std::byte* to = static_cast<std::byte*>(moving.dest) + begin;
  for (int step = 0; step < team.size(); ++step) {
    const int pe = team.world_pe((team.rank() + step) % team.size());
    world.put(world.place(SHMEM_CTX_DEFAULT, to, bytes, pe), moving.source, bytes);
  }
  world.quiet();
  meeting.group().barrier();
}

void alltoall(Team& team, const Moving& moving) {
  const int64_t bytes = moving.total();
  const int64_t all = times(bytes, static_cast<size_t>(team.size()));
  offset_of(moving.dest, all);
  meet(team).memory().all_to_all(
      bytes, {.offset_bytes = offset_of(moving.source, all), .out = moving.dest});
}

void alltoalls(Team& team, const Moving& moving, const Strides& strides) {
  World& world = World::get();
  const auto size = static_cast<size_t>(team.size());
  const auto elements = static_cast<size_t>(times(moving.total(), size)) / moving.bytes;
  if (elements > 0) {
    world.offset_of(moving.dest, strided_bytes(strides.dest, elements, moving.bytes));
    world.offset_of(moving.source, strided_bytes(strides.source, elements, moving.bytes));
  }
  Meeting& meeting = meet(team);
  meeting.agree(
      {"shmem_alltoalls",
       {moving.count, static_cast<uint64_t>(strides.dest), static_cast<uint64_t>(strides.source)},
       3});
  // What is for one PE begins so many bytes behind what is for the one before.
  const auto share = [&](ptrdiff_t stride) { return moving.total() * stride; };
  for (int step = 0; step < team.size() && elements > 0; ++step) {
    const int peer = (team.rank() + step) % team.size();
    std::byte* to = static_cast<std::byte*>(moving.dest) + team.rank() * share(strides.dest);
    const std::byte* from =
        static_cast<const std::byte*>(moving.source) + peer * share(strides.source);
    strided_put({world, SHMEM_CTX_DEFAULT, team.world_pe(peer)}, {to, strides.dest},
                {from, strides.source}, moving.count, moving.bytes);
  }
  world.quiet();
  meeting.group().barrier();
}

void check_apart(const Moving& moving) {
  const int64_t bytes = moving.total();
  const int64_t between =
      static_cast<const std::byte*>(moving.source) - static_cast<const std::byte*>(moving.dest);
  if (between == 0 || between >= bytes || -between >= bytes) return;
  refuse("dest overlaps source: use the same memory for both, or memory that is apart");
}

void reduce_arithmetic(Team& team, const Moving& moving, const symm::Reduction& what) {
  const int64_t bytes = moving.total();
  offset_of(moving.dest, bytes);
  meet(team).memory().all_reduce(
      static_cast<int64_t>(moving.count), what,
      {.offset_bytes = offset_of(moving.source, bytes), .out = out_of(moving)});
}

}  // namespace ashlar::shmem
