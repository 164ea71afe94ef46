// SPDX-License-Identifier: Apache-2.0
//
// Tests captures: nodes, fork and join, and launches of graphs. capture_rules_contract.cc tests
// forbidden calls.
#include <algorithm>
#include <atomic>
#include <set>
#include <vector>

#include "device_contract.h"

namespace ashlar::contract {
namespace {

std::set<NodeId> as_set(const std::vector<NodeId>& nodes) { return {nodes.begin(), nodes.end()}; }

}  // namespace

TEST_P(CaptureContract, StateIsNoneOutsideACapture) {
  const CaptureState state = capture_state_of(create_stream());
  EXPECT_EQ(state.status, CaptureStatus::kNone);
  EXPECT_TRUE(state.tail.empty());
}

TEST_P(CaptureContract, RunsCapturedWorkOnlyWhenLaunched) {
  const DeviceAddress address = allocate(4096);
  write(address, Bytes(4096, 1));
  const StreamId stream = create_stream();
  std::atomic<int> calls = 0;
  require_ok(device().begin_capture(stream, CaptureMode::kGlobal));
  require_ok(device().fill(address, 2, 4096, stream));
  require_ok(device().call_host(stream, [&] { ++calls; }));
  const GraphId graph = end_capture(stream);
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 1));
  EXPECT_EQ(calls, 0);
  require_ok(device().launch_graph(graph, stream));
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 2));
  EXPECT_EQ(calls, 1);
}

TEST_P(CaptureContract, LaunchesAGraphRepeatedlyInAnyStream) {
  const DeviceAddress address = allocate(4096);
  uint8_t* host = allocate_pinned_bytes(4096);
  const StreamId stream = create_stream();
  const StreamId elsewhere = create_stream();
  int calls = 0;
  require_ok(device().begin_capture(stream, CaptureMode::kGlobal));
  require_ok(device().copy_to_device(address, host, 4096, stream));
  require_ok(device().call_host(stream, [&] { ++calls; }));
  const GraphId graph = end_capture(stream);
  for (uint8_t value = 1; value <= 3; ++value) {
    std::fill_n(host, 4096, value);
    const StreamId target = value == 2 ? elsewhere : stream;
    require_ok(device().launch_graph(graph, target));
    require_ok(device().synchronize_stream(target));
    EXPECT_EQ(read_back(address, 4096), Bytes(4096, value)) << "host memory is read at launch";
  }
  for (int i = 0; i < 10; ++i) require_ok(device().launch_graph(graph, stream));
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(calls, 13);
}

TEST_P(CaptureContract, LaunchIsOrderedInItsStream) {
  const DeviceAddress address = allocate(4096);
  const DeviceAddress copied = allocate(4096);
  const StreamId stream = create_stream();
  require_ok(device().begin_capture(stream, CaptureMode::kGlobal));
  require_ok(device().fill(address, 2, 4096, stream));
  const GraphId graph = end_capture(stream);
  write(address, Bytes(4096, 0));
  StreamGate& gate = block_stream(stream);
  require_ok(device().fill(address, 1, 4096, stream));
  require_ok(device().launch_graph(graph, stream));
  require_ok(device().copy(copied, address, 4096, stream));
  EXPECT_TRUE(gate.is_closed()) << "launch_graph waited";
  EXPECT_TRUE(stays_busy(stream));
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 0));
  gate.open();
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(read_back(copied, 4096), Bytes(4096, 2));
}

TEST_P(CaptureContract, EmptyCaptureYieldsAnEmptyGraph) {
  const StreamId stream = create_stream();
  require_ok(device().begin_capture(stream, CaptureMode::kGlobal));
  const GraphId graph = end_capture(stream);
  EXPECT_TRUE(ok(device().launch_graph(graph, stream)));
  EXPECT_TRUE(ok(device().synchronize_stream(stream)));
}

