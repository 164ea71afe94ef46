// SPDX-License-Identifier: Apache-2.0
//
// Capture: how work becomes a graph, how streams join and leave, and what a graph does when it is
// launched. What a capture forbids is in capture_rules_contract.cc.
#include <algorithm>
#include <atomic>
#include <set>
#include <vector>

#include "device_contract.h"

namespace ashlar::contract {
namespace {

std::set<NodeId> as_set(const std::vector<NodeId>& nodes) { return {nodes.begin(), nodes.end()}; }

}  // namespace

TEST_P(CaptureContract, AStreamOutsideOfACaptureSaysSo) {
  const CaptureState state = state_of(new_stream());
  EXPECT_EQ(state.status, CaptureStatus::kNone);
  EXPECT_TRUE(state.tail.empty());
}

TEST_P(CaptureContract, CapturedWorkRunsWhenLaunchedAndNotBefore) {
  const DeviceAddress address = allocated(4096);
  write(address, Bytes(4096, 1));
  const StreamId stream = new_stream();
  std::atomic<int> calls = 0;
  must(device().begin_capture(stream, CaptureMode::kGlobal));
  must(device().fill(address, 2, 4096, stream));
  must(device().call_host(stream, [&] { ++calls; }));
  const GraphId graph = captured(stream);
  must(device().synchronize_stream(stream));
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 1));
  EXPECT_EQ(calls, 0);
  must(device().launch_graph(graph, stream));
  must(device().synchronize_stream(stream));
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 2));
  EXPECT_EQ(calls, 1);
}

TEST_P(CaptureContract, AGraphIsLaunchedAnyNumberOfTimesInAnyStream) {
  const DeviceAddress address = allocated(4096);
  uint8_t* host = pinned_bytes(4096);
  const StreamId stream = new_stream();
  const StreamId elsewhere = new_stream();
  int calls = 0;
  must(device().begin_capture(stream, CaptureMode::kGlobal));
  must(device().copy_to_device(address, host, 4096, stream));
  must(device().call_host(stream, [&] { ++calls; }));
  const GraphId graph = captured(stream);
  for (uint8_t value = 1; value <= 3; ++value) {
    std::fill_n(host, 4096, value);
    const StreamId target = value == 2 ? elsewhere : stream;
    must(device().launch_graph(graph, target));
    must(device().synchronize_stream(target));
    EXPECT_EQ(read_back(address, 4096), Bytes(4096, value)) << "host memory is read at launch";
  }
  for (int i = 0; i < 10; ++i) must(device().launch_graph(graph, stream));
  must(device().synchronize_stream(stream));
  EXPECT_EQ(calls, 13);
}

TEST_P(CaptureContract, ALaunchTakesItsTurnInTheStream) {
  const DeviceAddress address = allocated(4096);
  const DeviceAddress copied = allocated(4096);
  const StreamId stream = new_stream();
  must(device().begin_capture(stream, CaptureMode::kGlobal));
  must(device().fill(address, 2, 4096, stream));
  const GraphId graph = captured(stream);
  write(address, Bytes(4096, 0));
  Gate& gate = hold(stream);
  must(device().fill(address, 1, 4096, stream));
  must(device().launch_graph(graph, stream));
  must(device().copy(copied, address, 4096, stream));
  EXPECT_TRUE(gate.is_closed()) << "launch_graph waited";
  EXPECT_TRUE(stays_busy(stream));
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 0));
  gate.open();
  must(device().synchronize_stream(stream));
  EXPECT_EQ(read_back(copied, 4096), Bytes(4096, 2));
}

TEST_P(CaptureContract, AnEmptyCaptureGivesAGraphThatDoesNothing) {
  const StreamId stream = new_stream();
  must(device().begin_capture(stream, CaptureMode::kGlobal));
  const GraphId graph = captured(stream);
  EXPECT_TRUE(ok(device().launch_graph(graph, stream)));
  EXPECT_TRUE(ok(device().synchronize_stream(stream)));
}

TEST_P(CaptureContract, AStreamWorksAsBeforeAfterItsCapture) {
  const DeviceAddress address = allocated(4096);
  const StreamId stream = new_stream();
  must(device().begin_capture(stream, CaptureMode::kGlobal));
  must(device().fill(address, 1, 4096, stream));
  captured(stream);
  EXPECT_EQ(state_of(stream).status, CaptureStatus::kNone);
  must(device().fill(address, 9, 4096, stream));
  must(device().synchronize_stream(stream));
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 9));
}

// --- nodes --------------------------------------------------------------------------------------

TEST_P(CaptureContract, TheStateNamesTheCaptureAndTheGraphToBe) {
  const DeviceAddress address = allocated(4096);
  const StreamId stream = new_stream();
  must(device().begin_capture(stream, CaptureMode::kGlobal));
  const CaptureState first = state_of(stream);
  EXPECT_EQ(first.status, CaptureStatus::kActive);
  EXPECT_TRUE(first.tail.empty());
  must(device().fill(address, 1, 4096, stream));
  const CaptureState second = state_of(stream);
  EXPECT_EQ(second.capture, first.capture);
  EXPECT_EQ(second.graph, first.graph);
  EXPECT_EQ(captured(stream), first.graph);
  must(device().begin_capture(stream, CaptureMode::kGlobal));
  EXPECT_NE(state_of(stream).capture, first.capture);
  EXPECT_NE(captured(stream), first.graph);
}

