// SPDX-License-Identifier: Apache-2.0
//
// Tests the exit status that PEs leave in the store for their launcher.
#include "symm/stores/shmem_exit.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace ashlar {
namespace {

Deadline long_deadline() { return Deadline::after(std::chrono::seconds(30)); }

// Stores `value` as the exit status. Returns the status that the launcher reads.
std::optional<int> status_of(const std::string& value) {
  const std::shared_ptr<symm::Store> store = symm::make_memory_store();
  EXPECT_TRUE(
      store->set(shmem_exit_key("job"), value, std::chrono::minutes(1), long_deadline()).ok());
  return shmem_exit_status(*store, "job", long_deadline());
}

TEST(ShmemExitStatus, IsTruncatedToEightBits) {
  EXPECT_EQ(status_of("0"), 0);
  EXPECT_EQ(status_of("7"), 7);
  EXPECT_EQ(status_of("256"), 0);
  EXPECT_EQ(status_of("-1"), 255);
}

TEST(ShmemExitStatus, IsOneIfMalformed) {
  EXPECT_EQ(status_of(""), 1);
  EXPECT_EQ(status_of("x"), 1);
  EXPECT_EQ(status_of("0x"), 1);
  EXPECT_EQ(status_of("99999999999999999999"), 1);
}

TEST(ShmemExitStatus, IsUnsetByDefault) {
  const std::shared_ptr<symm::Store> store = symm::make_memory_store();
  EXPECT_EQ(shmem_exit_status(*store, "job", long_deadline()), std::nullopt);
}

}  // namespace
}  // namespace ashlar
