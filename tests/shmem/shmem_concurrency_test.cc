// SPDX-License-Identifier: Apache-2.0
//
// Runs the multi-threaded OpenSHMEM program threads.c, also under ThreadSanitizer.
#include <gtest/gtest.h>

#include <string>

#include "base/text.h"
#include "shmem/shell.h"
#include "unit/symm/stores/store_fixtures.h"

namespace ashlar {
namespace {

TEST(ShmemConcurrency, ThreadsOfSeveralPesRunConcurrently) {
  const symm::TemporaryFolder folder;
  EXPECT_EQ(
      run_in_shell(text("export SHMEM_SYMMETRIC_SIZE=8M ASHLAR_SHMEM_SIZE=3 ",
                        "ASHLAR_SHMEM_STORE=", folder.path(), "; run() { ", "ASHLAR_SHMEM_RANK=$1 ",
                        shmem_program("threads"), "; }; ", "run 0 & first=$!; run 1 & second=$!; ",
                        "run 2 && wait $first && wait $second")),
      0);
}

}  // namespace
}  // namespace ashlar