TEST_P(CaptureContract, StreamRunsWorkAgainAfterItsCapture) {
  const DeviceAddress address = allocate(4096);
  const StreamId stream = create_stream();
  require_ok(device().begin_capture(stream, CaptureMode::kGlobal));
  require_ok(device().fill(address, 1, 4096, stream));
  end_capture(stream);
  EXPECT_EQ(capture_state_of(stream).status, CaptureStatus::kNone);
  require_ok(device().fill(address, 9, 4096, stream));
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 9));
}

// --- nodes

TEST_P(CaptureContract, StateReportsCaptureAndGraphIds) {
  const DeviceAddress address = allocate(4096);
  const StreamId stream = create_stream();
  require_ok(device().begin_capture(stream, CaptureMode::kGlobal));
  const CaptureState first = capture_state_of(stream);
  EXPECT_EQ(first.status, CaptureStatus::kActive);
  EXPECT_TRUE(first.tail.empty());
  require_ok(device().fill(address, 1, 4096, stream));
  const CaptureState second = capture_state_of(stream);
  EXPECT_EQ(second.capture, first.capture);
  EXPECT_EQ(second.graph, first.graph);
  EXPECT_EQ(end_capture(stream), first.graph);
  require_ok(device().begin_capture(stream, CaptureMode::kGlobal));
  EXPECT_NE(capture_state_of(stream).capture, first.capture);
  EXPECT_NE(end_capture(stream), first.graph);
}

TEST_P(CaptureContract, NodesDependOnTheirPredecessor) {
  const DeviceAddress address = allocate(4096);
  uint8_t* host = allocate_pinned_bytes(64);
  const StreamId stream = create_stream();
  require_ok(device().begin_capture(stream, CaptureMode::kGlobal));
  std::vector<NodeId> chain;
  const auto note_tail = [&] {
    const CaptureState state = capture_state_of(stream);
    ASSERT_EQ(state.tail.size(), 1U);
    chain.push_back(state.tail.front());
  };
  require_ok(device().fill(address, 1, 4096, stream));
  note_tail();
  require_ok(device().copy(address + 64, address, 64, stream));
  note_tail();
  require_ok(device().copy_to_device(address, host, 64, stream));
  note_tail();
  require_ok(device().copy_to_host(host, address, 64, stream));
  note_tail();
  require_ok(device().call_host(stream, [] {}));
  note_tail();
  ASSERT_EQ(chain.size(), 5U);
  EXPECT_EQ(std::set<NodeId>(chain.begin(), chain.end()).size(), 5U);
  const auto expect_chain = [&] {
    EXPECT_TRUE(require_ok(device().node_dependencies(chain[0])).empty());
    for (size_t i = 1; i < chain.size(); ++i) {
      EXPECT_EQ(require_ok(device().node_dependencies(chain[i])),
                std::vector<NodeId>{chain[i - 1]});
    }
  };
  expect_chain();
  const GraphId graph = end_capture(stream);
  expect_chain();
  destroy_now(graph);
  for (const NodeId node : chain) expect_invalid_argument(device().node_dependencies(node));
}

TEST_P(CaptureContract, NodeDependenciesRejectsUnknownNodes) {
  expect_invalid_argument(device().node_dependencies(unknown_id<NodeId>()));
}

// --- fork and join

