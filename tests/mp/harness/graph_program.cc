// SPDX-License-Identifier: Apache-2.0
//
// All ranks draw the same operations from the same seed. Each rank also models the memory of the
// other ranks, so that the model needs no communication. The file is long because it contains the
// model and the submission of every operation.
#include "mp/harness/graph_program.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <string_view>
#include <thread>
#include <vector>

#include "ashlar/errors.h"
#include "base/random.h"
#include "base/text.h"

namespace ashlar::symm {
namespace {

constexpr size_t kModelWords = 512;  // of each buffer
constexpr size_t kRangeWords = 256;  // the largest range of a collective; begins in the first half
constexpr uint64_t kRowWords = 2;    // in a row of an all-to-all-v
constexpr int kSignalChannel = 1;
constexpr int kCounterChannel = 2;
constexpr int kStoreChannel = 3;
constexpr Reduction kSumOfWords{ElementType::kU32, ReduceOp::kSum};

enum class OperationKind {
  kOneShotAllReduce,
  kTwoShotAllReduce,
  kOneShotAllReduceOut,
  kTwoShotAllReduceOut,
  kReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kAllToAll,
  kAllToAllV,
  kBarrier,
  kSignals,
  kStores,
  kLocalCopy,
};
constexpr uint64_t kOperationKindCount = static_cast<uint64_t>(OperationKind::kLocalCopy) + 1;

// The splits of an all-to-all-v. Graphs read and write them at each launch.
struct Rows {
  std::vector<std::vector<int64_t>> splits{};  // [sender][receiver]
  std::vector<int64_t> out_splits{};
  std::vector<int64_t> out_offsets{};
};

struct Operation {
  OperationKind kind = OperationKind::kBarrier;
  size_t begin = 0;  // in words
  size_t count = 1;  // words; in operations with one share per rank, words of a share
  int root = 0;
  uint32_t value = 0;
  std::shared_ptr<Rows> rows{};  // shared by copies of the operation
};

using Words = std::vector<uint32_t>;

// The memory of all ranks.
struct Model {
  std::vector<Words> buffers{};
  std::vector<Words> scratch{};
  uint64_t counter = 0;

  size_t ranks() const { return buffers.size(); }
  uint32_t sum(size_t word) const {
    uint32_t total = 0;
    for (const Words& each : buffers) total += each[word];
    return total;
  }

