// SPDX-License-Identifier: Apache-2.0
//
// Tests that IntrusiveTree stays sorted and shallow.
#include "base/intrusive_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/random.h"

namespace ashlar {
namespace {

struct Number : TreeNode {
  int value = 0;
};
struct ByValue {
  bool operator()(const Number* a, const Number* b) const { return a->value < b->value; }
};
using Numbers = IntrusiveTree<Number, ByValue>;

std::vector<int> values(const Numbers& tree) {
  std::vector<int> in_order;
  for (const Number* each : tree) in_order.push_back(each->value);
  return in_order;
}

TEST(IntrusiveTreeTest, EmptyTreeHasNoMembers) {
  const Numbers tree;
  EXPECT_TRUE(tree.empty());
  EXPECT_EQ(tree.first(), nullptr);
  EXPECT_EQ(tree.last(), nullptr);
  EXPECT_EQ(tree.first_not([](const Number&) { return true; }), nullptr);
}

TEST(IntrusiveTreeTest, ReinsertsErasedMemberUnderAnotherKey) {
  Number a, b;
  a.value = 1;
  b.value = 2;
  Numbers tree;
  tree.insert(&a);
  tree.insert(&b);
  tree.erase(&a);
  a.value = 3;
  tree.insert(&a);
  EXPECT_EQ(values(tree), (std::vector<int>{2, 3}));
  EXPECT_EQ(Numbers::next(&b), &a);
  EXPECT_EQ(Numbers::previous(&a), &b);
  EXPECT_EQ(Numbers::next(&a), nullptr);
  EXPECT_EQ(Numbers::previous(&b), nullptr);
}

// Compares the contents and the results of searches with std::set.
TEST(IntrusiveTreeTest, StaysSortedUnderRandomOperations) {
  Random random(7);
  std::vector<Number> numbers(300);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i].value = static_cast<int>(2 * i);
  std::set<int> model;
  Numbers tree;
  for (int step = 0; step < 20'000; ++step) {
    Number& drawn = numbers[random.below(numbers.size())];
    if (model.insert(drawn.value).second) {
      tree.insert(&drawn);
    } else {
      model.erase(drawn.value);
      tree.erase(&drawn);
    }
    ASSERT_EQ(tree.size(), model.size());
    const int wanted = static_cast<int>(random.below(2 * numbers.size() + 2));
    const Number* found = tree.first_not([&](const Number& each) { return each.value < wanted; });
    const auto expected = model.lower_bound(wanted);
    ASSERT_EQ(found == nullptr, expected == model.end());
    if (found != nullptr) {
      ASSERT_EQ(found->value, *expected);
    }
    if (step % 100 == 0) {
      ASSERT_EQ(values(tree), std::vector<int>(model.begin(), model.end()));
    }
  }
  std::vector<int> backwards;
  for (const Number* each = tree.last(); each != nullptr; each = Numbers::previous(each)) {
    backwards.push_back(each->value);
  }
  EXPECT_EQ(backwards, std::vector<int>(model.rbegin(), model.rend()));
}

// Sorted insertions degrade a plain search tree. The test counts steps instead of measuring time.
TEST(IntrusiveTreeTest, StaysShallowAfterSortedInsertions) {
  constexpr int kCount = 10'000;
  std::vector<Number> numbers(kCount);
  Numbers tree;
  for (int i = 0; i < kCount; ++i) {
    numbers[static_cast<size_t>(i)].value = i;
    tree.insert(&numbers[static_cast<size_t>(i)]);
  }
  int most = 0;
  for (int wanted = 0; wanted < kCount; wanted += 97) {
    int visit_count = 0;
    tree.first_not([&](const Number& each) {
      ++visit_count;
      return each.value < wanted;
    });
    most = std::max(most, visit_count);
  }
  EXPECT_LT(most, 60);
}

}  // namespace
}  // namespace ashlar
