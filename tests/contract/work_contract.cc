// SPDX-License-Identifier: Apache-2.0
//
// Tests copies, fills and host functions, and the ranges that they reject. peers_contract.cc tests
// copies to a peer.
#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "device_contract.h"

namespace ashlar::contract {

TEST_P(WorkContract, CopiesMoveExactlyTheirBytesAtAnyAlignment) {
  constexpr size_t kBytes = 70'000;
  const DeviceAddress first = allocate(kBytes);
  const DeviceAddress second = allocate(kBytes);
  const StreamId stream = create_stream();
  const Bytes source = pattern(kBytes, 19);
  for (const size_t bytes : {size_t{1}, size_t{7}, size_t{4096}, size_t{65'537}}) {
    write(first, Bytes(kBytes, 0xee));
    write(second, Bytes(kBytes, 0xdd));
    require_ok(device().copy_to_device(first + 3, source.data() + 5, bytes, stream));
    require_ok(device().copy(second + 11, first + 3, bytes, stream));
    require_ok(device().synchronize_stream(stream));
    Bytes wanted(kBytes, 0xdd);
    std::copy_n(source.begin() + 5, bytes, wanted.begin() + 11);
    EXPECT_EQ(read_back(second, kBytes), wanted) << bytes;
    const Bytes part = read_back(first + 2, bytes + 2);
    EXPECT_EQ(part.front(), 0xee) << bytes;
    EXPECT_EQ(part.back(), 0xee) << bytes;
  }
}

TEST_P(WorkContract, CopyToHostWritesExactlyItsBytes) {
  const DeviceAddress address = allocate(4096);
  write(address, pattern(4096, 1));
  Bytes host(1000, 0xaa);
  const StreamId stream = create_stream();
  require_ok(device().copy_to_host(host.data() + 10, address + 100, 980, stream));
  require_ok(device().synchronize_stream(stream));
  Bytes wanted(1000, 0xaa);
  const Bytes source = pattern(4096, 1);
  std::copy_n(source.begin() + 100, 980, wanted.begin() + 10);
  EXPECT_EQ(host, wanted);
}

TEST_P(WorkContract, FillWritesExactlyItsBytes) {
  constexpr size_t kBytes = 5000;
  const DeviceAddress address = allocate(kBytes);
  const StreamId stream = create_stream();
  for (const uint8_t value : {uint8_t{0}, uint8_t{1}, uint8_t{0xff}}) {
    write(address, Bytes(kBytes, 0x55));
    require_ok(device().fill(address + 1, value, kBytes - 2, stream));
    require_ok(device().synchronize_stream(stream));
    Bytes wanted(kBytes, value);
    wanted.front() = wanted.back() = 0x55;
    EXPECT_EQ(read_back(address, kBytes), wanted);
  }
}

TEST_P(WorkContract, CopyAcceptsAdjacentRanges) {
  const DeviceAddress address = allocate(1024);
  const StreamId stream = create_stream();
  write(address, pattern(1024, 1));
  require_ok(device().copy(address + 512, address, 512, stream));
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(read_back(address + 512, 512), pattern(512, 1));
  write(address, pattern(1024, 2));
  require_ok(device().copy(address, address + 512, 512, stream));
  require_ok(device().synchronize_stream(stream));
  const Bytes all = pattern(1024, 2);
  EXPECT_EQ(read_back(address, 512), Bytes(all.begin() + 512, all.end()));
}

TEST_P(WorkContract, CopyRejectsOverlappingRanges) {
  const DeviceAddress address = allocate(1024);
  const StreamId stream = create_stream();
  write(address, pattern(1024, 1));
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().copy(address, address, 512, stream));
    expect_invalid_argument(device().copy(address + 511, address, 512, stream));
    expect_invalid_argument(device().copy(address, address + 1, 512, stream));
  }
  EXPECT_EQ(read_back(address, 1024), pattern(1024, 1));
}

// --- access to host memory

TEST_P(WorkContract, HostMemoryIsReadWhenTheCopyRuns) {
  const DeviceAddress address = allocate(4096);
  uint8_t* host = allocate_pinned_bytes(4096);
  std::fill_n(host, 4096, uint8_t{1});
  const StreamId stream = create_stream();
  StreamGate& gate = block_stream(stream);
  require_ok(device().copy_to_device(address, host, 4096, stream));
  std::fill_n(host, 4096, uint8_t{2});
  gate.open();
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 2));
}

