// SPDX-License-Identifier: Apache-2.0
//
// Tests that backups restore the contents of extents and live until their copies finish.
#include "engine/paged/host_backups.h"

#include "unit/engine/paged/components_fixture.h"

namespace ashlar::paged {
namespace {

class HostBackupsTest : public ComponentsFixture {
 protected:
  HostBackupsTest() { machine_options_.backing = sim::Backing::kMemory; }
};

TEST_F(HostBackupsTest, RestoresContents) {
  HostBackups& backups = components_->backups;
  View* view = nullptr;
  StreamId stream;
  std::vector<Extent*> extents;
  {
    EngineLock lock(components_->mutex);
    extents = create({2 * kMiB});
    view = &create_view(extents);
    stream = *backups.copy_stream();
    EXPECT_EQ(*backups.copy_stream(), stream) << "one stream serves all copies";
  }
  const AddressRange range{view->at(0), 2 * kMiB};
  extents[0]->backup.range = range;
  must(device().fill(range.begin, 7, range.bytes, stream));
  must(backups.allocate(extents));
  must(backups.copy(extents, HostBackups::Direction::kToHost, stream));
  must(device().fill(range.begin, 0, range.bytes, stream));
  must(backups.copy(extents, HostBackups::Direction::kToDevice, stream));
  uint8_t last = 0;
  must(device().copy_to_host(&last, range.begin + (range.bytes - 1), 1, stream));
  must(device().synchronize_stream(stream));
  EXPECT_EQ(last, 7);

  EngineLock lock(components_->mutex);
  backups.discard(*extents[0]);
  EXPECT_EQ(calls(DeviceCall::kFreeHost), 0U);
  machine_->inject({.call = DeviceCall::kFreeHost});
  backups.free_discarded();
  EXPECT_FALSE(components_->error.take().ok()) << "kept for the next call";
  backups.free_discarded();
  EXPECT_EQ(calls(DeviceCall::kFreeHost), 1U);
  release(*view);
  backups.destroy();
}

TEST_F(HostBackupsTest, KeepsMemoryWhileCopiesRun) {
  EngineLock lock(components_->mutex);
  HostBackups& backups = components_->backups;
  View& view = create_view(create({2 * kMiB}));
  Extent& extent = *view.slots[0].extent;
  const StreamId stream = *backups.copy_stream();
  extent.backup.memory = *device().allocate_host(kMiB);
  backups.discard(extent);
  keep_busy(stream);
  backups.free_discarded();
  EXPECT_EQ(calls(DeviceCall::kFreeHost), 0U);
  finish(stream);
  backups.free_discarded();
  EXPECT_EQ(calls(DeviceCall::kFreeHost), 1U);
  release(view);
  backups.destroy();
}

}  // namespace
}  // namespace ashlar::paged
