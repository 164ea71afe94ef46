// SPDX-License-Identifier: Apache-2.0
//
// Reads snapshots from pickles that tests build by hand.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "format/snapshot_pickle.h"
#include "unit/format/pickle_text.h"

namespace ashlar::pickle {

inline Result<Snapshot> read(const std::string& value) {
  const std::string bytes = whole(value);
  MemorySource source(bytes);
  return read_snapshot_pickle(source);
}

inline std::string read_error_message(const std::string& value) {
  const Result<Snapshot> snapshot = read(value);
  EXPECT_TRUE(snapshot.status().is(StatusKind::kFormat));
  return snapshot.status().message();
}

}  // namespace ashlar::pickle
