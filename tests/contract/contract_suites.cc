// SPDX-License-Identifier: Apache-2.0
//
// Implements the fixtures of the suites, except CaptureRulesContract (capture_rules_contract.cc).
// SetUp() skips the tests of a suite if the device lacks the capability that they need.
#include "device_contract.h"

namespace ashlar::contract {

void VirtualMemoryContract::SetUp() {
  DeviceContract::SetUp();
  if (IsSkipped() || HasFatalFailure()) return;
  if (!properties().has_virtual_memory) GTEST_SKIP() << "the device has no virtual memory";
}

void PeersContract::SetUp() {
  DeviceContract::SetUp();
  if (IsSkipped() || HasFatalFailure()) return;
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
}

void PoolContract::SetUp() {
  DeviceContract::SetUp();
  if (IsSkipped() || HasFatalFailure()) return;
  if (!properties().has_stream_ordered_pool) {
    GTEST_SKIP() << "the device has no stream-ordered pool";
  }
}

DeviceAddress PoolContract::allocate_async(size_t bytes, StreamId stream) {
  const DeviceAddress address = require_ok(device().allocate_async(bytes, stream));
  track(Kind::kPoolMemory, device(), address.value(),
        [this, address] { return device().free_async(address, kDefaultStream); });
  return address;
}

void PoolContract::free_async_now(DeviceAddress address, StreamId stream) {
  require_ok(device().free_async(address, stream));
  untrack(Kind::kPoolMemory, device(), address.value());
}

void CaptureContract::SetUp() {
  DeviceContract::SetUp();
  if (IsSkipped() || HasFatalFailure()) return;
  if (!properties().has_capture) GTEST_SKIP() << "the device cannot capture";
}

GraphId CaptureContract::end_capture(StreamId stream) {
  const GraphId graph = require_ok(device().end_capture(stream));
  track(Kind::kGraph, device(), graph.value(),
        [this, graph] { return device().destroy_graph(graph); });
  return graph;
}

void CaptureContract::destroy_now(GraphId graph) {
  require_ok(device().destroy_graph(graph));
  untrack(Kind::kGraph, device(), graph.value());
}

CaptureState CaptureContract::capture_state_of(StreamId stream) {
  return require_ok(device().capture_state(stream));
}

}  // namespace ashlar::contract
