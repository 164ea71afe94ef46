// SPDX-License-Identifier: Apache-2.0
//
// Instantiates the engine contract for the async engine.
#include "engine/async/async_engine.h"
#include "engine_contract.h"

namespace ashlar::contract {
namespace {

EngineUnderTest async(std::string name, bool has_virtual_memory) {
  return {.name = std::move(name),
          .make = [](Device& device, const AllocatorOptions& options) -> std::unique_ptr<Engine> {
            return require_ok(AsyncEngine::create(device, options));
          },
          .has_virtual_memory = has_virtual_memory,
          .reports_all_reserved = false};
}

auto async_engines() {
  return testing::Values(async("Async", true), async("AsyncOnPlainDevice", false));
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Async, EngineMemoryContract, async_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Async, EngineTrimContract, async_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Async, EngineStreamsContract, async_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Async, EnginePoolsContract, async_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Async, EngineCaptureContract, async_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Async, EngineLimitsContract, async_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Async, EngineHooksContract, async_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Async, EngineFailuresContract, async_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Async, EngineConcurrencyContract, async_engines(), engine_name);

}  // namespace ashlar::contract
