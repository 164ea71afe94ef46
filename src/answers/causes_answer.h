// SPDX-License-Identifier: Apache-2.0
//
// What `ashlar report` and `ashlar tune` find out about a document, for its page.
#pragma once

#include <functional>
#include <string>

#include "ashlar/status.h"
#include "view/document.h"

namespace ashlar {

// One object as text, under the names of `ashlar report --json` and `ashlar tune --json`. Takes as
// long as they do. kTimeout: it is not wanted any more. Else as they fail.
Result<std::string> causes_json(const view::Document& document,
                                const std::function<bool()>& is_wanted);

}  // namespace ashlar
