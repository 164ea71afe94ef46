// SPDX-License-Identifier: Apache-2.0
//
// Lists the calls that the child makes, and afterwards runs operations on all ranks.
#include "mp/harness/fork_scenario.h"

#include <unistd.h>

#include <array>
#include <utility>
#include <vector>

#include "mp/child_process.h"

namespace ashlar::symm {
namespace {

// The time after which an alarm ends a child that hangs. Without the alarm, the parent would wait
// forever.
constexpr unsigned kChildSeconds = 60;

struct NamedCall {
  const char* name = "";
  std::function<void()> call{};
};

std::vector<NamedCall> heap_calls(SymmetricRank& own, SymmetricPool& pool, Store& store) {
  return {{"Heap::allocate", [&] { (void)own.heap.allocate(8); }},
          {"Heap::live_count", [&] { (void)own.heap.live_count(); }},
          {"Pool", [&] { const SymmetricPool another(own.heap, {.name = "another"}); }},
          {"Pool::allocate", [&] { (void)pool.allocate(8); }},
          {"Pool::trim", [&] { pool.trim(); }},
          {"Pool::stats", [&] { (void)pool.stats(); }},
          {"Group::join", [&] {
             // This pointer does not own the store, which outlives the call.
             const std::shared_ptr<Store> shared(&store, [](Store*) {});
             (void)Group::join(own.heap, shared, {.job = "refused"});
           }}};
}

std::vector<NamedCall> group_calls(SymmetricRank& own) {
  return {
      {"Group::sub_group", [&] { (void)own.group.sub_group({.ranks = {0}}); }},
      {"Group::barrier", [&] { own.group.barrier(0, kTestTimeout); }},
      {"Group::failure",
       [&] {
         const Status found = own.group.failure();
         if (found.is(StatusKind::kInvalidArgument)) throw InvalidArgument(found);
       }},
      {"Group::finish", [&] { own.group.finish(kDefaultStream); }},
      {"Group::rendezvous", [&] { (void)own.group.rendezvous(own.buffer, kTestTimeout); }},
      {"Group::leave", [&] { own.group.leave(kTestTimeout); }},
  };
}

std::vector<NamedCall> handle_calls(const Handle& handle) {
  static std::array<std::byte, 256> bytes{};
  static const CollectiveOptions out{.out = bytes.data(), .timeout = kTestTimeout};
  static const CollectiveOptions in_place{.timeout = kTestTimeout};
  const AtomicOp add{.kind = AtomicKind::kAdd};
  return {{"put", [&] { handle.put(1, bytes); }},
          {"get", [&] { handle.get(1, bytes); }},
          {"post", [&] { handle.post(1, bytes); }},
          {"post of a step", [&, add] { handle.post(1, add); }},
          {"fetch", [&, add] { (void)handle.fetch(1, add); }},
          {"fence", [&] { handle.fence(); }},
          {"quiet", [&] { handle.quiet(); }},
          {"put_signal", [&] { handle.put_signal(1, 0, kTestTimeout); }},
          {"wait_signal", [&] { handle.wait_signal(1, 0, kTestTimeout); }},
          {"add_signal", [&] { handle.add_signal(1); }},
          {"wait_for_value", [&] { handle.wait_for_value(1, 1, 0, kTestTimeout); }},
          {"counter_value", [&] { (void)handle.counter_value(1); }},
          {"barrier", [&] { handle.barrier(0, kTestTimeout); }},
          {"all_reduce", [&] { handle.all_reduce(1, {}, in_place); }},
          {"one_shot_all_reduce", [&] { handle.one_shot_all_reduce(1, {}, in_place); }},
          {"two_shot_all_reduce", [&] { handle.two_shot_all_reduce(1, {}, in_place); }},
          {"reduce_scatter", [&] { handle.reduce_scatter(1, {}, out); }},
          {"all_gather", [&] { handle.all_gather(bytes.data(), 8, in_place); }},
          {"broadcast", [&] { handle.broadcast(8, 0, in_place); }},
          {"all_to_all", [&] { handle.all_to_all(8, out); }}};
}

std::string find_accepted_calls(const std::vector<NamedCall>& calls) {
  std::string wrong;
  for (const NamedCall& each : calls) {
    std::string message = "nothing";
    try {
      each.call();
    } catch (const InvalidArgument& refused) {
      message = refused.what();
    } catch (const std::exception& other) {
      message = std::string("not an InvalidArgument: ") + other.what();
    }
    if (message.find("after fork") == std::string::npos)
      wrong += text(each.name, ": ", message, "; ");
  }
  return wrong;
}

std::string join_alone() {
  HeapOptions options = SymmetricRank::heap_options();
  Heap heap(options);
  Group alone = Group::join(heap, make_memory_store(), {.job = "child", .timeout = kTestTimeout});
  const SymmetricBuffer buffer = heap.allocate(64);
  const Handle handle = alone.rendezvous(buffer, kTestTimeout);
  handle.all_reduce(1, {}, {.timeout = kTestTimeout});
  alone.leave(kTestTimeout);
  return {};
}

int run_child(SymmetricRank& own, SymmetricPool pool, SymmetricBuffer pool_buffer) {
  ::alarm(kChildSeconds);
  const std::shared_ptr<Store> store = make_memory_store();
  std::string wrong = find_accepted_calls(heap_calls(own, pool, *store));
  wrong += find_accepted_calls(group_calls(own));
  wrong += find_accepted_calls(handle_calls(own.handle));
  pool_buffer.reset();
  { const SymmetricPool last = std::move(pool); }
  { const SymmetricRank last = std::move(own); }
  wrong +=
      error_message([] { (void)join_alone(); }) == "nothing" ? "" : "it cannot join a new group; ";
  if (wrong.empty()) return 0;
  // The child can report errors only through standard error.
  (void)!::write(STDERR_FILENO, wrong.data(), wrong.size());
  return 1;
}

}  // namespace

std::string run_fork_scenario(SymmetricRank& own) {
  SymmetricPool pool(own.heap, {.segment_bytes = 4096});
  SymmetricBuffer pool_buffer = pool.allocate(64);
  own.buffer.as<float>()[0] = 1;
  own.group.barrier(0, kTestTimeout);
  std::string wrong;
  if (own.group.rank() == 0) {
    ChildProcess child(
        [&](int) { return run_child(own, std::move(pool), std::move(pool_buffer)); });
    const int ended = child.wait();
    if (ended != 0) wrong = text("the child exited with ", ended);
  }
  own.group.barrier(0, kTestTimeout);
  own.handle.all_reduce(1, {}, {.timeout = kTestTimeout});
  if (own.buffer.as<float>()[0] != static_cast<float>(own.group.world_size())) {
    wrong += " wrong sum";
  }
  (void)own.group.rendezvous(pool_buffer, kTestTimeout);
  return wrong;
}

}  // namespace ashlar::symm
