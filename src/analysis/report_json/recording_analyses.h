// SPDX-License-Identifier: Apache-2.0
//
// The analyses that the viewer shows. They correspond to the commands `ashlar report`, `tune`,
// `oom`, `leaks` and `annotate`.
#pragma once

#include "analysis/json_analysis.h"
#include "files/source_folders.h"

namespace ashlar {

// Returns "causes.json", "oom.json", "leaks.json", "training.json" and "annotate.json". Source text
// is available if `folders` is not empty.
JsonAnalyses recording_analyses(SourceFolders folders = {});

}  // namespace ashlar