  void apply(const Operation& operation) {
    switch (operation.kind) {
      case OperationKind::kOneShotAllReduce:
      case OperationKind::kTwoShotAllReduce: return apply_all_reduce(operation);
      case OperationKind::kOneShotAllReduceOut:
      case OperationKind::kTwoShotAllReduceOut: return apply_reduction_to_scratch(operation);
      case OperationKind::kReduce: return apply_reduce(operation);
      case OperationKind::kReduceScatter: return apply_reduce_scatter(operation);
      case OperationKind::kAllGather: return apply_all_gather(operation);
      case OperationKind::kBroadcast: return apply_broadcast(operation);
      case OperationKind::kAllToAll: return apply_all_to_all(operation);
      case OperationKind::kAllToAllV: return apply_all_to_all_v(operation);
      case OperationKind::kBarrier: return;
      case OperationKind::kSignals: counter += 3; return;
      case OperationKind::kStores: return apply_stores(operation);
      case OperationKind::kLocalCopy: return apply_local_copy(operation);
    }
  }
  void apply_all_reduce(const Operation& operation) {
    for (size_t i = operation.begin; i < operation.begin + operation.count; ++i) {
      const uint32_t total = sum(i);
      for (Words& each : buffers) each[i] = total;
    }
  }
  void apply_reduction_to_scratch(const Operation& operation) {
    for (size_t i = 0; i < operation.count; ++i) {
      for (Words& each : scratch) each[i] = sum(operation.begin + i);
    }
  }
  void apply_reduce(const Operation& operation) {
    for (size_t i = 0; i < operation.count; ++i) {
      scratch[static_cast<size_t>(operation.root)][i] = sum(operation.begin + i);
    }
  }
  void apply_reduce_scatter(const Operation& operation) {
    for (size_t rank = 0; rank < ranks(); ++rank) {
      for (size_t i = 0; i < operation.count; ++i) {
        scratch[rank][i] = sum(operation.begin + rank * operation.count + i);
      }
    }
  }
  void apply_all_gather(const Operation& operation) {
    for (Words& each : buffers) {
      for (size_t from = 0; from < ranks(); ++from) {
        std::copy_n(
            scratch[from].begin(), operation.count,
            each.begin() + static_cast<ptrdiff_t>(operation.begin + from * operation.count));
      }
    }
  }
  void apply_broadcast(const Operation& operation) {
    const Words root = buffers[static_cast<size_t>(operation.root)];
    const auto begin = static_cast<ptrdiff_t>(operation.begin);
    for (Words& each : buffers) {
      std::copy_n(root.begin() + begin, operation.count, each.begin() + begin);
    }
  }
  void apply_all_to_all(const Operation& operation) {
    for (size_t to = 0; to < ranks(); ++to) {
      for (size_t from = 0; from < ranks(); ++from) {
        const auto begin = static_cast<ptrdiff_t>(operation.begin + to * operation.count);
        std::copy_n(buffers[from].begin() + begin, operation.count,
                    scratch[to].begin() + static_cast<ptrdiff_t>(from * operation.count));
      }
    }
  }
  void apply_all_to_all_v(const Operation& operation) {
    for (size_t to = 0; to < ranks(); ++to) {
      auto out = scratch[to].begin();
      for (size_t from = 0; from < ranks(); ++from) {
        const std::vector<int64_t>& splits = operation.rows->splits[from];
        auto in = buffers[from].begin() + static_cast<ptrdiff_t>(operation.begin);
        for (size_t other = 0; other < to; ++other) in += splits[other] * int64_t{kRowWords};
        out = std::copy_n(in, splits[to] * int64_t{kRowWords}, out);
      }
    }
  }
  void apply_stores(const Operation& operation) {
    for (size_t rank = 0; rank < ranks(); ++rank) {
      std::fill_n(buffers[(rank + 1) % ranks()].begin() + static_cast<ptrdiff_t>(operation.begin),
                  operation.count, operation.value + static_cast<uint32_t>(rank));
    }
  }
  void apply_local_copy(const Operation& operation) {
    for (size_t rank = 0; rank < ranks(); ++rank) {
      std::copy_n(scratch[rank].begin(), operation.count,
                  buffers[rank].begin() + static_cast<ptrdiff_t>(operation.begin));
    }
  }
};

struct Graph {
  GraphId id;
  std::vector<Operation> operations{};  // including those of nested graphs
};

class GraphProgram {
 public:
  GraphProgram(DeviceRank& own, const GraphProgramOptions& options)
      : own_(own),
        options_(options),
        shared_random_(options.seed),
        own_random_(options.seed * 1009 + static_cast<uint64_t>(own.handle.rank())),
        streams_{*own.device().create_stream(), *own.device().create_stream()} {}

  std::string run() {
    prepare();
    std::string wrong;
    for (uint64_t round = 0; replay_count_ < options_.replay_count && wrong.empty(); ++round) {
      if (options_.inject_fault && own_random_.below(4) == 0) options_.inject_fault();
      if (own_random_.below(3) == 0) delay_stream();
      if (shared_random_.below(4) == 0) switch_stream();
      run_round();
      if (shared_random_.below(4) == 0 || replay_count_ >= options_.replay_count) wrong = compare();
      if (!wrong.empty()) wrong = text("seed ", options_.seed, ", round ", round, ": ", wrong);
    }
    if (wrong.empty()) wrong = check_counter();
    while (!graphs_.empty()) destroy_graph(graphs_.begin());
    for (const StreamId each : streams_) (void)own_.device().destroy_stream(each).ok();
    return wrong;
  }

 private:
  int rank() const { return own_.handle.rank(); }
  size_t ranks() const { return static_cast<size_t>(own_.handle.world_size()); }
  StreamId stream() const { return streams_[current_stream_]; }

  // Retries a call that an injected fault makes fail. A failed call has done nothing.
  template <typename Call>
  static void retry(const Call& call) {
    for (int attempt = 0;; ++attempt) {
      try {
        call();
        return;
      } catch (const DeviceError&) {
        if (attempt == 3) throw;
      }
    }
  }
  template <typename Call>
  static void retry_device(const Call& call) {
    retry([&] { throw_if_error(call()); });
  }