TEST_P(CaptureContract, EachPieceOfWorkDependsOnTheOneBeforeIt) {
  const DeviceAddress address = allocated(4096);
  uint8_t* host = pinned_bytes(64);
  const StreamId stream = new_stream();
  must(device().begin_capture(stream, CaptureMode::kGlobal));
  std::vector<NodeId> chain;
  const auto note_tail = [&] {
    const CaptureState state = state_of(stream);
    ASSERT_EQ(state.tail.size(), 1U);
    chain.push_back(state.tail.front());
  };
  must(device().fill(address, 1, 4096, stream));
  note_tail();
  must(device().copy(address + 64, address, 64, stream));
  note_tail();
  must(device().copy_to_device(address, host, 64, stream));
  note_tail();
  must(device().copy_to_host(host, address, 64, stream));
  note_tail();
  must(device().call_host(stream, [] {}));
  note_tail();
  ASSERT_EQ(chain.size(), 5U);
  EXPECT_EQ(std::set<NodeId>(chain.begin(), chain.end()).size(), 5U);
  const auto expect_chain = [&] {
    EXPECT_TRUE(must(device().node_dependencies(chain[0])).empty());
    for (size_t i = 1; i < chain.size(); ++i) {
      EXPECT_EQ(must(device().node_dependencies(chain[i])), std::vector<NodeId>{chain[i - 1]});
    }
  };
  expect_chain();
  const GraphId graph = captured(stream);
  expect_chain();
  destroy_now(graph);
  for (const NodeId node : chain) expect_usage(device().node_dependencies(node));
}

TEST_P(CaptureContract, NodeDependenciesRefusesANodeThatNeverWas) {
  expect_usage(device().node_dependencies(never_given<NodeId>()));
}

// --- fork and join ------------------------------------------------------------------------------

TEST_P(CaptureContract, AnotherStreamJoinsByAnEventAndIsJoinedBackByAnother) {
  constexpr size_t kBytes = 4096;
  const DeviceAddress a = allocated(3 * kBytes);
  const StreamId main = new_stream();
  const StreamId side = new_stream();
  const EventId fork = new_event();
  const EventId join = new_event();
  must(device().begin_capture(main, CaptureMode::kGlobal));
  must(device().fill(a, 1, kBytes, main));
  const NodeId root = state_of(main).tail.at(0);
  must(device().record_event(fork, main));
  EXPECT_EQ(state_of(side).status, CaptureStatus::kNone);
  must(device().wait_event(side, fork));
  const CaptureState joined = state_of(side);
  EXPECT_EQ(joined.status, CaptureStatus::kActive);
  EXPECT_EQ(joined.capture, state_of(main).capture);
  EXPECT_EQ(joined.graph, state_of(main).graph);
  EXPECT_EQ(joined.tail, std::vector<NodeId>{root});

  must(device().copy(a + kBytes, a, kBytes, side));
  const NodeId on_side = state_of(side).tail.at(0);
  must(device().call_host(main, [] {}));
  const NodeId on_main = state_of(main).tail.at(0);
  EXPECT_EQ(must(device().node_dependencies(on_side)), std::vector<NodeId>{root});
  EXPECT_EQ(must(device().node_dependencies(on_main)), std::vector<NodeId>{root});

  must(device().record_event(join, side));
  must(device().wait_event(main, join));
  EXPECT_EQ(as_set(state_of(main).tail), (std::set<NodeId>{on_main, on_side}));
  must(device().copy(a + 2 * kBytes, a + kBytes, kBytes, main));
  const NodeId last = state_of(main).tail.at(0);
  EXPECT_EQ(as_set(must(device().node_dependencies(last))), (std::set<NodeId>{on_main, on_side}));

  const GraphId graph = captured(main);
  EXPECT_EQ(state_of(side).status, CaptureStatus::kNone);
  write(a, Bytes(3 * kBytes, 0));
  must(device().launch_graph(graph, main));
  must(device().synchronize_stream(main));
  EXPECT_EQ(read_back(a, 3 * kBytes), Bytes(3 * kBytes, 1));
}

TEST_P(CaptureContract, WorkBehindALaunchWaitsForAllBranchesOfTheGraph) {
  const size_t bytes = granule_bytes();
  const DeviceAddress branch = allocated(bytes);
  const DeviceAddress copied = allocated(bytes);
  const StreamId main = new_stream();
  const StreamId side = new_stream();
  const EventId event = new_event();
  must(device().begin_capture(main, CaptureMode::kGlobal));
  must(device().record_event(event, main));
  must(device().wait_event(side, event));
  must(device().fill(branch, 6, bytes, side));
  must(device().record_event(event, side));
  must(device().wait_event(main, event));
  const GraphId graph = captured(main);
  for (int i = 0; i < 10; ++i) {
    write(branch, Bytes(bytes, 0));
    must(device().launch_graph(graph, main));
    must(device().copy(copied, branch, bytes, main));
    must(device().synchronize_stream(main));
    ASSERT_EQ(read_back(copied, bytes), Bytes(bytes, 6)) << i;
  }
}

