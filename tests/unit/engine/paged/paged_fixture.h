// SPDX-License-Identifier: Apache-2.0
//
// Fixtures with a paged engine on a simulated device, whose memory has either no contents or real
// bytes.
#pragma once

#include <cstring>
#include <vector>

#include "engine/paged/paged_engine.h"
#include "unit/engine/engine_fixture.h"

namespace ashlar::paged {

class PagedFixture : public EngineFixture<PagedEngine> {
 protected:
  static constexpr PoolId kPool{0, 1};

  void start_on_plain_device() {
    make_machine();
    plain_ = std::make_unique<contract::PlainDevice>(machine_->device(kDevice));
    make_engine({});
  }
  // Allocates `count` blocks of one size and frees every other block. Returns the remaining blocks.
  std::vector<Block*> leave_holes(size_t bytes, size_t count, StreamId stream = kDefaultStream) {
    std::vector<Block*> left;
    std::vector<Block*> freed;
    for (size_t i = 0; i < count; ++i) {
      (i % 2 == 0 ? freed : left).push_back(allocate(bytes, stream));
    }
    for (Block* block : freed) free(block);
    return left;
  }
};

class PagedBytesFixture : public PagedFixture {
 protected:
  void SetUp() override {
    machine_options_.backing = sim::Backing::kMemory;
    start({}, 512 * kMiB);
  }
  size_t reserved_bytes() const { return static_cast<size_t>(stats().reserved_bytes.all.current); }

  void fill(const Block* block, uint8_t value) {
    must(device().fill(block->address, value, block->requested_bytes, block->stream));
  }
  testing::AssertionResult contains(const Block* block, uint8_t value) {
    std::vector<uint8_t> bytes(block->requested_bytes);
    must(device().copy_to_host(bytes.data(), block->address, bytes.size(), block->stream));
    must(device().synchronize_stream(block->stream));
    const bool is_same = std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
    if (is_same && bytes[0] == value) return testing::AssertionSuccess();
    return testing::AssertionFailure()
           << "not all of its bytes are " << int(value) << ": the first is " << int(bytes[0]);
  }
};

}  // namespace ashlar::paged
