// SPDX-License-Identifier: Apache-2.0
//
// Tests of mapping, retiring and unmapping slots, and of their counts.
#include "engine/paged/view_table.h"

#include "unit/engine/paged/components_fixture.h"

namespace ashlar::paged {
namespace {

class ViewTableTest : public ComponentsFixture {};

TEST_F(ViewTableTest, CountsMappingsAndAddresses) {
  EngineLock lock(components_->mutex);
  View& view = create_view(create({4 * kMiB, 4 * kMiB}));
  EXPECT_EQ(components_->views.usage().mappings, 2U);
  EXPECT_EQ(components_->views.usage().address_bytes, view.reserved.bytes);
  EXPECT_EQ(view.attached_count, 2U);
  EXPECT_TRUE(components_->views.take_has_mapped());
  EXPECT_FALSE(components_->views.take_has_mapped());
  release(view);
  EXPECT_EQ(components_->views.usage(), MappingUsage{});
  EXPECT_EQ(calls(DeviceCall::kReserve), calls(DeviceCall::kFreeAddresses));
}

TEST_F(ViewTableTest, MapsNothingIfAccessFails) {
  EngineLock lock(components_->mutex);
  SlowPathRequest slow = request(4 * kMiB);
  View& view = **components_->views.create(slow, 8 * kMiB);
  const std::vector<Extent*> extents = create({4 * kMiB});
  machine_->inject({.call = DeviceCall::kSetAccess});
  const BlockReservation blocks(*slow.arena);
  EXPECT_FALSE(components_->views.map_at_end(view, extents, slow).ok());
  EXPECT_TRUE(view.slots.empty());
  EXPECT_EQ(components_->views.usage().mappings, 0U);
  EXPECT_TRUE(components_->views.release(view));
  EXPECT_TRUE(components_->extents.release(*slow.pool, extents[0]));
}

TEST_F(ViewTableTest, UsesFewerAddressesIfTheDeviceHasNoMore) {
  EngineLock lock(components_->mutex);
  SlowPathRequest slow = request(4 * kMiB);
  machine_->inject({.call = DeviceCall::kReserve, .status = Status::out_of_memory("none")});
  View& view = **components_->views.create(slow, 8 * kMiB);
  EXPECT_LT(view.reserved.bytes, kGiB / 4);
  EXPECT_TRUE(components_->views.release(view));
}

TEST_F(ViewTableTest, PausedExtentKeepsItsSlots) {
  EngineLock lock(components_->mutex);
  View& view = create_view(create({4 * kMiB}));
  Extent& extent = *view.slots[0].extent;
  must(components_->views.unmap_for_pause(extent));
  EXPECT_FALSE(view.slots[0].is_mapped);
  EXPECT_FALSE(view.packed[0].is_usable);
  must(components_->views.map_again(extent));
  EXPECT_TRUE(view.slots[0].is_mapped && view.slots[0].is_accessible);
  EXPECT_TRUE(view.packed[0].is_usable);
  release(view);
}

TEST_F(ViewTableTest, RetiredSlotIsUnmappedOrUsedAgain) {
  EngineLock lock(components_->mutex);
  View& view = create_view(create({4 * kMiB, 4 * kMiB}));
  {
    ArenaLocks locks(view.arena->pool);
    components_->mover.move_view(view, *view.arena);
  }
  for (const size_t slot : {0, 1}) {
    components_->views.retire_slot(view, slot, 7);
    view.slots[slot].is_unmap_announced = true;
  }
  EXPECT_EQ(components_->views.retired().mappings, 2U);
  EXPECT_FALSE(view.packed[0].is_usable);
  machine_->inject({.call = DeviceCall::kUnmap});
  components_->views.unmap_retired_slot(view, 0);
  EXPECT_TRUE(view.packed[0].is_usable) << "the device refused";
  EXPECT_FALSE(components_->error.take().ok());
  Extent* second = view.slots[1].extent;
  components_->views.unmap_retired_slot(view, 1);
  EXPECT_EQ(view.slots[1].extent, nullptr);
  EXPECT_EQ(components_->views.usage().mappings, 1U);
  EXPECT_EQ(components_->views.retired(), MappingUsage{});
  PagedPool& pool = view.arena->pool;
  EXPECT_TRUE(components_->extents.release(pool, second));
  EXPECT_TRUE(components_->views.unmap_all(*view.slots[0].extent));
  EXPECT_TRUE(components_->extents.release(pool, pool.extents[0].get()));
  EXPECT_TRUE(components_->views.release(view));
}

}  // namespace
}  // namespace ashlar::paged
