// SPDX-License-Identifier: Apache-2.0
//
// Tests that a search of the free lists visits only blocks that are large enough.
#include "engine/paged/pool/free_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/random.h"
#include "base/units.h"

namespace ashlar::paged {
namespace {

class FreeRangesTest : public ::testing::Test {
 protected:
  PagedBlock* insert(size_t bytes) {
    blocks_.push_back(std::make_unique<PagedBlock>());
    blocks_.back()->bytes = bytes;
    ranges_.reserve(bytes);
    ranges_.insert(blocks_.back().get());
    return blocks_.back().get();
  }
  std::vector<PagedBlock*> at_least(size_t bytes) const {
    std::vector<PagedBlock*> found;
    ranges_.visit_at_least(bytes, [&](PagedBlock* block) {
      found.push_back(block);
      return FreeRanges::Next::kAny;
    });
    return found;
  }

  FreeRanges ranges_;
  std::vector<std::unique_ptr<PagedBlock>> blocks_;
};

TEST_F(FreeRangesTest, EmptyListsVisitNothing) { EXPECT_TRUE(at_least(512).empty()); }

TEST_F(FreeRangesTest, RequestAboveAllReservedSizesVisitsNothing) {
  PagedBlock* largest = insert(2 * kMiB);
  EXPECT_EQ(at_least(2 * kMiB), std::vector{largest});
  for (const size_t bytes : {2 * kMiB + 512, 3 * kMiB, kGiB}) {
    EXPECT_TRUE(at_least(bytes).empty()) << bytes;
  }
  PagedBlock* larger = insert(3 * kMiB);
  EXPECT_EQ(at_least(2 * kMiB + 512), std::vector{larger});
  EXPECT_EQ(at_least(2 * kMiB), (std::vector{largest, larger}));
}

TEST_F(FreeRangesTest, OversizedRequestVisitsNothing) {
  insert(64 * kGiB);
  for (int bit = 30; bit < 64; ++bit) {
    const size_t bytes = size_t{1} << bit;
    EXPECT_EQ(at_least(bytes).size(), bytes <= 64 * kGiB ? 1U : 0U) << bytes;
  }
}

TEST_F(FreeRangesTest, HoldsBlocksOfAnySize) {
  for (int bit = 9; bit < 64; ++bit) insert(size_t{1} << bit);
  insert(SIZE_MAX - SIZE_MAX % 512);
  for (int bit = 9; bit < 64; ++bit) {
    EXPECT_EQ(at_least(size_t{1} << bit).size(), static_cast<size_t>(65 - bit)) << bit;
  }
}

TEST_F(FreeRangesTest, VisitsOnlyLargeEnoughBlocks) {
  PagedBlock* exact = insert(3 * kMiB);
  PagedBlock* larger = insert(3 * kMiB + 512);
  insert(3 * kMiB - 512);
  const std::vector<PagedBlock*> found = at_least(3 * kMiB);
  EXPECT_EQ(std::set(found.begin(), found.end()), (std::set{exact, larger}));
}

TEST_F(FreeRangesTest, StopsWhenTheVisitorReturnsNone) {
  for (int i = 0; i < 10; ++i) insert(kMiB);
  int visited = 0;
  ranges_.visit_at_least(512, [&](PagedBlock*) {
    return ++visited < 3 ? FreeRanges::Next::kAny : FreeRanges::Next::kNone;
  });
  EXPECT_EQ(visited, 3);
}

TEST_F(FreeRangesTest, AfterNotLargerVisitsFewBlocksOfTheFirstList) {
  const auto is_found_behind = [this](int too_small) {
    ranges_ = {};
    PagedBlock* hidden = insert(kMiB + kMiB / 32);
    for (int i = 0; i < too_small; ++i) insert(kMiB + 512);  // in front of `hidden` in its list
    PagedBlock* larger = insert(2 * kMiB);
    insert(3 * kMiB);
    std::vector<PagedBlock*> found;
    ranges_.visit_at_least(kMiB + kMiB / 64, [&](PagedBlock* block) {
      found.push_back(block);
      return FreeRanges::Next::kNotLarger;
    });
    EXPECT_FALSE(found.empty());
    EXPECT_EQ(found.front(), larger);
    return found.size() == 2 && found.back() == hidden;
  };
  EXPECT_TRUE(is_found_behind(6));
  EXPECT_FALSE(is_found_behind(1000)) << "it visited all blocks that are too small";
}

TEST_F(FreeRangesTest, VisitorMayEraseTheBlock) {
  for (int i = 0; i < 10; ++i) insert(kMiB);
  ranges_.visit_at_least(512, [&](PagedBlock* block) {
    ranges_.erase(block);
    return FreeRanges::Next::kAny;
  });
  EXPECT_TRUE(at_least(512).empty());
}

TEST_F(FreeRangesTest, CoversSizesUpToAnExabyte) {
  PagedBlock* smallest = insert(512);
  PagedBlock* largest = insert((size_t{1} << 46) + 512);
  EXPECT_EQ(at_least(size_t{1} << 46), std::vector{largest});
  EXPECT_EQ(at_least(512), (std::vector{smallest, largest}));
}

// The same operations on `FreeRanges` with and without heads of lists.
class FreeRangesModesTest : public ::testing::Test {
 protected:
  FreeRangesModesTest() {
    for (FreeRanges* each : {&chain_, &lists_}) each->reserve(kGiB);
    lists_.create_lists();
  }
  void insert(size_t bytes) {
    pairs_.push_back(std::make_unique<Pair>());
    for (PagedBlock* block : {&pairs_.back()->in_chain, &pairs_.back()->in_list}) {
      block->bytes = bytes;
    }
    chain_.insert(&pairs_.back()->in_chain);
    lists_.insert(&pairs_.back()->in_list);
  }
  void erase(size_t index) {
    chain_.erase(&pairs_[index]->in_chain);
    lists_.erase(&pairs_[index]->in_list);
    std::swap(pairs_[index], pairs_.back());
    pairs_.pop_back();
  }
  // Returns the visited blocks, as positions in `pairs_`. The visitor limits itself to blocks of
  // the first list after `any_count` blocks.
  std::vector<size_t> visit(const FreeRanges& ranges, size_t bytes, size_t any_count) const {
    std::vector<size_t> found;
    ranges.visit_at_least(bytes, [&](const PagedBlock* block) {
      const auto is_block = [&](const auto& pair) {
        return block == &pair->in_chain || block == &pair->in_list;
      };
      found.push_back(static_cast<size_t>(std::find_if(pairs_.begin(), pairs_.end(), is_block) -
                                          pairs_.begin()));
      return found.size() < any_count ? FreeRanges::Next::kAny : FreeRanges::Next::kNotLarger;
    });
    return found;
  }
  size_t count() const { return pairs_.size(); }