TEST_P(CaptureContract, ForksAndJoinsAnotherStreamWithEvents) {
  constexpr size_t kBytes = 4096;
  const DeviceAddress a = allocate(3 * kBytes);
  const StreamId main = create_stream();
  const StreamId side = create_stream();
  const EventId fork = create_event();
  const EventId join = create_event();
  require_ok(device().begin_capture(main, CaptureMode::kGlobal));
  require_ok(device().fill(a, 1, kBytes, main));
  const NodeId root = capture_state_of(main).tail.at(0);
  require_ok(device().record_event(fork, main));
  EXPECT_EQ(capture_state_of(side).status, CaptureStatus::kNone);
  require_ok(device().wait_event(side, fork));
  const CaptureState joined = capture_state_of(side);
  EXPECT_EQ(joined.status, CaptureStatus::kActive);
  EXPECT_EQ(joined.capture, capture_state_of(main).capture);
  EXPECT_EQ(joined.graph, capture_state_of(main).graph);
  EXPECT_EQ(joined.tail, std::vector<NodeId>{root});

  require_ok(device().copy(a + kBytes, a, kBytes, side));
  const NodeId on_side = capture_state_of(side).tail.at(0);
  require_ok(device().call_host(main, [] {}));
  const NodeId on_main = capture_state_of(main).tail.at(0);
  EXPECT_EQ(require_ok(device().node_dependencies(on_side)), std::vector<NodeId>{root});
  EXPECT_EQ(require_ok(device().node_dependencies(on_main)), std::vector<NodeId>{root});

  require_ok(device().record_event(join, side));
  require_ok(device().wait_event(main, join));
  EXPECT_EQ(as_set(capture_state_of(main).tail), (std::set<NodeId>{on_main, on_side}));
  require_ok(device().copy(a + 2 * kBytes, a + kBytes, kBytes, main));
  const NodeId last = capture_state_of(main).tail.at(0);
  EXPECT_EQ(as_set(require_ok(device().node_dependencies(last))),
            (std::set<NodeId>{on_main, on_side}));

  const GraphId graph = end_capture(main);
  EXPECT_EQ(capture_state_of(side).status, CaptureStatus::kNone);
  write(a, Bytes(3 * kBytes, 0));
  require_ok(device().launch_graph(graph, main));
  require_ok(device().synchronize_stream(main));
  EXPECT_EQ(read_back(a, 3 * kBytes), Bytes(3 * kBytes, 1));
}

TEST_P(CaptureContract, WorkAfterALaunchWaitsForAllBranches) {
  const size_t bytes = granule_bytes();
  const DeviceAddress branch = allocate(bytes);
  const DeviceAddress copied = allocate(bytes);
  const StreamId main = create_stream();
  const StreamId side = create_stream();
  const EventId event = create_event();
  require_ok(device().begin_capture(main, CaptureMode::kGlobal));
  require_ok(device().record_event(event, main));
  require_ok(device().wait_event(side, event));
  require_ok(device().fill(branch, 6, bytes, side));
  require_ok(device().record_event(event, side));
  require_ok(device().wait_event(main, event));
  const GraphId graph = end_capture(main);
  for (int i = 0; i < 10; ++i) {
    write(branch, Bytes(bytes, 0));
    require_ok(device().launch_graph(graph, main));
    require_ok(device().copy(copied, branch, bytes, main));
    require_ok(device().synchronize_stream(main));
    ASSERT_EQ(read_back(copied, bytes), Bytes(bytes, 6)) << i;
  }
}

TEST_P(CaptureContract, EndFailsWhenAForkedStreamIsNotJoined) {
  const DeviceAddress address = allocate(4096);
  write(address, Bytes(4096, 1));
  const StreamId main = create_stream();
  const StreamId side = create_stream();
  const EventId fork = create_event();
  require_ok(device().begin_capture(main, CaptureMode::kGlobal));
  require_ok(device().record_event(fork, main));
  require_ok(device().wait_event(side, fork));
  require_ok(device().fill(address, 2, 4096, side));
  expect_invalid_argument(device().end_capture(main));
  EXPECT_EQ(capture_state_of(main).status, CaptureStatus::kNone) << "the capture must end";
  EXPECT_EQ(capture_state_of(side).status, CaptureStatus::kNone);
  require_ok(device().synchronize_device());
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 1));
}

