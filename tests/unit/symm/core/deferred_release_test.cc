// SPDX-License-Identifier: Apache-2.0
//
// Ownership by graphs, and the order in which released objects are destroyed.
#include "symm/core/deferred_release.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ashlar::symm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Records the order in which the objects are destroyed.
struct NumberedObject {
  NumberedObject(int number_arg, std::vector<int>& destroyed_arg)
      : number(number_arg), destroyed(destroyed_arg) {}
  ~NumberedObject() { destroyed.push_back(number); }
  NumberedObject(const NumberedObject&) = delete;
  NumberedObject& operator=(const NumberedObject&) = delete;

  const int number;
  std::vector<int>& destroyed;
};

TEST(DeferredRelease, DestroysObjectsOfGraphInReverseOrderOnCollect) {
  std::vector<int> destroyed;
  const auto release = std::make_shared<DeferredRelease>();
  auto graph = std::make_unique<GraphObjects>(release);
  for (int i = 1; i <= 3; ++i) graph->add(std::make_shared<NumberedObject>(i, destroyed));
  release->collect();
  EXPECT_THAT(destroyed, IsEmpty());
  graph.reset();
  EXPECT_THAT(destroyed, IsEmpty());
  release->collect();
  EXPECT_THAT(destroyed, ElementsAre(3, 2, 1));
}

TEST(DeferredRelease, GraphOwnsEachObjectOnce) {
  std::vector<int> destroyed;
  const auto release = std::make_shared<DeferredRelease>();
  const auto object = std::make_shared<NumberedObject>(1, destroyed);
  GraphObjects graph(release);
  for (int i = 0; i < 3; ++i) graph.add(object);
  EXPECT_EQ(object.use_count(), 2);
}

// An object that is destroyed by `collect` may be the owner of the DeferredRelease.
TEST(DeferredRelease, CollectsObjectThatOwnsIt) {
  auto release = std::make_shared<DeferredRelease>();
  struct Owner {
    std::shared_ptr<DeferredRelease> release;
  };
  auto owner = std::make_shared<Owner>(Owner{release});
  const std::weak_ptr<Owner> alive = owner;
  auto graph = std::make_unique<GraphObjects>(release);
  graph->add(std::move(owner));
  graph.reset();
  EXPECT_FALSE(alive.expired());
  release->collect();
  EXPECT_TRUE(alive.expired());
}

}  // namespace
}  // namespace ashlar::symm
