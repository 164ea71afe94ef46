// SPDX-License-Identifier: Apache-2.0
//
// All ranks draw the same routings from the same seed, so each rank can compute what it receives.
// The file is long because it contains the model, the exchanges and their errors.
#include "mp/harness/expert_program.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "mp/harness/graph_program.h"

namespace ashlar::symm {
namespace {

using Bytes = std::vector<std::byte>;

constexpr size_t kExpertBytes = size_t{16} << 10;  // the part of each buffer that is used
constexpr size_t kRowsBegin = 2048;                // splits are before it
constexpr uint64_t kMaxRows = 40;                  // sent by one rank
constexpr auto kFill = std::byte{0xA5};

// The slices that one rank sends.
struct Sending {
  std::vector<int64_t> splits{};
  std::vector<int64_t> offsets{};
};

// One exchange, as all ranks know it.
struct Routing {
  bool is_combine = false;
  size_t ranks = 1;
  size_t experts = 1;
  size_t row_bytes = 1;
  int64_t alignment = 0;
  bool has_offsets = false;
  size_t splits_begin = 0;  // in bytes
  size_t rows_begin = kRowsBegin;
  size_t out_begin = kRowsBegin;
  std::vector<Sending> senders{};

  size_t slices() const { return ranks * experts; }
  size_t sent_index(size_t receiver, size_t expert) const {
    return is_combine ? expert * ranks + receiver : receiver * experts + expert;
  }
};

enum class RoutingLoad { kEven, kSparse, kOneExpert, kNone };

std::vector<int64_t> draw_splits(Random& random, RoutingLoad load, size_t count) {
  std::vector<int64_t> splits(count);
  if (load == RoutingLoad::kNone) return splits;
  if (load == RoutingLoad::kOneExpert) {
    splits[random.below(count)] = static_cast<int64_t>(random.below(kMaxRows));
    return splits;
  }
  for (int64_t& each : splits) {
    if (load == RoutingLoad::kSparse && random.below(4) != 0) continue;
    each = static_cast<int64_t>(random.below(kMaxRows / count + 1));
  }
  return splits;
}

// Draws the splits, and offsets with gaps and in any order.
void draw_sending(Random& random, Routing& routing) {
  routing.senders.clear();
  for (size_t rank = 0; rank < routing.ranks; ++rank) {
    const auto load = static_cast<RoutingLoad>(random.below(4));
    Sending sending{draw_splits(random, load, routing.slices()), {}};
    int64_t next = 0;
    for (const int64_t split : sending.splits) {
      if (routing.has_offsets) next += static_cast<int64_t>(random.below(3));
      sending.offsets.push_back(next);
      next += split;
    }
    routing.senders.push_back(std::move(sending));
  }
}

Routing draw_routing(Random& random, size_t ranks) {
  constexpr std::array<size_t, 9> kRowBytes{1, 2, 3, 4, 6, 8, 16, 20, 48};
  constexpr std::array<int64_t, 4> kAlignments{0, 1, 3, 8};
  Routing routing;
  routing.is_combine = random.below(2) == 0;
  routing.ranks = ranks;
  routing.experts = 1 + random.below(5);
  routing.row_bytes = kRowBytes[random.below(kRowBytes.size())];
  routing.alignment = kAlignments[random.below(kAlignments.size())];
  routing.has_offsets = random.below(2) == 0;
  routing.splits_begin = 8 * random.below(16);
  routing.rows_begin = kRowsBegin + random.below(2) * random.below(17);
  routing.out_begin = kRowsBegin + random.below(2) * random.below(17);
  draw_sending(random, routing);
  return routing;
}

// The byte at position `at` of a rank's rows.
std::byte byte_of(size_t rank, uint64_t at) {
  return static_cast<std::byte>((at * 131 + rank * 71 + at / 256 * 17) & 0xFF);
}

struct Received {
  std::vector<int64_t> splits{};
  std::vector<int64_t> offsets{};
  Bytes rows{};  // up to the end of the last row
};

// Computes what `rank` receives, slice by slice.
Received expected_of(const Routing& routing, size_t rank) {
  Received all;
  int64_t next = 0;
  const size_t outer = routing.is_combine ? routing.ranks : routing.experts;
  const size_t inner = routing.is_combine ? routing.experts : routing.ranks;
  for (size_t i = 0; i < outer; ++i) {
    const int64_t begin = next;
    for (size_t j = 0; j < inner; ++j) {
      const size_t sender = routing.is_combine ? i : j;
      const size_t sent = routing.sent_index(rank, routing.is_combine ? j : i);
      const int64_t split = routing.senders[sender].splits[sent];
      all.splits.push_back(split);
      all.offsets.push_back(next);
      const uint64_t from =
          static_cast<uint64_t>(routing.senders[sender].offsets[sent]) * routing.row_bytes;
      if (split > 0) all.rows.resize(static_cast<size_t>(next) * routing.row_bytes, kFill);
      for (uint64_t at = 0; at < static_cast<uint64_t>(split) * routing.row_bytes; ++at) {
        all.rows.push_back(byte_of(sender, from + at));
      }
      next += split;
    }
    if (routing.alignment == 0) continue;
    next = begin + routing.alignment;
    while (next < all.offsets.back() + all.splits.back()) next += routing.alignment;
  }
  return all;
}

// Runs exchanges on one rank.
class ExpertProgram {
 public:
  explicit ExpertProgram(const ExpertMemory& own)
      : own_(own), rank_(static_cast<size_t>(own.handle.rank())) {}