  void prepare() {
    for (size_t each = 0; each < ranks(); ++each) {
      Words& words = model_.buffers.emplace_back(kModelWords);
      for (size_t i = 0; i < kModelWords; ++i) words[i] = static_cast<uint32_t>(1000 * each + i);
      Words& others = model_.scratch.emplace_back(kModelWords);
      for (size_t i = 0; i < kModelWords; ++i) others[i] = static_cast<uint32_t>(7 * each + i);
    }
    const auto own = static_cast<size_t>(rank());
    own_.write(model_.buffers[own]);
    own_.scratch_handle.put(rank(), std::as_bytes(std::span(model_.scratch[own])));
    own_.group.barrier(0, kTestTimeout);
  }

  // --- rounds

  void run_round() {
    const uint64_t choice = shared_random_.below(10);
    if (graphs_.size() < 2 || choice == 0) {
      capture();
    } else if (choice == 1 && graphs_.size() > 3) {
      destroy_graph(any_graph());
    } else if (choice < 4) {
      run_eagerly();
    } else {
      replay();
    }
  }
  std::map<int, Graph>::iterator any_graph() {
    return std::next(graphs_.begin(), static_cast<ptrdiff_t>(shared_random_.below(graphs_.size())));
  }

  void capture() {
    Graph graph;
    std::optional<Graph> nested;
    if (options_.has_nested_graphs && !graphs_.empty() && shared_random_.below(3) == 0) {
      nested = any_graph()->second;
    }
    for (uint64_t left = 1 + shared_random_.below(4); left > 0; --left) {
      graph.operations.push_back(draw_operation());
    }
    graph.id = capture_graph(own_.device(), stream(), [&] {
      for (const Operation& each : graph.operations) submit(each, stream());
      if (nested) retry_device([&] { return own_.device().launch_graph(nested->id, stream()); });
    });
    if (nested) {
      graph.operations.insert(graph.operations.end(), nested->operations.begin(),
                              nested->operations.end());
    }
    graphs_.emplace(next_graph_++, std::move(graph));
  }

  void replay() {
    const Graph& graph = any_graph()->second;
    for (uint64_t left = 1 + shared_random_.below(3); left > 0; --left) {
      retry_device([&] { return own_.device().launch_graph(graph.id, stream()); });
      for (const Operation& each : graph.operations) apply(each);
      ++replay_count_;
    }
  }

  // Without a stream, a call is not ordered after replays, so the stream must be finished.
  void run_eagerly() {
    const Operation operation = draw_operation();
    if (shared_random_.below(3) == 0) {
      retry([&] { own_.group.finish(stream()); });
      submit(operation, std::nullopt);
    } else {
      submit(operation, stream());
    }
    apply(operation);
  }

  void destroy_graph(std::map<int, Graph>::iterator graph) {
    retry_device([&] { return own_.device().destroy_graph(graph->second.id); });
    graphs_.erase(graph);
  }

  void switch_stream() {
    const EventId event = *own_.device().create_event();
    retry_device([&] { return own_.device().record_event(event, stream()); });
    current_stream_ = 1 - current_stream_;
    retry_device([&] { return own_.device().wait_event(stream(), event); });
    retry_device([&] { return own_.device().destroy_event(event); });
  }

  void delay_stream() {
    const uint64_t turns = own_random_.below(4);
    retry_device([&] {
      return own_.device().call_host(stream(), [turns] {
        for (uint64_t i = 0; i < turns; ++i) std::this_thread::yield();
      });
    });
  }

  void apply(const Operation& operation) {
    model_.apply(operation);
    if (operation.rows == nullptr) return;
    last_rows_ = operation.rows;
    queued_rows_.push_back(operation.rows);
  }

  // --- operations

