// SPDX-License-Identifier: Apache-2.0
//
// Programs of OpenSHMEM with several threads (threads.c), where a sanitizer can look at them.
#include <gtest/gtest.h>

#include <string>

#include "base/text.h"
#include "shmem/in_shell.h"
#include "unit/symm/stores/store_places.h"

namespace ashlar {
namespace {

TEST(ShmemConcurrency, ThreadsOfSeveralPesWorkAtOnce) {
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