  size_t ranks() const { return static_cast<size_t>(own_.handle.world_size()); }

  void write(const Handle& to, size_t at, const Bytes& bytes) const {
    to.put(to.rank(), bytes, static_cast<int64_t>(at));
  }
  Bytes read(const Handle& from, size_t at, size_t bytes) const {
    Bytes found(bytes);
    from.get(from.rank(), found, static_cast<int64_t>(at));
    return found;
  }

  // Writes the rows and splits of this rank, and fills the memory that receives.
  void prepare(const Routing& routing) const {
    write(own_.other_handle, 0, Bytes(kExpertBytes, kFill));
    Bytes rows(kExpertBytes - routing.rows_begin);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = byte_of(rank_, i);
    write(own_.handle, routing.rows_begin, rows);
    write_splits(routing, routing.senders[rank_]);
  }
  void write_splits(const Routing& routing, const Sending& sending) const {
    std::vector<int64_t> lists = sending.splits;
    if (routing.has_offsets) {
      lists.insert(lists.end(), sending.offsets.begin(), sending.offsets.end());
    }
    own_.handle.put(own_.handle.rank(), std::as_bytes(std::span(lists)),
                    static_cast<int64_t>(routing.splits_begin));
  }

  void submit(const Routing& routing, int64_t out_bytes, std::optional<StreamId> stream) const {
    CollectiveOptions options;
    options.offset_bytes = static_cast<int64_t>(routing.rows_begin);
    options.out = own_.other.data() + routing.out_begin;
    options.timeout = kTestTimeout;
    options.stream = stream;
    ExpertExchange rows;
    rows.row_bytes = static_cast<int64_t>(routing.row_bytes);
    rows.experts_per_rank = static_cast<int64_t>(routing.experts);
    rows.alignment_rows = routing.alignment;
    rows.splits = {
        list_at(own_.handle.buffer_ptrs()[rank_] + own_.handle.offset() + routing.splits_begin),
        routing.slices()};
    if (routing.has_offsets) {
      rows.offsets = {rows.splits.data() + rows.splits.size(), rows.splits.size()};
    }
    rows.out_bytes = out_bytes;
    rows.out_splits = {list_at(own_.other.data()), routing.slices()};
    rows.out_offsets = {rows.out_splits.data() + routing.slices(), routing.slices()};
    routing.is_combine ? own_.handle.combine(rows, options) : own_.handle.dispatch(rows, options);
  }

  // Compares the memory that receives with the model.
  std::string compare(const Routing& routing) const {
    Received expected = expected_of(routing, rank_);
    std::string wrong = compare_lists(routing, expected);
    expected.rows.resize(kExpertBytes - routing.out_begin, kFill);
    if (read(own_.other_handle, routing.out_begin, expected.rows.size()) != expected.rows) {
      wrong += "wrong rows; ";
    }
    return wrong;
  }
  std::string compare_lists(const Routing& routing, const Received& expected) const {
    const auto list = [&](size_t index) {
      std::vector<int64_t> found(routing.slices());
      own_.other_handle.get(own_.handle.rank(), std::as_writable_bytes(std::span(found)),
                            static_cast<int64_t>(8 * index * routing.slices()));
      return found;
    };
    std::string wrong;
    if (list(0) != expected.splits) wrong += "wrong splits; ";
    if (list(1) != expected.offsets) wrong += "wrong offsets; ";
    return wrong;
  }