TEST_P(WorkContract, HostMemoryIsWrittenWhenTheCopyRuns) {
  const DeviceAddress address = allocate(4096);
  write(address, Bytes(4096, 1));
  uint8_t* host = allocate_pinned_bytes(4096);
  std::fill_n(host, 4096, uint8_t{7});
  const StreamId stream = create_stream();
  StreamGate& gate = block_stream(stream);
  require_ok(device().copy_to_host(host, address, 4096, stream));
  EXPECT_TRUE(stays_busy(stream));
  EXPECT_EQ(Bytes(host, host + 4096), Bytes(4096, 7));
  write(address, Bytes(4096, 2));
  gate.open();
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(Bytes(host, host + 4096), Bytes(4096, 2)) << "it read out of order";
}

TEST_P(WorkContract, FillRunsInStreamOrder) {
  const DeviceAddress address = allocate(4096);
  write(address, Bytes(4096, 1));
  const StreamId stream = create_stream();
  StreamGate& gate = block_stream(stream);
  require_ok(device().fill(address, 2, 4096, stream));
  EXPECT_TRUE(stays_busy(stream));
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 1));
  gate.open();
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(read_back(address, 4096), Bytes(4096, 2));
}

TEST_P(WorkContract, HostFunctionRunsOnceInStreamOrder) {
  const StreamId stream = create_stream();
  StreamGate& gate = block_stream(stream);
  std::atomic<int> runs = 0;
  require_ok(device().call_host(stream, [&] { ++runs; }));
  EXPECT_TRUE(stays_busy(stream));
  EXPECT_EQ(runs, 0);
  gate.open();
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(runs, 1);
}

TEST_P(WorkContract, RejectsNullHostMemoryAndEmptyFunctions) {
  const DeviceAddress address = allocate(4096);
  const StreamId stream = create_stream();
  write(address, pattern(4096, 1));
  expect_invalid_argument(device().copy_to_device(address, nullptr, 4096, stream));
  expect_invalid_argument(device().copy_to_host(nullptr, address, 4096, stream));
  expect_invalid_argument(device().call_host(stream, {}));
  EXPECT_TRUE(require_ok(device().is_idle(stream)));
  EXPECT_EQ(read_back(address, 4096), pattern(4096, 1));
}

// --- invalid ranges

struct WrongRange {
  std::string what;
  AddressRange range;
};

// Expects that fills and copies on one device reject `wrong`, both as source and as destination.
void expect_range_is_refused(Device& device, const AddressRange& wrong, DeviceAddress good,
                             StreamId stream, const std::function<void(const Status&)>& expect) {
  Bytes host(1 << 16);
  expect(device.fill(wrong.begin, 0xbd, wrong.bytes, stream));
  expect(device.copy_to_device(wrong.begin, host.data(), wrong.bytes, stream));
  expect(device.copy_to_host(host.data(), wrong.begin, wrong.bytes, stream));
  expect(device.copy(wrong.begin, good, wrong.bytes, stream));
  expect(device.copy(good, wrong.begin, wrong.bytes, stream));
}

