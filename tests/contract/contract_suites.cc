// SPDX-License-Identifier: Apache-2.0
//
// What the suites of single groups add to the fixture: when they skip, and the things that only
// they obtain and take back.
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
  if (!properties().has_stream_pool) GTEST_SKIP() << "the device has no stream-ordered pool";
}

DeviceAddress PoolContract::allocated_async(size_t bytes, StreamId stream) {
  const DeviceAddress address = must(device().allocate_async(bytes, stream));
  keep(Kind::kPoolMemory, device(), address.value(),
       [this, address] { return device().free_async(address, kDefaultStream); });
  return address;
}

void PoolContract::free_async_now(DeviceAddress address, StreamId stream) {
  must(device().free_async(address, stream));
  forget(Kind::kPoolMemory, device(), address.value());
}

void CaptureContract::SetUp() {
  DeviceContract::SetUp();
  if (IsSkipped() || HasFatalFailure()) return;
  if (!properties().has_capture) GTEST_SKIP() << "the device cannot capture";
}

GraphId CaptureContract::captured(StreamId stream) {
  const GraphId graph = must(device().end_capture(stream));
  keep(Kind::kGraph, device(), graph.value(),
       [this, graph] { return device().destroy_graph(graph); });
  return graph;
}

void CaptureContract::destroy_now(GraphId graph) {
  must(device().destroy_graph(graph));
  forget(Kind::kGraph, device(), graph.value());
}

CaptureState CaptureContract::state_of(StreamId stream) {
  return must(device().capture_state(stream));
}

}  // namespace ashlar::contract
