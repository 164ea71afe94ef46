// SPDX-License-Identifier: Apache-2.0
//
// What an engine answers that cannot do all of it.
#include "engine/engine.h"

namespace ashlar {

Status Engine::pause(std::string_view, bool) {
  return Status::unsupported(
      "this engine cannot pause pools, since its addresses are tied to their memory: use "
      "engine:paged");
}

Status Engine::resume(std::string_view) {
  return Status::unsupported(
      "this engine cannot pause pools, and so resumes none: use engine:paged");
}

Status Engine::add_remap_observer(RemapObserver) {
  return Status::unsupported("this engine does not tell what it maps: use engine:paged");
}

Block* Engine::allocate_fast(size_t /*bytes*/, StreamId /*stream*/) noexcept { return nullptr; }

}  // namespace ashlar
