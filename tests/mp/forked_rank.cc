// SPDX-License-Identifier: Apache-2.0
//
// What the child tries, and what the parent does afterwards.
#include "mp/forked_rank.h"

#include <unistd.h>

#include <array>
#include <utility>
#include <vector>

#include "mp/child_process.h"

namespace ashlar::symm {
namespace {

// A child that does not return would keep its parent waiting for ever.
constexpr unsigned kChildSeconds = 60;

struct NamedCall {
  const char* name = "";
  std::function<void()> call{};
};

std::vector<NamedCall> calls_of_a_heap(SymmetricRank& own, Pool& pool, Store& store) {
  return {{"Heap::allocate", [&] { (void)own.heap.allocate(8); }},
          {"Heap::live_count", [&] { (void)own.heap.live_count(); }},
          {"Pool", [&] { const Pool another(own.heap, {.name = "another"}); }},
          {"Pool::allocate", [&] { (void)pool.allocate(8); }},
          {"Pool::trim", [&] { pool.trim(); }},
          {"Pool::stats", [&] { (void)pool.stats(); }},
          {"Group::join", [&] {
             // Not owned: it outlives the call.
             const std::shared_ptr<Store> shared(&store, [](Store*) {});
             (void)Group::join(own.heap, shared, {.job = "refused"});
           }}};
}

std::vector<NamedCall> calls_of_a_group(SymmetricRank& own) {
  return {
      {"Group::sub_group", [&] { (void)own.group.sub_group({.ranks = {0}}); }},
      {"Group::barrier", [&] { own.group.barrier(0, kPatience); }},
      {"Group::failure",
       [&] {
         const Status found = own.group.failure();
         if (found.is(StatusKind::kInvalidArgument)) throw InvalidArgument(found);
       }},
      {"Group::finish", [&] { own.group.finish(kDefaultStream); }},
      {"Group::rendezvous", [&] { (void)own.group.rendezvous(own.buffer, kPatience); }},
      {"Group::leave", [&] { own.group.leave(kPatience); }},
  };
}

std::vector<NamedCall> calls_of_a_handle(const Handle& handle) {
  static std::array<std::byte, 256> bytes{};
  static const CollectiveOptions out{.out = bytes.data(), .timeout = kPatience};
  static const CollectiveOptions in_place{.timeout = kPatience};
  const AtomicOp add{.kind = AtomicKind::kAdd};
  return {{"put", [&] { handle.put(1, bytes); }},
          {"get", [&] { handle.get(1, bytes); }},
          {"post", [&] { handle.post(1, bytes); }},
          {"post of a step", [&, add] { handle.post(1, add); }},
          {"fetch", [&, add] { (void)handle.fetch(1, add); }},
          {"fence", [&] { handle.fence(); }},
          {"quiet", [&] { handle.quiet(); }},
          {"put_signal", [&] { handle.put_signal(1, 0, kPatience); }},
          {"wait_signal", [&] { handle.wait_signal(1, 0, kPatience); }},
          {"add_signal", [&] { handle.add_signal(1); }},
          {"wait_for_value", [&] { handle.wait_for_value(1, 1, 0, kPatience); }},
          {"counter_value", [&] { (void)handle.counter_value(1); }},
          {"barrier", [&] { handle.barrier(0, kPatience); }},
          {"all_reduce", [&] { handle.all_reduce(1, {}, in_place); }},
          {"one_shot_all_reduce", [&] { handle.one_shot_all_reduce(1, {}, in_place); }},
          {"two_shot_all_reduce", [&] { handle.two_shot_all_reduce(1, {}, in_place); }},
          {"reduce_scatter", [&] { handle.reduce_scatter(1, {}, out); }},
          {"all_gather", [&] { handle.all_gather(bytes.data(), 8, in_place); }},
          {"broadcast", [&] { handle.broadcast(8, 0, in_place); }},
          {"all_to_all", [&] { handle.all_to_all(8, out); }}};
}

std::string find_not_refused(const std::vector<NamedCall>& calls) {
  std::string wrong;
  for (const NamedCall& each : calls) {
    std::string said = "nothing";
    try {
      each.call();
    } catch (const InvalidArgument& refused) {
      said = refused.what();
    } catch (const std::exception& other) {
      said = std::string("no InvalidArgument: ") + other.what();
    }
    if (said.find("after fork") == std::string::npos) wrong += text(each.name, ": ", said, "; ");
  }
  return wrong;
}

std::string join_alone() {
  HeapOptions options = SymmetricRank::heap_options();
  Heap heap(options);
  Group alone = Group::join(heap, make_memory_store(), {.job = "child", .timeout = kPatience});
  const Buffer buffer = heap.allocate(64);
  const Handle handle = alone.rendezvous(buffer, kPatience);
  handle.all_reduce(1, {}, {.timeout = kPatience});
  alone.leave(kPatience);
  return {};
}

int be_a_child(SymmetricRank& own, Pool pool, Buffer carved) {
  ::alarm(kChildSeconds);
  const std::shared_ptr<Store> store = make_memory_store();
  std::string wrong = find_not_refused(calls_of_a_heap(own, pool, *store));
  wrong += find_not_refused(calls_of_a_group(own));
  wrong += find_not_refused(calls_of_a_handle(own.handle));
  carved.reset();
  { const Pool last = std::move(pool); }
  { const SymmetricRank last = std::move(own); }
  wrong += thrown_by([] { (void)join_alone(); }) == "nothing" ? "" : "it cannot join by itself; ";
  if (wrong.empty()) return 0;
  // The one way to be heard.
  (void)!::write(STDERR_FILENO, wrong.data(), wrong.size());
  return 1;
}

}  // namespace

std::string fork_and_go_on(SymmetricRank& own) {
  Pool pool(own.heap, {.segment_bytes = 4096});
  Buffer carved = pool.allocate(64);
  own.buffer.as<float>()[0] = 1;
  own.group.barrier(0, kPatience);
  std::string wrong;
  if (own.group.rank() == 0) {
    ChildProcess child([&](int) { return be_a_child(own, std::move(pool), std::move(carved)); });
    const int ended = child.wait();
    if (ended != 0) wrong = text("the child ended with ", ended);
  }
  own.group.barrier(0, kPatience);
  own.handle.all_reduce(1, {}, {.timeout = kPatience});
  if (own.buffer.as<float>()[0] != static_cast<float>(own.group.world_size())) {
    wrong += " the sum is another";
  }
  (void)own.group.rendezvous(carved, kPatience);
  return wrong;
}

}  // namespace ashlar::symm
