// One line for each engine.
#include "engine/make_engine.h"

#include "engine/classic/classic_engine.h"
#include "engine/paged/paged_engine.h"

namespace ashlar {

std::unique_ptr<Engine> make_engine(Device& device, const AllocatorOptions& options) {
  switch (options.engine) {
    case EngineKind::kClassic: break;
    case EngineKind::kPaged: return std::make_unique<paged::PagedEngine>(device, options);
  }
  return std::make_unique<classic::ClassicEngine>(device, options);
}

}  // namespace ashlar
