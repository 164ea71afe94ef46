// SPDX-License-Identifier: Apache-2.0
//
// Formats the result of `ashlar whatif --fit`.
#pragma once

#include <string>

#include "analysis/recording.h"
#include "analysis/report_json/fit_json.h"

namespace ashlar {

// Lists the proposals with the lines to change and the commands that verify them; if there are
// none, states how close the best edits come.
std::string fit_as_text(const DeviceRecording& run, const FitResult& result,
                        const FitArguments& arguments);

}  // namespace ashlar