TEST_P(WorkContract, RejectsUnmappedRanges) {
  const size_t bytes = 8192;
  const DeviceAddress good = allocate(bytes);
  const DeviceAddress target = allocate(bytes);
  const DeviceAddress freed = require_ok(device().allocate(bytes));
  require_ok(device().free(freed));
  write(good, pattern(bytes, 1));
  write(target, pattern(bytes, 2));
  const StreamId stream = create_stream();
  const std::vector<WrongRange> all = {
      {"no bytes", {good, 0}},
      {"nowhere", {{}, 16}},
      {"more than the whole device", {good, properties().capacity_bytes * 4}},
      {"overflow", {good, SIZE_MAX}},
      {"overflow by one", {good, SIZE_MAX - good.value() + 2}},
      {"the last bytes of all", {DeviceAddress(UINT64_MAX - 15), 16}},
      {"past the last byte of all", {DeviceAddress(UINT64_MAX - 15), 4096}},
      {"freed", {freed, 16}},
  };
  {
    const MemoryUnchangedCheck unchanged(*this);
    for (const WrongRange& wrong : all) {
      SCOPED_TRACE(wrong.what);
      expect_range_is_refused(device(), wrong.range, target, stream,
                              [this](const Status& status) { expect_invalid_argument(status); });
    }
  }
  EXPECT_TRUE(require_ok(device().is_idle(stream))) << "rejected work was queued";
  EXPECT_EQ(read_back(good, bytes), pattern(bytes, 1));
  EXPECT_EQ(read_back(target, bytes), pattern(bytes, 2));
}

TEST_P(WorkContract, RejectsRangesBeyondAnAllocation) {
  const size_t bytes = granule_bytes();
  const DeviceAddress address = allocate(bytes);
  const DeviceAddress target = allocate(2 * bytes);
  if (require_ok(device().describe(address + bytes)).kind != MemoryKind::kUnknown) {
    GTEST_SKIP() << "another allocation follows directly";
  }
  expect_range_is_refused(device(), {address, bytes + 1}, target, create_stream(),
                          [this](const Status& status) { expect_invalid_argument(status); });
}

TEST_P(WorkContract, RejectsPartlyMappedOrInaccessibleRanges) {
  if (!properties().has_virtual_memory) GTEST_SKIP() << "the device has no virtual memory";
  const size_t granule = granule_bytes();
  const DeviceAddress begin = reserve(4 * granule);
  map_accessible(begin, create(granule), granule);
  require_ok(device().map(begin + 2 * granule, create(granule)));
  track_mapping({begin + 2 * granule, granule});
  map_accessible(begin + 3 * granule, create(granule), granule);
  const DeviceAddress target = allocate(4 * granule);
  write(begin, pattern(4096, 3));
  const StreamId stream = create_stream();
  const std::vector<WrongRange> all = {
      {"reserved only", {begin + granule, 16}},
      {"half of it reserved only", {begin + (granule - 8), 16}},
      {"begins where nothing is mapped", {begin + (2 * granule - 8), 16}},
      {"mapped without access", {begin + 2 * granule, 16}},
      {"half of it without access", {begin + (3 * granule - 8), 16}},
      {"a hole in the middle", {begin, 4 * granule}},
      {"leaves the reservation", {begin + (4 * granule - 8), 16}},
  };
  {
    const MemoryUnchangedCheck unchanged(*this);
    for (const WrongRange& wrong : all) {
      SCOPED_TRACE(wrong.what);
      expect_range_is_refused(device(), wrong.range, target, stream,
                              [this](const Status& status) { expect_invalid_argument(status); });
    }
  }
  EXPECT_EQ(read_back(begin, 4096), pattern(4096, 3));
  EXPECT_TRUE(is_usable(begin + 3 * granule));
}

TEST_P(WorkContract, RejectsPeerMemoryWithoutPeerAccess) {
  if (!has_other()) GTEST_SKIP() << kNeedsTwoDevices;
  const DeviceAddress target = allocate(4096);
  const DeviceAddress theirs = allocate(4096, other());
  write(theirs, pattern(4096, 30), other());
  expect_range_is_refused(device(), {theirs, 4096}, target, create_stream(),
                          [this](const Status& status) { expect_invalid_argument(status); });
  EXPECT_EQ(read_back(theirs, 4096, other()), pattern(4096, 30));
}

}  // namespace ashlar::contract
