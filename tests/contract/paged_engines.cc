// SPDX-License-Identifier: Apache-2.0
//
// Instantiates the engine contract for the paged engine: with each policy, and on a device without
// virtual memory.
#include <utility>

#include "engine/paged/paged_engine.h"
#include "engine_contract.h"

namespace ashlar::contract {
namespace {

EngineUnderTest paged(std::string name, PagedPolicy policy) {
  return {std::move(name),
          [policy](Device& device, AllocatorOptions options) -> std::unique_ptr<Engine> {
            options.policy = policy;
            return std::make_unique<paged::PagedEngine>(device, options);
          },
          /*has_virtual_memory=*/true};
}

auto paged_engines() {
  return testing::Values(paged("PagedBalanced", PagedPolicy::kBalanced),
                         paged("PagedLean", PagedPolicy::kLean),
                         paged("PagedFast", PagedPolicy::kFast),
                         on_plain_device(paged("Paged", PagedPolicy::kBalanced)));
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Paged, EngineMemoryContract, paged_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Paged, EngineTrimContract, paged_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Paged, EngineStreamsContract, paged_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Paged, EnginePoolsContract, paged_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Paged, EngineCheckpointContract, paged_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Paged, EngineCaptureContract, paged_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Paged, EngineLimitsContract, paged_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Paged, EngineHooksContract, paged_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Paged, EngineFailuresContract, paged_engines(), engine_name);
INSTANTIATE_TEST_SUITE_P(Paged, EngineConcurrencyContract, paged_engines(), engine_name);

}  // namespace ashlar::contract
