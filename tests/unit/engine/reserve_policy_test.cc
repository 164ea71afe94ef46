// SPDX-License-Identifier: Apache-2.0
//
// Tests of how much address space expandable segments reserve, as set by a fraction, a size, or a
// stream class.
#include <gtest/gtest.h>

#include "classic_fixture.h"

namespace ashlar::classic {
namespace {

class ReserveTest : public ClassicFixture {
 protected:
  // Makes a request that exceeds the addresses that an expandable segment reserves. Returns the
  // reserved size that the error message names; 0 if it names no size.
  size_t reserved_for(StreamId stream) {
    message_ = allocation_error(kGiB, stream).to_string();
    const size_t at = message_.find("no more than ");
    return at == std::string::npos ? 0 : std::stoull(message_.substr(at + 13));
  }
  static AllocatorOptions expandable_options() {
    AllocatorOptions options;
    options.expandable_segments = true;
    return options;
  }
  std::string message_;
};

TEST_F(ReserveTest, RoundsFractionUpToGranules) {
  AllocatorOptions options = expandable_options();
  options.expandable_reserve = ReserveSize{0.25, 0};
  start(options);
  EXPECT_EQ(reserved_for(kDefaultStream), 260 * kMiB) << message_;
  EXPECT_NE(message_.find("expandable_segments_reserve"), std::string::npos);
}

TEST_F(ReserveTest, ClassOverridesGlobalSetting) {
  AllocatorOptions options = expandable_options();
  options.expandable_reserve = ReserveSize{0.5, 0};
  options.expandable_reserve_by_class["side"] = ReserveSize{0, 100 * kMiB};
  start(options);
  const StreamId side = new_stream();
  engine_->set_stream_class(side, "side");
  EXPECT_EQ(engine_->stream_class(side), "side");
  EXPECT_EQ(reserved_for(side), 100 * kMiB) << message_;
  EXPECT_NE(message_.find("of class side"), std::string::npos) << message_;
  EXPECT_EQ(reserved_for(kDefaultStream), 520 * kMiB);
}

TEST_F(ReserveTest, UnknownClassUsesGlobalSetting) {
  AllocatorOptions options = expandable_options();
  options.expandable_reserve = ReserveSize{0.25, 0};
  start(options);
  engine_->set_stream_class(kDefaultStream, "unheard of");
  EXPECT_EQ(reserved_for(kDefaultStream), 260 * kMiB);
  engine_->set_stream_class(kDefaultStream, "");
  EXPECT_EQ(engine_->stream_class(kDefaultStream), "");
}

TEST_F(ReserveTest, ClassDefaultAppliesWithoutOptions) {
  start(expandable_options());
  engine_->set_stream_class(kDefaultStream, "side");
  engine_->set_default_class_fraction("side", 0.25);
  EXPECT_EQ(reserved_for(kDefaultStream), 260 * kMiB);
}

TEST_F(ReserveTest, GlobalSettingOverridesClassDefault) {
  AllocatorOptions options = expandable_options();
  options.expandable_reserve = ReserveSize{0.5, 0};
  start(options);
  engine_->set_stream_class(kDefaultStream, "side");
  engine_->set_default_class_fraction("side", 0.25);
  EXPECT_EQ(reserved_for(kDefaultStream), 520 * kMiB);
}

TEST_F(ReserveTest, SaturatesAtNineEighthsOfCapacity) {
  AllocatorOptions options = expandable_options();
  options.expandable_reserve = ReserveSize{1e300, 0};
  start(options);
  allocate(900 * kMiB);
  EXPECT_EQ(calls(DeviceCall::kReserve), 1u);
}

TEST_F(ReserveTest, OmitsHintForRequestAboveCapacity) {
  AllocatorOptions options = expandable_options();
  options.expandable_reserve = ReserveSize{0.25, 0};
  start(options);
  const Status refusal = allocation_error(2 * kGiB);
  EXPECT_TRUE(refusal.is_out_of_memory());
  EXPECT_EQ(refusal.message().find("reserve no"), std::string::npos) << refusal.to_string();
  EXPECT_EQ(refusal.message().find("expandable_segments_reserve"), std::string::npos);
}

TEST_F(ReserveTest, RequestAboveReserveNotifiesObservers) {
  AllocatorOptions options = expandable_options();
  options.expandable_reserve = ReserveSize{0.25, 0};
  start(options);
  int notified = 0;
  engine_->add_oom_observer([&](const OomNotice&) { ++notified; });
  EXPECT_TRUE(allocation_error(512 * kMiB).is_out_of_memory());
  EXPECT_EQ(notified, 1);
}

TEST_F(ReserveTest, HintHasActualReserveOnCoarseDevice) {
  machine_options_.granularity_bytes = 64 * kMiB;
  AllocatorOptions options = expandable_options();
  options.expandable_reserve = ReserveSize{0, 100 * kMiB};
  start(options);
  allocate(120 * kMiB);  // fits into two granules
  const Status refusal = allocation_error(130 * kMiB);
  EXPECT_NE(refusal.message().find("reserves no more than 134217728 B"), std::string::npos)
      << refusal.to_string();
}

}  // namespace
}  // namespace ashlar::classic
