// SPDX-License-Identifier: Apache-2.0
//
// Tests the reading of views and extents, and the rejection of inconsistent views and extents.
#include "format/extent_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/format/read_pickle.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;
using namespace pickle;

constexpr int32_t kView = 1 << 20;
constexpr int32_t kBytes = 4096;

std::string view(int32_t address, int32_t reserved, int32_t mapped) {
  return dict({{"address", number(address)},
               {"reserved_size", number(reserved)},
               {"mapped_size", number(mapped)}});
}

std::string mapped_at(std::initializer_list<int32_t> addresses) {
  std::string items = "](";
  for (const int32_t address : addresses) items += dict({{"address", number(address)}});
  return items + "e";
}

std::string idle(int32_t id, const std::string& mappings) {
  return dict({{"id", number(id)}, {"size", number(kBytes)}, {"mappings", mappings}});
}

std::string at_home(int32_t id, int32_t home, const std::string& mappings) {
  return dict({{"id", number(id)},
               {"size", number(kBytes)},
               {"home", number(home)},
               {"mappings", mappings}});
}

// Returns a file with one segment, which has the size of two extents and begins at kView.
std::string file_with(const std::string& ours) {
  const std::string block = dict({{"size", number(2 * kBytes)}, {"state", string("inactive")}});
  const std::string segment = dict({{"address", number(kView)},
                                    {"total_size", number(2 * kBytes)},
                                    {"is_expandable", boolean(true)},
                                    {"blocks", list({block})}});
  return dict({{"ashlar", ours}, {"segments", list({segment})}});
}

std::string file_with_extents(std::initializer_list<std::string> views,
                              std::initializer_list<std::string> extents) {
  return file_with(
      dict({{"extents", list(extents)}, {"views", list(views)}, {"version", number(1)}}));
}

TEST(ExtentReader, ReadsExtentsInOrderWithMappings) {
  const Result<Snapshot> snapshot =
      read(file_with_extents({view(2 * kView, kView, 0), view(kView, kView, 8 * kBytes)},
                             {idle(9, mapped_at({kView + 5 * kBytes, kView + 4 * kBytes})),
                              at_home(2, kView, mapped_at({kView})), idle(4, mapped_at({}))}));
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  ASSERT_EQ(snapshot->views.size(), 2u);
  EXPECT_EQ(snapshot->views[0].address, DeviceAddress(kView));
  EXPECT_EQ(snapshot->views[0].mapped_bytes, 8u * kBytes);
  ASSERT_EQ(snapshot->extents.size(), 3u);
  EXPECT_EQ(snapshot->extents[0].attached_address, DeviceAddress(kView));
  EXPECT_EQ(snapshot->extents[1].attached_address, std::nullopt);
  ASSERT_EQ(snapshot->extents[2].mappings.size(), 2u);
  EXPECT_EQ(snapshot->extents[2].mappings[0].address, DeviceAddress(kView + 4 * kBytes));
}

TEST(ExtentReader, IgnoresLaterVersions) {
  const Result<Snapshot> snapshot =
      read(file_with(dict({{"version", number(2)}, {"views", string("of another kind")}})));
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  EXPECT_EQ(snapshot->segments.size(), 1u);
  EXPECT_TRUE(snapshot->views.empty() && snapshot->extents.empty());
}

TEST(ExtentReader, RejectsAMissingVersion) {
  EXPECT_THAT(read_error_message(file_with(dict({{"views", list({})}}))),
              HasSubstr("\"ashlar\" has no \"version\" (expected 1 or more)"));
  EXPECT_THAT(read_error_message(file_with(number(1))),
              HasSubstr("\"ashlar\": found 1 (expected a dict)"));
}

TEST(ExtentReader, ReportsTheLocationOfWrongTypes) {
  EXPECT_THAT(
      read_error_message(file_with_extents({view(kView, kView, 0)}, {idle(1, list({number(7)}))})),
      HasSubstr("extents[0]: mappings[0]: \"mappings\": found 7 (expected a dict)"));
  EXPECT_THAT(read_error_message(file_with_extents({dict({{"mapped_size", number(-1)}})}, {})),
              HasSubstr("views[0]: \"mapped_size\": found -1 (expected a number of bytes)"));
}

TEST(ExtentReader, RejectsOverlappingViews) {
  EXPECT_THAT(read_error_message(
                  file_with_extents({view(kView, kView + 1, 0), view(2 * kView, kView, 0)}, {})),
              HasSubstr("the view at 0x100000 overlaps the next one"));
  EXPECT_THAT(read_error_message(file_with_extents({view(kView, kView, kView + 1)}, {})),
              HasSubstr("has 1048577 of 1048576 bytes mapped"));
  EXPECT_THAT(read_error_message(file_with_extents({view(-kBytes, 2 * kBytes, 0)}, {})),
              HasSubstr("expected a valid address range"));
  EXPECT_THAT(read_error_message(file_with_extents({view(kView, 0, 0)}, {})),
              HasSubstr("expected a valid address range"));
}

TEST(ExtentReader, RejectsOverlappingMappings) {
  const std::string all = view(kView, kView, 8 * kBytes);
  EXPECT_THAT(
      read_error_message(file_with_extents({all}, {idle(1, mapped_at({kView + 7 * kBytes + 1}))})),
      HasSubstr("outside of every view"));
  EXPECT_THAT(read_error_message(file_with_extents({all}, {idle(1, mapped_at({kView - 1}))})),
              HasSubstr("outside of every view"));
  EXPECT_THAT(read_error_message(file_with_extents({all}, {idle(1, mapped_at({-1}))})),
              HasSubstr("outside of every view"));
  EXPECT_THAT(read_error_message(file_with_extents(
                  {all}, {idle(1, mapped_at({kView})), idle(2, mapped_at({kView + 1}))})),
              HasSubstr("the extent mapped at 0x100000 overlaps the next one"));
}

TEST(ExtentReader, RejectsDuplicateAndEmptyExtents) {
  EXPECT_THAT(
      read_error_message(file_with_extents({}, {idle(1, mapped_at({})), idle(1, mapped_at({}))})),
      HasSubstr("extent 1 occurs twice (expected once)"));
  EXPECT_THAT(read_error_message(file_with_extents({}, {dict({{"id", number(1)}})})),
              HasSubstr("has size 0"));
  EXPECT_THAT(read_error_message(file_with_extents(
                  {}, {dict({{"size", number(kBytes)}, {"traced", number(-1)}})})),
              HasSubstr("has \"traced\" 0xffffffffffffffff, which overflows the address space"));
}

TEST(ExtentReader, RequiresHomesToBeMappingsInSegments) {
  const std::string all = view(kView, kView, 8 * kBytes);
  EXPECT_THAT(read_error_message(
                  file_with_extents({all}, {at_home(1, kView, mapped_at({kView + kBytes}))})),
              HasSubstr("where it is not mapped"));
  const int32_t beyond = kView + kBytes + 1;
  EXPECT_THAT(
      read_error_message(file_with_extents({all}, {at_home(1, beyond, mapped_at({beyond}))})),
      HasSubstr("outside of every expandable segment"));
}

}  // namespace
}  // namespace ashlar
