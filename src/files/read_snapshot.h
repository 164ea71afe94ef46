// SPDX-License-Identifier: Apache-2.0
//
// Reads snapshot files: pickle or JSON, plain or compressed.
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

// Reads a file; "-" is standard input.
// kFormat: the file cannot be opened or read, is not a snapshot, or exceeds a limit; the message
// starts with the path or "standard input". Other errors are those of open_input().
Result<Snapshot> read_snapshot(const std::string& path, const ReadOptions& options = {});

// Like the function above, but reads `bytes`. kFormat messages start with `name`.
Result<Snapshot> read_snapshot(const std::string& name, std::unique_ptr<ByteSource> bytes,
                               const ReadOptions& options = {});

// Returns the kFormat error of a file that cannot be read because host memory has run out.
Status out_of_memory_error(const std::string& name);

}  // namespace ashlar