  std::string describe(const Routing& routing) const {
    return text(routing.is_combine ? "combine" : "dispatch", " of ", routing.experts,
                " experts, rows of ", routing.row_bytes, " bytes, alignment ", routing.alignment,
                routing.has_offsets ? ", offsets" : "");
  }

 private:
  static int64_t* list_at(std::byte* at) { return reinterpret_cast<int64_t*>(at); }

  const ExpertMemory& own_;
  const size_t rank_;
};

void finish_stream(const ExpertMemory& own, std::optional<StreamId> stream) {
  if (stream) own.group.finish(*stream);
}

}  // namespace

ExpertMemory expert_memory(DeviceRank& own) {
  return {.group = own.group,
          .handle = own.handle,
          .other = own.scratch,
          .other_handle = own.scratch_handle,
          .device = &own.device()};
}

std::string check_expert_exchanges(const ExpertMemory& own, uint64_t count) {
  const ExpertProgram program(own);
  Random random(graph_program_options().seed);
  std::optional<StreamId> stream;
  if (own.device != nullptr) stream = *own.device->create_stream();
  for (uint64_t round = 0; round < count; ++round) {
    const Routing routing = draw_routing(random, program.ranks());
    const std::optional<StreamId> in = random.below(2) == 0 ? stream : std::nullopt;
    program.prepare(routing);
    const size_t exact = expected_of(routing, static_cast<size_t>(own.handle.rank())).rows.size();
    program.submit(routing, static_cast<int64_t>(exact), in);
    finish_stream(own, in);
    const std::string wrong = program.compare(routing);
    if (!wrong.empty()) return text("round ", round, ", ", program.describe(routing), ": ", wrong);
  }
  if (stream) throw_if_error(own.device->destroy_stream(*stream));
  return {};
}

std::string check_round_trip(const ExpertMemory& own) {
  const ExpertProgram program(own);
  Random random(7);
  Routing routing = draw_routing(random, program.ranks());
  routing.is_combine = false;
  routing.experts = 3;
  routing.has_offsets = false;
  routing.alignment = 8;
  routing.row_bytes = 12;
  draw_sending(random, routing);
  program.prepare(routing);
  constexpr int64_t kOutBytes = kExpertBytes - 2 * kRowsBegin;
  program.submit(routing, kOutBytes, std::nullopt);
  // The output of the dispatch is the input of the combine, which writes to local memory.
  const SymmetricBuffer& out = own.other;
  auto* lists = reinterpret_cast<int64_t*>(out.data());
  ExpertExchange back;
  back.row_bytes = static_cast<int64_t>(routing.row_bytes);
  back.experts_per_rank = 3;
  back.splits = {lists, routing.slices()};
  back.offsets = {lists + routing.slices(), routing.slices()};
  back.out_bytes = kOutBytes;
  std::byte* const end = own.handle.buffer_ptrs()[static_cast<size_t>(own.handle.rank())] +
                         own.handle.offset() + kExpertBytes;
  auto* back_lists = reinterpret_cast<int64_t*>(end);
  back.out_splits = {back_lists, routing.slices()};
  back.out_offsets = {back_lists + routing.slices(), routing.slices()};
  CollectiveOptions options;
  options.offset_bytes = static_cast<int64_t>(routing.out_begin);
  options.out = end + kRowsBegin;
  options.timeout = kTestTimeout;
  own.other_handle.combine(back, options);
  const auto own_rank = static_cast<size_t>(own.handle.rank());
  const Sending& sent = routing.senders[own_rank];
  std::vector<int64_t> splits(routing.slices());
  own.handle.get(own.handle.rank(), std::as_writable_bytes(std::span(splits)), kExpertBytes);
  if (splits != sent.splits) return "other splits";
  const size_t bytes =
      static_cast<size_t>(sent.offsets.back() + sent.splits.back()) * routing.row_bytes;
  const Bytes rows = program.read(own.handle, kExpertBytes + kRowsBegin, bytes);
  for (size_t i = 0; i < bytes; ++i) {
    if (rows[i] != byte_of(own_rank, i)) return text("other row at byte ", i);
  }
  return {};
}

namespace {

// Submits exchanges that fail. Every rank sends one row to every expert.
class ExpertErrors {
 public:
  explicit ExpertErrors(const ExpertMemory& own) : program_(own), rank_(own.handle.rank()) {
    routing_.ranks = program_.ranks();
    routing_.experts = 2;
    routing_.row_bytes = 4;
    for (size_t i = 0; i < routing_.slices(); ++i) {
      valid_.splits.push_back(1);
      valid_.offsets.push_back(static_cast<int64_t>(i));
    }
    routing_.senders.assign(program_.ranks(), valid_);
    full_bytes_ = static_cast<int64_t>(4 * routing_.slices());
  }