  FreeRanges chain_;
  FreeRanges lists_;

 private:
  struct Pair {
    PagedBlock in_chain;
    PagedBlock in_list;
  };
  std::vector<std::unique_ptr<Pair>> pairs_;
};

TEST_F(FreeRangesModesTest, BothModesVisitBlocksInTheSameOrder) {
  Random random(2);
  const auto random_bytes = [&] { return 512 * (1 + (random.next() >> (44 + random.below(20)))); };
  for (int i = 0; i < 3000; ++i) {
    if (count() == 0 || (count() < 40 && random.below(2) == 0)) {
      insert(random_bytes());
    } else {
      erase(random.below(count()));
    }
    const size_t wanted = random_bytes();
    const size_t any_count = 1 + random.below(50);
    ASSERT_EQ(visit(chain_, wanted, any_count), visit(lists_, wanted, any_count)) << i;
  }
  chain_.create_lists();
  for (int i = 0; i < 1000; ++i) {
    if (count() > 0 && random.below(2) == 0) erase(random.below(count()));
    insert(random_bytes());
    const size_t wanted = random_bytes();
    ASSERT_EQ(visit(chain_, wanted, 100), visit(lists_, wanted, 100)) << i;
  }
}

TEST_F(FreeRangesTest, RandomOperationsMatchASet) {
  Random random(1);
  std::vector<PagedBlock*> expected;
  for (int i = 0; i < 5000; ++i) {
    if (i == 500) ranges_.create_lists();
    if (expected.empty() || random.below(5) < 3) {
      expected.push_back(insert(512 * (1 + (random.next() >> (40 + random.below(23))))));
    } else {
      std::swap(expected[random.below(expected.size())], expected.back());
      ranges_.erase(expected.back());
      expected.pop_back();
    }
    if (i % 50 != 0) continue;
    const size_t wanted = 512 * (1 + (random.next() >> (40 + random.below(23))));
    const std::vector<PagedBlock*> found = at_least(wanted);
    for (size_t k = 1; k < found.size(); ++k) {
      const size_t bytes = found[k]->bytes;
      // The first list also holds blocks that are too small. After a few such blocks, the remainder
      // of that list is visited last.
      const bool may_be_in_first_list = bytes <= wanted + wanted / 16;
      if (!may_be_in_first_list) {
        EXPECT_LE(found[k - 1]->bytes, bytes + bytes / 16);
      }
    }
    std::set<PagedBlock*> large_enough;
    for (PagedBlock* block : expected) {
      if (block->bytes >= wanted) large_enough.insert(block);
    }
    ASSERT_EQ(std::set(found.begin(), found.end()), large_enough);
  }
}

}  // namespace
}  // namespace ashlar::paged
