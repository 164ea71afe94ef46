// Symmetric memory beside others, between processes that do the same in turns in one run: barriers
// beside a plain compare-and-swap barrier and Open MPI's, put beside memcpy, all-reduce beside Open
// MPI's, and with two ranks put and fetch-and-add over TCP beside UCX alone.
//
//   mpirun -n 2 symm_beside_others [--rounds N]
//   mpirun --oversubscribe -n 4 symm_beside_others
//
// Ratios in brackets are to the first of a line. Run it on an idle machine with a core for each
// rank.
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "api/unwrap.h"
#include "ashlar/symmetric.h"
#include "ashlar/ucx_transport.h"
#include "contest.h"
#include "raw_ucx.h"

namespace ashlar::symm {
namespace {

constexpr size_t kBufferBytes = size_t{16} << 20;
constexpr const char* kNetwork = "tcp,self";

// A folder that all ranks see, for as long as rank 0 lives.
class MeetingPlace {
 public:
  explicit MeetingPlace(int rank) : is_owner_(rank == 0) {
    if (is_owner_) {
      const std::string wanted =
          (std::filesystem::temp_directory_path() / "ashlar-beside-XXXXXX").string();
      std::copy_n(wanted.c_str(), std::min(wanted.size(), path_.size() - 1), path_.begin());
      if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no folder: " + wanted);
    }
    MPI_Bcast(path_.data(), static_cast<int>(path_.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  }
  ~MeetingPlace() {
    MPI_Barrier(MPI_COMM_WORLD);
    std::error_code ignored;
    if (is_owner_) std::filesystem::remove_all(path_.data(), ignored);
  }
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;

  std::shared_ptr<Store> store() const { return unwrap(open_file_store(path_.data())); }

 private:
  const bool is_owner_;
  std::array<char, 1024> path_{};
};

int turns_for(size_t bytes, size_t most) {
  return static_cast<int>(std::clamp<size_t>((size_t{16} << 20) / bytes, 2, most));
}

// --- on one machine -----------------------------------------------------------------------------

class SharedContest {
 public:
  SharedContest(const MeetingPlace& place, const ContestPlan& plan, int ranks)
      : plan_(plan),
        is_crowded_(ranks > static_cast<int>(std::thread::hardware_concurrency())),
        group_(Group::join(heap_, place.store(), {.rank = plan.rank, .world_size = ranks})),
        slots_(heap_.allocate(64 * static_cast<size_t>(ranks))),
        buffer_(heap_.allocate(kBufferBytes)),
        at_slots_(group_.rendezvous(slots_)),
        handle_(group_.rendezvous(buffer_)),
        own_(kBufferBytes) {
    std::memset(slots_.data(), 0, slots_.bytes());
    std::memset(buffer_.data(), 0, buffer_.bytes());
  }

  void hold() {
    hold_contest(
        plan_, "barrier", 5000,
        {{"plain", [this] { plain_barrier(at_slots_.buffer_ptrs(), plan_.rank, is_crowded_); }},
         {"Ashlar", [this] { group_.barrier(); }},
         {"Open MPI", [] { MPI_Barrier(MPI_COMM_WORLD); }}});
    for (const size_t bytes : {size_t{64} << 10, size_t{1} << 20, kBufferBytes}) put(bytes);
    for (size_t bytes = 1024; bytes <= kBufferBytes; bytes *= 4) all_reduce(bytes);
    if (plan_.rank == 0) std::printf("%s\n", group_.thresholds().c_str());
    group_.leave();
  }

 private:
  void put(size_t bytes) {
    const int next = (plan_.rank + 1) % group_.world_size();
    std::byte* to = handle_.buffer_ptrs()[static_cast<size_t>(next)];
    const std::span<const std::byte> from = std::span(own_).first(bytes);
    hold_contest(plan_, "put " + std::to_string(bytes), turns_for(bytes, 1000),
                 {{"memcpy", [&] { std::memcpy(to, from.data(), bytes); }},
                  {"Ashlar", [&] { handle_.put(next, from); }}});
  }

  void all_reduce(size_t bytes) {
    const auto count = static_cast<int>(bytes / sizeof(float));
    hold_contest(plan_, "all-reduce " + std::to_string(bytes), turns_for(bytes, 2000),
                 {{"Open MPI",
                   [&] {
                     MPI_Allreduce(MPI_IN_PLACE, own_.data(), count, MPI_FLOAT, MPI_SUM,
                                   MPI_COMM_WORLD);
                   }},
                  {"Ashlar", [&] { handle_.all_reduce(count); }}});
  }

  const ContestPlan& plan_;
  const bool is_crowded_;
  Heap heap_;
  Group group_;
  Buffer slots_;
  Buffer buffer_;
  Handle at_slots_;
  Handle handle_;
  std::vector<std::byte> own_;
};

// --- over the network ---------------------------------------------------------------------------

// Rank 0 acts; rank 1 answers: UCX alone by calling it all the time, Ashlar by its own thread.
class NetworkContest {
 public:
  NetworkContest(const MeetingPlace& place, const ContestPlan& plan)
      : plan_{.rank = plan.rank, .rounds = plan.rounds, .meet = [] { meet_while([] {}); }},
        heap_({.machine = "machine of rank " + std::to_string(plan.rank)}),
        group_(Group::join(
            heap_, place.store(),
            {.rank = plan.rank,
             .world_size = 2,
             .name = "network",
             .transport = unwrap(open_ucx_transport({.transports = kNetwork, .devices = {}}))})),
        buffer_(heap_.allocate(kBufferBytes)),
        handle_(group_.rendezvous(buffer_)),
        raw_memory_(kBufferBytes),
        raw_(kNetwork, raw_memory_, [this](const std::vector<char>& own) { return swap(own); }),
        own_(kBufferBytes) {
    std::memset(buffer_.data(), 0, buffer_.bytes());
  }

  void hold() {
    for (const size_t bytes : {size_t{8}, size_t{4} << 10, size_t{64} << 10, size_t{1} << 20}) {
      const std::span<const std::byte> from = std::span(own_).first(bytes);
      contest(
          "network put " + std::to_string(bytes), turns_for(bytes, 500), [&] { raw_.put(from); },
          [&] { handle_.put(1, from); });
    }
    contest(
        "network fetch-add", 500, [this] { raw_.fetch_add(1); },
        [this] { handle_.fetch(1, {.kind = AtomicKind::kAdd, .offset = 0, .operand = 1}); });
    group_.leave();
  }

 private:
  void contest(const std::string& title, int turns, const std::function<void()>& raw,
               const std::function<void()>& ours) {
    if (plan_.rank == 0) {
      hold_contest(plan_, title, turns, {{"UCX alone", raw}, {"Ashlar", ours}});
      plan_.meet();
      return;
    }
    plan_.meet();
    for (int round = 0; round <= plan_.rounds; ++round) {
      meet_while([this] { raw_.progress(); });
      meet_while([] { ::usleep(200); });  // out of the way of the thread that answers
    }
  }

  // Until the other has come, too.
  static void meet_while(const std::function<void()>& act) {
    MPI_Request met{};
    MPI_Ibarrier(MPI_COMM_WORLD, &met);
    for (int is_over = 0; is_over == 0; MPI_Test(&met, &is_over, MPI_STATUS_IGNORE)) act();
  }

  std::vector<char> swap(const std::vector<char>& own) const {
    const int other = 1 - plan_.rank;
    uint64_t own_bytes = own.size();
    uint64_t other_bytes = 0;
    MPI_Sendrecv(&own_bytes, 1, MPI_UINT64_T, other, 0, &other_bytes, 1, MPI_UINT64_T, other, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    std::vector<char> others(other_bytes);
    MPI_Sendrecv(own.data(), static_cast<int>(own_bytes), MPI_CHAR, other, 1, others.data(),
                 static_cast<int>(other_bytes), MPI_CHAR, other, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    return others;
  }

  const ContestPlan plan_;
  Heap heap_;
  Group group_;
  Buffer buffer_;
  Handle handle_;
  std::vector<std::byte> raw_memory_;
  RawUcx raw_;
  std::vector<std::byte> own_;
};

void run(int rounds) {
  ContestPlan plan{.rounds = rounds, .meet = [] { MPI_Barrier(MPI_COMM_WORLD); }};
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &plan.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (plan.rank == 0) {
    std::printf("%d ranks, %u cores\n", ranks, std::thread::hardware_concurrency());
  }
  const MeetingPlace place(plan.rank);
  SharedContest(place, plan, ranks).hold();
  if (ranks == 2) NetworkContest(place, plan).hold();
}

}  // namespace
}  // namespace ashlar::symm

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  const bool has_rounds = count == 3 && std::string(arguments[1]) == "--rounds";
  const int rounds = has_rounds ? std::atoi(arguments[2]) : 9;
  if ((count != 1 && !has_rounds) || rounds < 1) {
    std::fprintf(stderr, "usage: mpirun -n N symm_beside_others [--rounds N]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  try {
    ashlar::symm::run(rounds);
  } catch (const std::exception& failed) {
    std::fprintf(stderr, "symm_beside_others: %s\n", failed.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