TEST_P(CaptureContract, EndFailsWhenWorkFollowsTheJoiningEvent) {
  const DeviceAddress address = allocate(4096);
  const StreamId main = create_stream();
  const StreamId side = create_stream();
  const EventId event = create_event();
  require_ok(device().begin_capture(main, CaptureMode::kGlobal));
  require_ok(device().record_event(event, main));
  require_ok(device().wait_event(side, event));
  require_ok(device().fill(address, 2, 4096, side));
  require_ok(device().record_event(event, side));
  require_ok(device().fill(address, 3, 4096, side));
  require_ok(device().wait_event(main, event));
  expect_invalid_argument(device().end_capture(main));
  EXPECT_EQ(capture_state_of(side).status, CaptureStatus::kNone);
}

TEST_P(CaptureContract, RecordingAnEventAloneJoinsNoStream) {
  const StreamId main = create_stream();
  const StreamId side = create_stream();
  require_ok(device().begin_capture(main, CaptureMode::kGlobal));
  require_ok(device().record_event(create_event(), main));
  EXPECT_EQ(capture_state_of(side).status, CaptureStatus::kNone);
  end_capture(main);
}

// --- graphs

TEST_P(CaptureContract, QueuedLaunchOutlivesItsGraph) {
  const DeviceAddress address = allocate(4096);
  write(address, Bytes(4096, 1));
  const StreamId stream = create_stream();
  require_ok(device().begin_capture(stream, CaptureMode::kGlobal));
  require_ok(device().fill(address, 2, 4096, stream));
  const GraphId graph = end_capture(stream);
  StreamGate& gate = block_stream(stream);
  require_ok(device().launch_graph(graph, stream));
  destroy_now(graph);
  EXPECT_TRUE(gate.is_closed()) << "destroy_graph waited";
  expect_invalid_argument(device().launch_graph(graph, stream));
  gate.open();
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 2));
}

TEST_P(CaptureContract, LaunchAndDestroyRejectUnknownAndDestroyedGraphs) {
  const StreamId stream = create_stream();
  require_ok(device().begin_capture(stream, CaptureMode::kGlobal));
  const GraphId destroyed = require_ok(device().end_capture(stream));
  require_ok(device().destroy_graph(destroyed));
  const MemoryUnchangedCheck unchanged(*this);
  for (const GraphId graph : {unknown_id<GraphId>(), destroyed}) {
    expect_invalid_argument(device().launch_graph(graph, stream));
    expect_invalid_argument(device().destroy_graph(graph));
  }
  EXPECT_TRUE(require_ok(device().is_idle(stream)));
}

TEST_P(CaptureContract, RejectsAnotherDevicesGraph) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const StreamId mine = create_stream();
  const DeviceAddress address = allocate(4096);
  require_ok(device().begin_capture(mine, CaptureMode::kGlobal));
  require_ok(device().fill(address, 5, 4096, mine));
  const NodeId node = capture_state_of(mine).tail.at(0);
  const GraphId graph = end_capture(mine);
  const StreamId theirs = create_stream(other());
  expect_error(StatusKind::kInvalidArgument, other(), other().launch_graph(graph, theirs));
  expect_error(StatusKind::kInvalidArgument, other(), other().destroy_graph(graph));
  expect_error(StatusKind::kInvalidArgument, other(), other().node_dependencies(node));
  require_ok(device().launch_graph(graph, mine));
  require_ok(device().synchronize_stream(mine));
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 5));
}

TEST_P(CaptureContract, RejectsLaunchOfAGraphStillBeingCaptured) {
  const StreamId stream = create_stream();
  const StreamId elsewhere = create_stream();
  require_ok(device().begin_capture(stream, CaptureMode::kGlobal));
  expect_invalid_argument(device().launch_graph(capture_state_of(stream).graph, elsewhere));
  EXPECT_EQ(capture_state_of(stream).status, CaptureStatus::kActive);
  const GraphId graph = end_capture(stream);
  EXPECT_TRUE(ok(device().launch_graph(graph, elsewhere)));
}

}  // namespace ashlar::contract