TEST_P(CaptureContract, AStreamThatWasNotJoinedBackSpoilsTheCapture) {
  const DeviceAddress address = allocated(4096);
  write(address, Bytes(4096, 1));
  const StreamId main = new_stream();
  const StreamId side = new_stream();
  const EventId fork = new_event();
  must(device().begin_capture(main, CaptureMode::kGlobal));
  must(device().record_event(fork, main));
  must(device().wait_event(side, fork));
  must(device().fill(address, 2, 4096, side));
  expect_usage(device().end_capture(main));
  EXPECT_EQ(state_of(main).status, CaptureStatus::kNone) << "it ended all the same";
  EXPECT_EQ(state_of(side).status, CaptureStatus::kNone);
  must(device().synchronize_device());
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 1));
}

TEST_P(CaptureContract, WorkAfterTheJoiningEventIsNotJoined) {
  const DeviceAddress address = allocated(4096);
  const StreamId main = new_stream();
  const StreamId side = new_stream();
  const EventId event = new_event();
  must(device().begin_capture(main, CaptureMode::kGlobal));
  must(device().record_event(event, main));
  must(device().wait_event(side, event));
  must(device().fill(address, 2, 4096, side));
  must(device().record_event(event, side));
  must(device().fill(address, 3, 4096, side));
  must(device().wait_event(main, event));
  expect_usage(device().end_capture(main));
  EXPECT_EQ(state_of(side).status, CaptureStatus::kNone);
}

TEST_P(CaptureContract, AnEventRecordedInACaptureJoinsNobodyByItself) {
  const StreamId main = new_stream();
  const StreamId side = new_stream();
  must(device().begin_capture(main, CaptureMode::kGlobal));
  must(device().record_event(new_event(), main));
  EXPECT_EQ(state_of(side).status, CaptureStatus::kNone);
  captured(main);
}

// --- graphs -------------------------------------------------------------------------------------

TEST_P(CaptureContract, ALaunchOutlivesItsGraph) {
  const DeviceAddress address = allocated(4096);
  write(address, Bytes(4096, 1));
  const StreamId stream = new_stream();
  must(device().begin_capture(stream, CaptureMode::kGlobal));
  must(device().fill(address, 2, 4096, stream));
  const GraphId graph = captured(stream);
  Gate& gate = hold(stream);
  must(device().launch_graph(graph, stream));
  destroy_now(graph);
  EXPECT_TRUE(gate.is_closed()) << "destroy_graph waited";
  expect_usage(device().launch_graph(graph, stream));
  gate.open();
  must(device().synchronize_stream(stream));
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 2));
}

TEST_P(CaptureContract, LaunchAndDestroyRefuseForeignAndDestroyedGraphs) {
  const StreamId stream = new_stream();
  must(device().begin_capture(stream, CaptureMode::kGlobal));
  const GraphId destroyed = must(device().end_capture(stream));
  must(device().destroy_graph(destroyed));
  const Untouched untouched(*this);
  for (const GraphId graph : {never_given<GraphId>(), destroyed}) {
    expect_usage(device().launch_graph(graph, stream));
    expect_usage(device().destroy_graph(graph));
  }
  EXPECT_TRUE(must(device().is_idle(stream)));
}

TEST_P(CaptureContract, AnotherDevicesGraphIsRefused) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const StreamId mine = new_stream();
  const DeviceAddress address = allocated(4096);
  must(device().begin_capture(mine, CaptureMode::kGlobal));
  must(device().fill(address, 5, 4096, mine));
  const NodeId node = state_of(mine).tail.at(0);
  const GraphId graph = captured(mine);
  const StreamId theirs = new_stream(other());
  expect_refused(StatusKind::kInvalidArgument, other(), other().launch_graph(graph, theirs));
  expect_refused(StatusKind::kInvalidArgument, other(), other().destroy_graph(graph));
  expect_refused(StatusKind::kInvalidArgument, other(), other().node_dependencies(node));
  must(device().launch_graph(graph, mine));
  must(device().synchronize_stream(mine));
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 5));
}

TEST_P(CaptureContract, AGraphThatIsStillBeingBuiltCannotBeLaunched) {
  const StreamId stream = new_stream();
  const StreamId elsewhere = new_stream();
  must(device().begin_capture(stream, CaptureMode::kGlobal));
  expect_usage(device().launch_graph(state_of(stream).graph, elsewhere));
  EXPECT_EQ(state_of(stream).status, CaptureStatus::kActive);
  const GraphId graph = captured(stream);
  EXPECT_TRUE(ok(device().launch_graph(graph, elsewhere)));
}

}  // namespace ashlar::contract
