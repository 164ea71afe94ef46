// SPDX-License-Identifier: Apache-2.0
//
// Implements the collectives with the collectives of ashlar::symm, or with puts and a barrier.
#include "shmem/collectives.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "shmem/strided_rma.h"

namespace ashlar::shmem {
namespace {

PeGroup& group_for(Team& team) { return Runtime::get().teams().group_for(team); }

int64_t offset_of(const void* address, int64_t bytes) {
  return static_cast<int64_t>(Runtime::get().offset_of(address, static_cast<size_t>(bytes)));
}

// Translates to an address in the buffer of ashlar::symm, so that the collectives can detect
// overlaps.
std::byte* buffer_address(const void* address, int64_t bytes) {
  return Runtime::get().buffer_address(address, static_cast<size_t>(bytes));
}

// Returns null if `dest` equals `source`, which selects the in-place variant of a symm collective.
void* output_of(const Transfer& transfer) {
  if (transfer.dest == transfer.source) return nullptr;
  return buffer_address(transfer.dest, transfer.total_bytes());
}

int64_t checked_product(int64_t bytes, size_t count) {
  int64_t product = 0;
  if (__builtin_mul_overflow(bytes, count, &product)) {
    throw_invalid_argument(count, " times ", bytes, " bytes exceed the address space");
  }
  return product;
}

}  // namespace

int64_t Transfer::total_bytes() const {
  if (element_bytes > static_cast<size_t>(std::numeric_limits<int64_t>::max()))
    throw_invalid_argument("an element of ", element_bytes, " bytes exceeds the address space");
  return checked_product(static_cast<int64_t>(element_bytes), count);
}

void sync(Team& team) { group_for(team).group().barrier(); }

void broadcast(Team& team, const Transfer& transfer, int root, RootDest root_dest) {
  const int64_t bytes = transfer.total_bytes();
  offset_of(transfer.dest, bytes);
  const bool is_untouched = root_dest == RootDest::kUntouched && team.rank() == root;
  group_for(team).memory().broadcast(bytes, root,
                                     {.offset_bytes = offset_of(transfer.source, bytes),
                                      .out = is_untouched ? nullptr : output_of(transfer)});
}

void fcollect(Team& team, const Transfer& transfer) {
  const int64_t bytes = transfer.total_bytes();
  const int64_t all = checked_product(bytes, static_cast<size_t>(team.size()));
  const std::byte* source = buffer_address(transfer.source, bytes);
  group_for(team).memory().all_gather(source, bytes,
                                      {.offset_bytes = offset_of(transfer.dest, all)});
}

void collect(Team& team, const Transfer& transfer) {
  Runtime& runtime = Runtime::get();
  const auto bytes = static_cast<size_t>(transfer.total_bytes());
  runtime.offset_of(transfer.source, bytes);
  PeGroup& pe_group = group_for(team);
  const std::vector<uint64_t> shares = pe_group.gather("shmem_collect", bytes);
  const auto own_share = shares.begin() + team.rank();
  const size_t begin = std::accumulate(shares.begin(), own_share, size_t{0});
  std::byte* to = static_cast<std::byte*>(transfer.dest) + begin;
  for (int step = 0; step < team.size(); ++step) {
    const int pe = team.world_pe((team.rank() + step) % team.size());
    runtime.put(runtime.resolve(SHMEM_CTX_DEFAULT, to, bytes, pe), transfer.source, bytes);
  }
  runtime.quiet();
  pe_group.group().barrier();
}

void alltoall(Team& team, const Transfer& transfer) {
  const int64_t bytes = transfer.total_bytes();
  const int64_t all = checked_product(bytes, static_cast<size_t>(team.size()));
  void* out = buffer_address(transfer.dest, all);
  group_for(team).memory().all_to_all(
      bytes, {.offset_bytes = offset_of(transfer.source, all), .out = out});
}

void alltoalls(Team& team, const Transfer& transfer, const Strides& strides) {
  Runtime& runtime = Runtime::get();
  const auto size = static_cast<size_t>(team.size());
  const auto elements =
      static_cast<size_t>(checked_product(transfer.total_bytes(), size)) / transfer.element_bytes;
  if (elements > 0) {
    runtime.offset_of(transfer.dest, strided_bytes(strides.dest, elements, transfer.element_bytes));
    runtime.offset_of(transfer.source,
                      strided_bytes(strides.source, elements, transfer.element_bytes));
  }
  PeGroup& pe_group = group_for(team);
  pe_group.check_same_call(
      {"shmem_alltoalls",
       {transfer.count, static_cast<uint64_t>(strides.dest), static_cast<uint64_t>(strides.source)},
       3});
  // The distance in bytes between the blocks for consecutive PEs.
  const auto share = [&](ptrdiff_t stride) { return transfer.total_bytes() * stride; };
  for (int step = 0; step < team.size() && elements > 0; ++step) {
    const int peer = (team.rank() + step) % team.size();
    std::byte* to = static_cast<std::byte*>(transfer.dest) + team.rank() * share(strides.dest);
    const std::byte* from =
        static_cast<const std::byte*>(transfer.source) + peer * share(strides.source);
    strided_put({runtime, SHMEM_CTX_DEFAULT, team.world_pe(peer)}, {to, strides.dest},
                {from, strides.source}, transfer.count, transfer.element_bytes);
  }
  runtime.quiet();
  pe_group.group().barrier();
}

void check_no_partial_overlap(const Transfer& transfer) {
  const int64_t bytes = transfer.total_bytes();
  const int64_t between =
      static_cast<const std::byte*>(transfer.source) - static_cast<const std::byte*>(transfer.dest);
  if (between == 0 || between >= bytes || -between >= bytes) return;
  throw_invalid_argument("dest partially overlaps source; they must be equal or disjoint");
}

void reduce_native(Team& team, const Transfer& transfer, const symm::Reduction& reduction) {
  const int64_t bytes = transfer.total_bytes();
  offset_of(transfer.dest, bytes);
  group_for(team).memory().all_reduce(
      static_cast<int64_t>(transfer.count), reduction,
      {.offset_bytes = offset_of(transfer.source, bytes), .out = output_of(transfer)});
}

}  // namespace ashlar::shmem
