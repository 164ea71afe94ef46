// SPDX-License-Identifier: Apache-2.0
//
// Rank 0 runs and measures the operations on the memory of rank 1. For raw UCX, rank 1 calls
// progress() in a loop in the meantime; Ashlar uses its own progress thread.
#include "pair_comparison.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "api/unwrap.h"
#include "ashlar/ucx_transport.h"

namespace ashlar::symm {
namespace {

// Numbers of calls per batch: below and far above the number of calls that Ashlar keeps in flight.
constexpr int kBatches[] = {64, 1024};

// Enters a barrier, and calls `work` until the other rank has entered it.
void barrier_while(const std::function<void()>& work) {
  MPI_Request barrier_request{};
  MPI_Ibarrier(MPI_COMM_WORLD, &barrier_request);
  for (int is_over = 0; is_over == 0; MPI_Test(&barrier_request, &is_over, MPI_STATUS_IGNORE))
    work();
}

std::vector<char> exchange_with_peer(const std::vector<char>& sent) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int other = 1 - rank;
  uint64_t sent_bytes = sent.size();
  uint64_t received_bytes = 0;
  MPI_Sendrecv(&sent_bytes, 1, MPI_UINT64_T, other, 0, &received_bytes, 1, MPI_UINT64_T, other, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  std::vector<char> received(received_bytes);
  MPI_Sendrecv(sent.data(), static_cast<int>(sent_bytes), MPI_CHAR, other, 1, received.data(),
               static_cast<int>(received_bytes), MPI_CHAR, other, 1, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  return received;
}

HeapOptions heap_options(const PairTransport& transport, int rank) {
  HeapOptions options;
  if (transport.is_network) options.machine = "machine of rank " + std::to_string(rank);
  return options;
}

GroupOptions group_options(const PairTransport& transport, int rank) {
  GroupOptions options;
  options.rank = rank;
  options.world_size = 2;
  options.name = transport.name;
  options.measure_thresholds = false;
  if (transport.is_network) {
    options.transport = unwrap(try_open_ucx_transport({.transports = transport.ucx_transports}));
  }
  return options;
}

}  // namespace

PairComparison::PairComparison(const RendezvousFolder& folder, const ComparisonPlan& plan,
                               const PairTransport& transport)
    : transport_(transport),
      plan_{.rank = plan.rank,
            .rounds = plan.rounds,
            .use_fastest = plan.use_fastest,
            .only = plan.only,
            .barrier = [] { barrier_while([] {}); },
            .limits = plan.limits},
      heap_(heap_options(transport, plan.rank)),
      group_(Group::join(heap_, folder.store(), group_options(transport, plan.rank))),
      buffer_(heap_.allocate(kMaxBytes)),
      handle_(group_.rendezvous(buffer_)),
      raw_(transport.ucx_transports, kMaxBytes, exchange_with_peer),
      local_(kMaxBytes) {
  std::memset(buffer_.data(), 0, buffer_.bytes());
  std::memset(raw_.memory().data(), 0, raw_.memory().size());
}

void PairComparison::run() {
  for (size_t bytes = 8; bytes <= kMaxBytes; bytes *= 2) copies(bytes);
  words();
  batches();
  group_.leave();
}

void PairComparison::copies(size_t bytes) {
  const std::span<std::byte> local = std::span(local_).first(bytes);
  const int iterations = iterations_for(bytes, 500);
  compare({"put " + std::to_string(bytes), iterations, [&] { raw_.put(local); },
           [&] { handle_.put(1, local); }});
  compare({"get " + std::to_string(bytes), iterations, [&] { raw_.get(local); },
           [&] { handle_.get(1, local); }});
}

void PairComparison::words() {
  compare({"fetch-add", 500, [this] { raw_.fetch_add(1); },
           [this] { handle_.fetch(1, {.kind = AtomicKind::kAdd, .operand = 1}); }});
  // Every swap but the first expects the value that the previous swap stored.
  uint64_t raw_last = 0;
  uint64_t last = 0;
  compare({"compare-and-swap", 500,
           [&] {
             const uint64_t found = raw_.compare_and_swap(raw_last, raw_last + 1);
             raw_last = found == raw_last ? raw_last + 1 : found;
           },
           [&] {
             const uint64_t found = handle_.fetch(
                 1, {.kind = AtomicKind::kCompareAndSwap, .operand = last + 1, .expected = last});
             last = found == last ? last + 1 : found;
           }});
}

void PairComparison::batches() {
  for (const int count : kBatches) {
    const int iterations = std::max(2, 4096 / count);
    const std::string times = std::to_string(count) + " x ";
    compare({times + "posted add", iterations,
             [&, count] {
               for (int i = 0; i < count; ++i) raw_.post_add(1);
               raw_.flush();
             },
             [&, count] {
               for (int i = 0; i < count; ++i) {
                 handle_.post(1, {.kind = AtomicKind::kAdd, .operand = 1});
               }
               handle_.quiet();
             }});
    for (const size_t bytes : {size_t{8}, size_t{4096}, size_t{65536}}) {
      const std::span<const std::byte> local = std::span(local_).first(bytes);
      compare({times + "posted put " + std::to_string(bytes),
               std::min(iterations, iterations_for(bytes * static_cast<size_t>(count), 500)),
               [&, count] {
                 for (int i = 0; i < count; ++i) raw_.post_put(local);
                 raw_.flush();
               },
               [&, count] {
                 for (int i = 0; i < count; ++i) handle_.post(1, local);
                 handle_.quiet();
               }});
    }
  }
}

void PairComparison::compare(const Entry& entry) {
  const std::string title = transport_.name + ' ' + entry.title;
  if (!plan_.has(title)) return;
  if (plan_.rank == 0) {
    run_comparison(plan_, title, entry.iterations,
                   {{"raw UCX", entry.raw}, {"Ashlar", entry.ours, transport_.max_ratio}});
    plan_.barrier();
    return;
  }
  plan_.barrier();
  for (int round = 0; round <= plan_.rounds; ++round) {
    barrier_while([this] { raw_.progress(); });
    barrier_while([] { ::usleep(200); });  // leaves the core to the progress thread
  }
}

}  // namespace ashlar::symm
