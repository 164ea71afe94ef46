// SPDX-License-Identifier: Apache-2.0
//
// Snapshots from files, whatever they are: pickle or JSON, plain or compressed.
#pragma once

#include <memory>
#include <string>

#include "ashlar/snapshot.h"
#include "ashlar/status.h"
#include "files/input.h"
#include "format/value_store.h"

namespace ashlar {

struct ReadOptions {
  InputOptions input{};
  ReadLimits limits{};
};

// "-" is standard input.
// kFormat: it cannot be opened or read, or is no snapshot; the message starts with the path.
Result<Snapshot> read_snapshot(const std::string& path, const ReadOptions& options = {});

// The same for bytes that come from elsewhere; the message starts with the name.
Result<Snapshot> read_snapshot(const std::string& name, std::unique_ptr<ByteSource> bytes,
                               const ReadOptions& options = {});

}  // namespace ashlar
