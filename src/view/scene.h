// SPDX-License-Identifier: Apache-2.0
//
// scene.json: the documents and their properties. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "view/document.h"

namespace ashlar::view {

struct SceneDocument {
  const Document* document = nullptr;
  // The moments for which a self-contained file has responses; unset for served pages.
  std::optional<std::vector<uint32_t>> moments{};
};

// The properties of the scene besides the documents.
struct SceneHeader {
  std::string_view program{};  // name and version of the tool
  std::string_view live{};     // name of the monitored process; empty: none
};
std::string scene_json(const std::vector<SceneDocument>& documents, const SceneHeader& header);

}  // namespace ashlar::view