  Operation draw_operation() {
    Operation operation;
    operation.kind = static_cast<OperationKind>(shared_random_.below(kOperationKindCount));
    operation.begin = shared_random_.below(kModelWords - kRangeWords);
    operation.count = 1 + shared_random_.below(kRangeWords / ranks());
    operation.root = static_cast<int>(shared_random_.below(ranks()));
    operation.value = static_cast<uint32_t>(shared_random_.next());
    if (operation.kind != OperationKind::kAllToAllV) return operation;
    operation.rows = std::make_shared<Rows>();
    for (size_t from = 0; from < ranks(); ++from) {
      std::vector<int64_t>& splits = operation.rows->splits.emplace_back();
      for (size_t to = 0; to < ranks(); ++to) {
        splits.push_back(
            static_cast<int64_t>(shared_random_.below(kRangeWords / kRowWords / ranks())));
      }
    }
    operation.rows->out_splits.resize(ranks());
    operation.rows->out_offsets.resize(ranks());
    return operation;
  }

  CollectiveOptions options(const Operation& operation, bool has_out,
                            std::optional<StreamId> on) const {
    CollectiveOptions made;
    made.offset_bytes = static_cast<int64_t>(4 * operation.begin);
    made.out = has_out ? own_.scratch.data() : nullptr;
    made.timeout = kTestTimeout;
    made.stream = on;
    return made;
  }

  void submit(const Operation& operation, std::optional<StreamId> on) {
    switch (operation.kind) {
      case OperationKind::kSignals: return submit_signals(on);
      case OperationKind::kStores: return submit_stores(operation, on);
      case OperationKind::kLocalCopy: return submit_local_copy(operation, on);
      default: retry([&] { submit_collective(operation, on); });
    }
  }

  void submit_collective(const Operation& operation, std::optional<StreamId> on) {
    const Handle& handle = own_.handle;
    const auto count = static_cast<int64_t>(operation.count);
    const CollectiveOptions in_place = options(operation, false, on);
    const CollectiveOptions to_scratch = options(operation, true, on);
    switch (operation.kind) {
      case OperationKind::kOneShotAllReduce:
        return handle.one_shot_all_reduce(count, kSumOfWords, in_place);
      case OperationKind::kTwoShotAllReduce:
        return handle.two_shot_all_reduce(count, kSumOfWords, in_place);
      case OperationKind::kOneShotAllReduceOut:
        return handle.one_shot_all_reduce(count, kSumOfWords, to_scratch);
      case OperationKind::kTwoShotAllReduceOut:
        return handle.two_shot_all_reduce(count, kSumOfWords, to_scratch);
      case OperationKind::kReduce:
        return handle.reduce(count, operation.root, kSumOfWords, to_scratch);
      case OperationKind::kReduceScatter:
        return handle.reduce_scatter(count, kSumOfWords, to_scratch);
      case OperationKind::kAllGather:
        return handle.all_gather(own_.scratch.data(), 4 * count, in_place);
      case OperationKind::kBroadcast: return handle.broadcast(4 * count, operation.root, in_place);
      case OperationKind::kAllToAll: return handle.all_to_all(4 * count, to_scratch);
      case OperationKind::kAllToAllV: return submit_rows(*operation.rows, to_scratch);
      default: handle.barrier(static_cast<int>(operation.value % 3) + 4, kTestTimeout, on);
    }
  }

  void submit_rows(Rows& rows, const CollectiveOptions& to_scratch) {
    RowExchange exchange;
    exchange.row_bytes = 4 * kRowWords;
    exchange.splits = rows.splits[static_cast<size_t>(rank())];
    exchange.out_bytes = 4 * kModelWords;
    exchange.out_splits = rows.out_splits;
    exchange.out_offsets = rows.out_offsets;
    own_.handle.all_to_all_v(exchange, to_scratch);
  }

  void submit_signals(std::optional<StreamId> on) {
    const Handle& handle = own_.handle;
    const int next = (rank() + 1) % handle.world_size();
    const int before = (rank() + handle.world_size() - 1) % handle.world_size();
    retry([&] { handle.put_signal(next, kSignalChannel, kTestTimeout, on); });
    retry([&] { handle.wait_signal(before, kSignalChannel, kTestTimeout, on); });
    retry([&] { handle.add_signal(next, 3, kCounterChannel, on); });
    retry([&] { handle.wait_for_value(before, 3, kCounterChannel, kTestTimeout, on); });
  }

