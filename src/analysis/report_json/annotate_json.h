// SPDX-License-Identifier: Apache-2.0
//
// The JSON of `ashlar annotate`, and the source text that belongs to its lines.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "analysis/recording.h"
#include "analysis/training/source_lines.h"
#include "ashlar/status.h"
#include "files/source_folders.h"

namespace ashlar {

// Reads the source of a file. Errors are those of SourceFolders::read().
Result<SourceText> read_source(const SourceFile& file, const SourceFolders& folders);

// Lines have their text if the source of their file is in `folders` and the file is one of the
// first kMaxSourceFiles.
nlohmann::ordered_json annotate_json(const DeviceRecording& run, const SourceLines& found,
                                     const SourceFolders& folders);

// Returns {"path", "source", "lines"}, with all lines of a file.
nlohmann::ordered_json source_json(const SourceFile& file, const SourceText& text);

}  // namespace ashlar