  // The last slice of rank 0 concerns the last rank only.
  void check_last_slice() {
    for (const bool has_offsets : {false, true}) {
      routing_.has_offsets = has_offsets;
      for (const int64_t invalid : {int64_t{-3}, int64_t{1} << 40, INT64_MAX}) {
        Sending other = valid_;
        other.splits.back() = invalid;
        expect("split", submit_from_rank_0(other),
               is_last() ? text("rank 0 sends ", invalid, " rows from row ") : "nothing");
      }
    }
    Sending other = valid_;
    other.offsets.back() = INT64_MAX;
    expect("offset", submit_from_rank_0(other),
           is_last() ? "rank 0 sends 1 rows from row 9223372036854775807" : "nothing");
    routing_.has_offsets = false;
  }

  // A negative split makes the positions of all later slices invalid.
  void check_first_slice() {
    Sending other = valid_;
    other.splits.front() = -1;
    expect("first split", submit_from_rank_0(other), "rank 0 sends ");
  }

  void check_small_output() {
    program_.prepare(routing_);
    const int64_t bytes = full_bytes_ - (rank_ == 0 ? 1 : 0);
    expect("small output", submit(routing_, bytes),
           rank_ == 0 ? text("out has room for ", bytes, " bytes, but the ranks send ", full_bytes_)
                      : "nothing");
    wrong_ += program_.compare_lists(routing_, expected_of(routing_, static_cast<size_t>(rank_)));
  }

  void check_mismatch() {
    Routing different = routing_;
    if (rank_ == 0) different.row_bytes = 2;
    expect("mismatch", submit(different, full_bytes_),
           "2 experts per rank, by rank, rows of 2 bytes");
  }

  std::string run() {
    check_last_slice();
    check_first_slice();
    check_small_output();
    check_mismatch();
    program_.prepare(routing_);
    expect("after errors", submit(routing_, full_bytes_), "nothing");
    return wrong_ + program_.compare(routing_);
  }

 private:
  bool is_last() const { return rank_ == static_cast<int>(program_.ranks()) - 1; }
  std::string submit(const Routing& routing, int64_t out_bytes) const {
    return error_message([&] { program_.submit(routing, out_bytes, std::nullopt); });
  }
  // Rank 0 sends `sending`, the other ranks send valid splits.
  std::string submit_from_rank_0(const Sending& sending) const {
    program_.prepare(routing_);
    if (rank_ == 0) program_.write_splits(routing_, sending);
    return submit(routing_, full_bytes_);
  }
  void expect(const char* what, const std::string& message, const std::string& part) {
    if (message.find(part) == std::string::npos) wrong_ += text(what, ": ", message, "; ");
  }

  const ExpertProgram program_;
  const int rank_;
  Routing routing_;
  Sending valid_;
  int64_t full_bytes_ = 0;
  std::string wrong_;
};

}  // namespace

std::string check_expert_errors(const ExpertMemory& own) { return ExpertErrors(own).run(); }

std::string check_expert_graph(const ExpertMemory& own) {
  const ExpertProgram program(own);
  Random random(3);
  Routing routing = draw_routing(random, program.ranks());
  routing.experts = 2;
  routing.alignment = 8;
  routing.row_bytes = 16;
  draw_sending(random, routing);
  const StreamId stream = *own.device->create_stream();
  const GraphId graph = capture_graph(
      *own.device, stream, [&] { program.submit(routing, kExpertBytes - 2 * kRowsBegin, stream); });
  std::string wrong;
  for (int round = 0; round < 6 && wrong.empty(); ++round) {
    draw_sending(random, routing);
    program.prepare(routing);
    throw_if_error(own.device->launch_graph(graph, stream));
    finish_stream(own, stream);
    wrong = program.compare(routing);
    if (!wrong.empty()) wrong = text("launch ", round, ": ", wrong);
  }
  throw_if_error(own.device->destroy_graph(graph));
  throw_if_error(own.device->destroy_stream(stream));
  return wrong;
}

}  // namespace ashlar::symm