  // Stores are not ordered with the collectives of other ranks, so they are between barriers.
  void submit_stores(const Operation& operation, std::optional<StreamId> on) {
    const Handle& handle = own_.handle;
    retry([&] { handle.barrier(kStoreChannel, kTestTimeout, on); });
    const WordFill fill{.offset = static_cast<int64_t>(operation.begin),
                        .count = static_cast<int64_t>(operation.count),
                        .value = operation.value + static_cast<uint32_t>(rank())};
    retry([&] { handle.store_words((rank() + 1) % handle.world_size(), fill, on); });
    retry([&] { handle.barrier(kStoreChannel, kTestTimeout, on); });
  }

  void submit_local_copy(const Operation& operation, std::optional<StreamId> on) {
    const DeviceAddress from(reinterpret_cast<uint64_t>(own_.scratch.data()));
    const DeviceAddress to(reinterpret_cast<uint64_t>(own_.buffer.data()) + 4 * operation.begin);
    const StreamId in = on ? *on : stream();
    retry_device([&] { return own_.device().copy(to, from, 4 * operation.count, in); });
    if (!on) retry([&] { own_.group.finish(in); });
  }

  // --- comparison

  std::string compare() {
    retry([&] { own_.group.finish(stream()); });
    const auto own = static_cast<size_t>(rank());
    std::string wrong;
    Words found;
    retry([&] { found = own_.read<uint32_t>(kModelWords); });
    if (found != model_.buffers[own]) wrong += "wrong buffer; ";
    retry([&] { found = DeviceRank::read_of<uint32_t>(own_.scratch_handle, rank(), kModelWords); });
    if (found != model_.scratch[own]) wrong += "wrong scratch memory; ";
    if (last_rows_ != nullptr && !are_rows_correct(*last_rows_)) wrong += "wrong rows; ";
    queued_rows_.clear();
    return wrong;
  }

  // Checks the sum of all additions, which are complete when all ranks have finished their streams.
  std::string check_counter() {
    retry([&] { own_.group.barrier(0, kTestTimeout); });
    const int before = (rank() + own_.handle.world_size() - 1) % own_.handle.world_size();
    uint64_t counter = 0;
    retry([&] { counter = own_.handle.counter_value(before, kCounterChannel); });
    return counter == model_.counter ? "" : text("counter ", counter, ", not ", model_.counter);
  }

  bool are_rows_correct(const Rows& rows) const {
    int64_t offset = 0;
    for (size_t from = 0; from < ranks(); ++from) {
      const int64_t sent = rows.splits[from][static_cast<size_t>(rank())];
      if (rows.out_splits[from] != sent || rows.out_offsets[from] != offset) return false;
      offset += sent;
    }
    return true;
  }

  DeviceRank& own_;
  const GraphProgramOptions& options_;
  Random shared_random_;  // the same on all ranks
  Random own_random_;
  const std::array<StreamId, 2> streams_;
  size_t current_stream_ = 0;
  Model model_;
  std::map<int, Graph> graphs_;
  int next_graph_ = 0;
  std::vector<std::shared_ptr<Rows>> queued_rows_;  // to which queued work still writes
  std::shared_ptr<Rows> last_rows_;
  uint64_t replay_count_ = 0;
};

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* given = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  const std::string_view digits = given == nullptr ? "" : given;
  uint64_t number = otherwise;
  (void)std::from_chars(digits.begin(), digits.end(), number);
  return number;
}

}  // namespace

GraphProgramOptions graph_program_options() {
  constexpr uint64_t kReplayCount = 40;
  return {.seed = number_from("ASHLAR_STRESS_SEED", 1),
          .replay_count = number_from("ASHLAR_STRESS_OPERATIONS", kReplayCount)};
}

std::string run_graph_program(DeviceRank& own, const GraphProgramOptions& options) {
  return GraphProgram(own, options).run();
}

GraphId capture_graph(Device& device, StreamId stream, const std::function<void()>& work) {
  throw_if_error(device.begin_capture(stream, CaptureMode::kGlobal));
  work();
  const Result<GraphId> graph = device.end_capture(stream);
  throw_if_error(graph.status());
  return *graph;
}

}  // namespace ashlar::symm
