// SPDX-License-Identifier: Apache-2.0
//
// Tests peer access to plain memory, and copies between devices. mapping_contract.cc tests access
// to mapped memory.
#include "device_contract.h"

namespace ashlar::contract {

TEST_P(PeersContract, DeviceIsNotItsOwnPeer) {
  EXPECT_FALSE(require_ok(device().can_access_peer(properties().index)));
  expect_error(StatusKind::kUnsupported, device(), device().enable_peer_access(properties().index));
}

TEST_P(PeersContract, RejectsUnknownPeers) {
  const DeviceAddress mine = allocate(granule_bytes());
  const MemoryUnchangedCheck unchanged(*this);
  for (const DeviceIndex unknown : {DeviceIndex(device_count()), unknown_id<DeviceIndex>()}) {
    expect_invalid_argument(device().can_access_peer(unknown));
    expect_invalid_argument(device().enable_peer_access(unknown));
    expect_invalid_argument(device().disable_peer_access(unknown));
    expect_invalid_argument(device().copy_to_peer(unknown, mine + 256, mine, 256, create_stream()));
  }
}

TEST_P(PeersContract, EnableIsUnsupportedWithoutPeerAccess) {
  const DeviceIndex peer = other().properties().index;
  if (require_ok(device().can_access_peer(peer))) GTEST_SKIP() << "the devices have peer access";
  expect_error(StatusKind::kUnsupported, device(), device().enable_peer_access(peer));
}

TEST_P(PeersContract, PeerMemoryIsAccessibleOnlyWhileEnabled) {
  const DeviceIndex peer = other().properties().index;
  if (!require_ok(device().can_access_peer(peer))) GTEST_SKIP() << "no peer access";
  const StreamId stream = create_stream();
  const DeviceAddress before = allocate(granule_bytes(), other());
  write(before, pattern(512, 3), other());
  uint8_t* host = allocate_pinned_bytes(512);
  expect_invalid_argument(device().copy_to_host(host, before, 512, stream));
  expect_invalid_argument(device().fill(before, 1, 1, stream));

  require_ok(device().enable_peer_access(peer));
  require_ok(device().enable_peer_access(peer));
  const DeviceAddress after = allocate(granule_bytes(), other());
  EXPECT_EQ(read_back(before, 512), pattern(512, 3));
  write(after, pattern(512, 4));
  EXPECT_EQ(read_back(after, 512, other()), pattern(512, 4));

  require_ok(device().disable_peer_access(peer));
  expect_invalid_argument(device().copy_to_host(host, before, 512, stream));
  expect_invalid_argument(device().fill(after, 1, 1, stream));
  EXPECT_EQ(read_back(before, 512, other()), pattern(512, 3));
}

TEST_P(PeersContract, EnablingOneDirectionDoesNotEnableTheOther) {
  const DeviceIndex peer = other().properties().index;
  if (!require_ok(device().can_access_peer(peer))) GTEST_SKIP() << "no peer access";
  const DeviceAddress mine = allocate(granule_bytes());
  const StreamId theirs = create_stream(other());
  require_ok(device().enable_peer_access(peer));
  expect_error(StatusKind::kInvalidArgument, other(), other().fill(mine, 1, 1, theirs));
  require_ok(device().disable_peer_access(peer));
}

TEST_P(PeersContract, CopyBetweenDevicesRequiresPeerAccess) {
  const DeviceIndex peer = other().properties().index;
  if (!require_ok(device().can_access_peer(peer))) GTEST_SKIP() << "no peer access";
  const DeviceAddress mine = allocate(granule_bytes());
  const DeviceAddress theirs = allocate(granule_bytes(), other());
  const StreamId stream = create_stream();
  write(theirs, pattern(1024, 6), other());
  expect_invalid_argument(device().copy(mine, theirs, 1024, stream));
  expect_invalid_argument(device().copy(theirs, mine, 1024, stream));
  require_ok(device().enable_peer_access(peer));
  require_ok(device().copy(mine, theirs, 1024, stream));
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(read_back(mine, 1024), pattern(1024, 6));
  require_ok(device().disable_peer_access(peer));
}

// --- copy_to_peer

TEST_P(PeersContract, CopyToPeerWorksWithoutPeerAccess) {
  const DeviceAddress mine = allocate(granule_bytes());
  const DeviceAddress theirs = allocate(granule_bytes(), other());
  const StreamId stream = create_stream();
  write(mine, pattern(50'001, 12));
  require_ok(device().copy_to_peer(other().properties().index, theirs + 3, mine, 50'001, stream));
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(read_back(theirs + 3, 50'001, other()), pattern(50'001, 12));
}

TEST_P(PeersContract, CopyToPeerRunsInStreamOrder) {
  const size_t bytes = granule_bytes();
  const DeviceAddress mine = allocate(bytes);
  const DeviceAddress theirs = allocate(bytes, other());
  const StreamId stream = create_stream();
  write(theirs, Bytes(bytes, 0), other());
  StreamGate& gate = block_stream(stream);
  require_ok(device().fill(mine, 1, bytes, stream));
  require_ok(device().copy_to_peer(other().properties().index, theirs, mine, bytes, stream));
  require_ok(device().fill(mine, 2, bytes, stream));
  EXPECT_EQ(read_back(theirs, bytes, other()), Bytes(bytes, 0)) << "it ran out of order";
  gate.open();
  require_ok(device().synchronize_stream(stream));
  EXPECT_EQ(read_back(theirs, bytes, other()), Bytes(bytes, 1));
}

TEST_P(PeersContract, CopyToPeerRejectsInvalidRanges) {
  const DeviceIndex peer = other().properties().index;
  const size_t bytes = granule_bytes();
  const DeviceAddress mine = allocate(bytes);
  const DeviceAddress theirs = allocate(bytes, other());
  const DeviceAddress freed = require_ok(device().allocate(bytes));
  require_ok(device().free(freed));
  const StreamId stream = create_stream();
  const DeviceAddress last(UINT64_MAX - 8);
  write(theirs, pattern(512, 2), other());
  {
    const MemoryUnchangedCheck unchanged(*this);
    expect_invalid_argument(device().copy_to_peer(peer, theirs, mine, 0, stream));
    expect_invalid_argument(device().copy_to_peer(peer, theirs, mine, SIZE_MAX, stream));
    expect_invalid_argument(device().copy_to_peer(peer, last, mine, 512, stream));
    expect_invalid_argument(device().copy_to_peer(peer, theirs, last, 512, stream));
    expect_invalid_argument(device().copy_to_peer(peer, {}, mine, 512, stream));
    expect_invalid_argument(device().copy_to_peer(peer, theirs, {}, 512, stream));
    expect_invalid_argument(device().copy_to_peer(peer, theirs, freed, 512, stream));
    expect_invalid_argument(device().copy_to_peer(peer, freed, mine, 512, stream));
    // The first call has a source that this device cannot access, the second a destination that the
    // peer cannot access.
    expect_invalid_argument(device().copy_to_peer(peer, theirs + 1024, theirs, 512, stream));
    expect_invalid_argument(device().copy_to_peer(peer, mine + 1024, mine, 512, stream));
  }
  EXPECT_TRUE(require_ok(device().is_idle(stream)));
  EXPECT_EQ(read_back(theirs, 512, other()), pattern(512, 2));
}

}  // namespace ashlar::contract
