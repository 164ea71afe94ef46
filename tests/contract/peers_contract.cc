// SPDX-License-Identifier: Apache-2.0
//
// Peers: what one device may do with another's plain memory, and copies between the two. Access to
// mapped memory is in mapping_contract.cc.
#include "device_contract.h"

namespace ashlar::contract {

TEST_P(PeersContract, ADeviceIsNotItsOwnPeer) {
  EXPECT_FALSE(must(device().can_access_peer(properties().index)));
  expect_refused(StatusKind::kUnsupported, device(),
                 device().enable_peer_access(properties().index));
}

TEST_P(PeersContract, DevicesThatDoNotExistAreNoPeers) {
  const DeviceAddress mine = allocated(granule_bytes());
  const Untouched untouched(*this);
  for (const DeviceIndex nobody : {DeviceIndex(device_count()), never_given<DeviceIndex>()}) {
    expect_usage(device().can_access_peer(nobody));
    expect_usage(device().enable_peer_access(nobody));
    expect_usage(device().disable_peer_access(nobody));
    expect_usage(device().copy_to_peer(nobody, mine + 256, mine, 256, new_stream()));
  }
}

TEST_P(PeersContract, EnablingIsUnsupportedWhereThereIsNoWay) {
  const DeviceIndex peer = other().properties().index;
  if (must(device().can_access_peer(peer))) GTEST_SKIP() << "the devices can reach each other";
  expect_refused(StatusKind::kUnsupported, device(), device().enable_peer_access(peer));
}

TEST_P(PeersContract, PeerMemoryIsAccessibleExactlyWhileEnabled) {
  const DeviceIndex peer = other().properties().index;
  if (!must(device().can_access_peer(peer))) GTEST_SKIP() << "no peer access";
  const StreamId stream = new_stream();
  const DeviceAddress before = allocated(granule_bytes(), other());
  write(before, pattern(512, 3), other());
  uint8_t* host = pinned_bytes(512);
  expect_usage(device().copy_to_host(host, before, 512, stream));
  expect_usage(device().fill(before, 1, 1, stream));

  must(device().enable_peer_access(peer));
  must(device().enable_peer_access(peer));
  const DeviceAddress after = allocated(granule_bytes(), other());
  EXPECT_EQ(read_back(before, 512), pattern(512, 3));
  write(after, pattern(512, 4));
  EXPECT_EQ(read_back(after, 512, other()), pattern(512, 4));

  must(device().disable_peer_access(peer));
  expect_usage(device().copy_to_host(host, before, 512, stream));
  expect_usage(device().fill(after, 1, 1, stream));
  EXPECT_EQ(read_back(before, 512, other()), pattern(512, 3));
}

TEST_P(PeersContract, EnablingOneDirectionDoesNotEnableTheOther) {
  const DeviceIndex peer = other().properties().index;
  if (!must(device().can_access_peer(peer))) GTEST_SKIP() << "no peer access";
  const DeviceAddress mine = allocated(granule_bytes());
  const StreamId theirs = new_stream(other());
  must(device().enable_peer_access(peer));
  expect_refused(StatusKind::kInvalidArgument, other(), other().fill(mine, 1, 1, theirs));
  must(device().disable_peer_access(peer));
}

TEST_P(PeersContract, CopyBetweenDevicesNeedsPeerAccess) {
  const DeviceIndex peer = other().properties().index;
  if (!must(device().can_access_peer(peer))) GTEST_SKIP() << "no peer access";
  const DeviceAddress mine = allocated(granule_bytes());
  const DeviceAddress theirs = allocated(granule_bytes(), other());
  const StreamId stream = new_stream();
  write(theirs, pattern(1024, 6), other());
  expect_usage(device().copy(mine, theirs, 1024, stream));
  expect_usage(device().copy(theirs, mine, 1024, stream));
  must(device().enable_peer_access(peer));
  must(device().copy(mine, theirs, 1024, stream));
  must(device().synchronize_stream(stream));
  EXPECT_EQ(read_back(mine, 1024), pattern(1024, 6));
  must(device().disable_peer_access(peer));
}

// --- copy_to_peer -------------------------------------------------------------------------------

TEST_P(PeersContract, CopyToPeerNeedsNoPeerAccess) {
  const DeviceAddress mine = allocated(granule_bytes());
  const DeviceAddress theirs = allocated(granule_bytes(), other());
  const StreamId stream = new_stream();
  write(mine, pattern(50'001, 12));
  must(device().copy_to_peer(other().properties().index, theirs + 3, mine, 50'001, stream));
  must(device().synchronize_stream(stream));
  EXPECT_EQ(read_back(theirs + 3, 50'001, other()), pattern(50'001, 12));
}

TEST_P(PeersContract, CopyToPeerRunsInTheOrderOfItsStream) {
  const size_t bytes = granule_bytes();
  const DeviceAddress mine = allocated(bytes);
  const DeviceAddress theirs = allocated(bytes, other());
  const StreamId stream = new_stream();
  write(theirs, Bytes(bytes, 0), other());
  Gate& gate = hold(stream);
  must(device().fill(mine, 1, bytes, stream));
  must(device().copy_to_peer(other().properties().index, theirs, mine, bytes, stream));
  must(device().fill(mine, 2, bytes, stream));
  EXPECT_EQ(read_back(theirs, bytes, other()), Bytes(bytes, 0)) << "it ran before its turn";
  gate.open();
  must(device().synchronize_stream(stream));
  EXPECT_EQ(read_back(theirs, bytes, other()), Bytes(bytes, 1));
}

TEST_P(PeersContract, CopyToPeerRefusesWrongRanges) {
  const DeviceIndex peer = other().properties().index;
  const size_t bytes = granule_bytes();
  const DeviceAddress mine = allocated(bytes);
  const DeviceAddress theirs = allocated(bytes, other());
  const DeviceAddress freed = must(device().allocate(bytes));
  must(device().free(freed));
  const StreamId stream = new_stream();
  const DeviceAddress last(UINT64_MAX - 8);
  write(theirs, pattern(512, 2), other());
  {
    const Untouched untouched(*this);
    expect_usage(device().copy_to_peer(peer, theirs, mine, 0, stream));
    expect_usage(device().copy_to_peer(peer, theirs, mine, SIZE_MAX, stream));
    expect_usage(device().copy_to_peer(peer, last, mine, 512, stream));
    expect_usage(device().copy_to_peer(peer, theirs, last, 512, stream));
    expect_usage(device().copy_to_peer(peer, {}, mine, 512, stream));
    expect_usage(device().copy_to_peer(peer, theirs, {}, 512, stream));
    expect_usage(device().copy_to_peer(peer, theirs, freed, 512, stream));
    expect_usage(device().copy_to_peer(peer, freed, mine, 512, stream));
    // From what this device cannot reach; to what the peer cannot reach.
    expect_usage(device().copy_to_peer(peer, theirs + 1024, theirs, 512, stream));
    expect_usage(device().copy_to_peer(peer, mine + 1024, mine, 512, stream));
  }
  EXPECT_TRUE(must(device().is_idle(stream)));
  EXPECT_EQ(read_back(theirs, 512, other()), pattern(512, 2));
}

}  // namespace ashlar::contract
