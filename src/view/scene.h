// SPDX-License-Identifier: Apache-2.0
//
// What there is to look at, as JSON: the documents, and the stacks of one. Pure functions.
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
  // In a self-contained file: those for which it has answers.
  std::optional<std::vector<uint32_t>> moments{};
};

// Besides the documents.
struct SceneFrame {
  std::string_view program{};  // its name and version
  std::string_view live{};     // what is being watched; empty: nothing
};
std::string scene_json(const std::vector<SceneDocument>& documents, const SceneFrame& frame);
std::string stacks_json(const Document& document);

}  // namespace ashlar::view
