// SPDX-License-Identifier: Apache-2.0
//
// What goes through multicast, with real processes on simulated devices, where it is emulated: the
// results of the calls without it, and mistakes that are found before anything is launched. How
// multicast comes about is in symmetric_multicast_test.cc; hardware's own, in
// symmetric_gpu_multicast_test.cc.
#include <algorithm>
#include <limits>

#include "mp/device_rank.h"
#include "mp/multimem_program.h"

namespace ashlar::symm {
namespace {

class SymmetricMultimems : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(WorldSizes, SymmetricMultimems, ::testing::Values(1, 2, 3, 4),
                         ::testing::PrintToStringParamName());

TEST_P(SymmetricMultimems, Row14ReductionsToElsewhereAndPutsAreThoseWithoutIt) {
  Ranks ranks(GetParam(), [](const BareRank& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = machine_for(rank.world_size);
    DeviceRank own(rank, *machine);
    std::string wrong = run_multimem_program(own);
    own.group.leave(kPatience);
    return wrong;
  });
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

// One rank makes all the mistakes: nobody else notices, and all go on.
TEST(SymmetricMultimem, Row13MistakesAreRefusedBeforeAnythingIsLaunched) {
  Ranks ranks(2, [](const BareRank& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = machine_for(rank.world_size);
    DeviceRank own(rank, *machine);
    std::string wrong = rank.rank == 1 ? make_multimem_mistakes(own) : "";
    wrong += try_multimem_put(own, 0, 100, {});
    own.group.leave(kPatience);
    return wrong;
  });
  EXPECT_THAT(ranks.outcomes(), Each(IsEmpty()));
}

TEST(SymmetricMultimem, Row14RanksThatNameDifferentRootsAllFindOut) {
  Ranks ranks(3, [](const BareRank& rank) -> std::string {
    const std::unique_ptr<sim::Machine> machine = machine_for(rank.world_size);
    DeviceRank own(rank, *machine);
    CollectiveOptions options;
    options.timeout = kPatience;
    options.out = own.scratch.data();
    const std::string said =
        thrown_by([&] { own.handle.multimem_reduce(10, rank.rank == 2 ? 2 : 0, {}, options); });
    own.handle.multimem_reduce(10, 0, {}, options);
    own.group.leave(kPatience);
    return said;
  });
  EXPECT_THAT(ranks.outcomes(),
              Each(AllOf(HasSubstr("rank 0 a multimem reduce (sum of f32, to rank 0, 40 bytes"),
                         HasSubstr("rank 2 a multimem reduce (sum of f32, to rank 2"))));
}

}  // namespace
}  // namespace ashlar::symm
