// SPDX-License-Identifier: Apache-2.0
//
// What a pool may spend on saving memory: time of the driver for stitching, and of the host for
// looking where to stitch. Both are a small part of the time that passes, so that saving costs a
// program that much and no more; what is left over is kept for later, up to a bound. A program
// meets most of its sizes in its first seconds, where the part is larger; and what saves much may
// be paid for later. Looking has a bound for each moment, too, closer after those seconds: a loop
// that does nothing but allocate, and pauses now and then, is not to spend on each allocation what
// its pauses brought in; but a few large blocks are not to take a tenth more memory because there
// was no time to look for a moment. Guarded by the engine's lock.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace ashlar::paged {

class Budget {
 public:
  // Where much more is held than was ever live, saving is worth more.
  enum class Need { kUsual, kUrgent };

  void spend_us(double driver_us) {
    for (Purse& purse : purses_) purse.us -= driver_us;
  }
  // To blocks, looking. What had to be spent though there was nothing left is owed, for a while.
  void spend_visits(int64_t count) {
    for (Purse& purse : purses_) {
      purse.visits = std::max(purse.visits - static_cast<double>(count), -kMostOwedVisits);
    }
    visits_at_once_ = std::max(visits_at_once_ - static_cast<double>(count), -2 * most_at_once());
  }
  // There is something left of both at this time; or time may be owed for what saves `saved_part`
  // of all that is held.
  bool is_left(Need need, double saved_part, int64_t now_ns) {
    const auto passed_ns = last_ns_ == kNever ? 0 : static_cast<double>(now_ns - last_ns_);
    last_ns_ = now_ns;
    const double young_ns = std::min(passed_ns, young_left_ns_);
    young_left_ns_ -= young_ns;
    visits_at_once_ = std::min(visits_at_once_ + kVisitsAtOncePerNs * passed_ns, most_at_once());
    const auto times = [&](double factor) {
      return std::max(factor, kYoungFactor) * young_ns + factor * (passed_ns - young_ns);
    };
    for (size_t i = 0; i < purses_.size(); ++i) {
      purses_[i].fill(times(kDriverFactors[i]), times(kLookingFactors[i]));
    }
    const double least_at_once = need == Need::kUrgent ? -most_at_once() : 0;
    if (saved_part < kLargePart && visits_at_once_ < least_at_once) return false;
    const Purse& purse = purses_[static_cast<size_t>(need)];
    return purse.visits > -kOwedForAllVisits * saved_part && purse.us > -kOwedForAllUs * saved_part;
  }
  // Looking is to be done less often, or there will be nothing left.
  bool is_scarce() const { return purses_[0].visits < purses_[0].highest_visits / 2; }

 private:
  static constexpr int64_t kNever = INT64_MIN;
  static constexpr std::array<double, 2> kDriverFactors = {1, 4};  // times as much, by need
  static constexpr std::array<double, 2> kLookingFactors = {1, 2};
  static constexpr double kYoungFactor = 2;
  static constexpr double kYoungNs = 3e9;
  // A hundredth of the time is the driver's, and a little less for looking. A visit takes some 5
  // ns, and more in a program whose own data is in the caches. They are counted, not measured, so
  // that a replay does as the program would have done.
  static constexpr double kUsPerNs = 0.01 / 1000;
  static constexpr double kFirstUs = 5'000;
  static constexpr double kMostUs = 1'000'000;
  static constexpr double kOwedForAllUs = 1'000'000;
  static constexpr double kVisitsPerMs = 200'000;
  static constexpr double kVisitsPerNs = 0.0075 * kVisitsPerMs / 1e6;
  static constexpr double kVisitsAtOncePerNs = 0.02 * kVisitsPerMs / 1e6;
  static constexpr double kMostVisitsAtOnceYoung = 5 * kVisitsPerMs;
  static constexpr double kMostVisitsAtOnce = 1.6 * kVisitsPerMs;
  static constexpr double kFirstVisits = 5 * kVisitsPerMs;
  static constexpr double kMostVisits = 100 * kVisitsPerMs;
  static constexpr double kMostOwedVisits = 32 * kVisitsPerMs;
  static constexpr double kOwedForAllVisits = 100 * kVisitsPerMs;
  static constexpr double kLargePart = 1.0 / 50;  // any growth takes a 64th

  struct Purse {
    double us = kFirstUs;
    double visits = kFirstVisits;
    double highest_visits = kFirstVisits;  // that there were so far

    void fill(double driver_ns, double looking_ns) {
      us = std::min(us + kUsPerNs * driver_ns, kMostUs);
      visits = std::min(visits + kVisitsPerNs * looking_ns, kMostVisits);
      highest_visits = std::max(highest_visits, visits);
    }
  };

  double most_at_once() const {
    return young_left_ns_ > 0 ? kMostVisitsAtOnceYoung : kMostVisitsAtOnce;
  }

  std::array<Purse, 2> purses_;  // by need
  double visits_at_once_ = kMostVisitsAtOnceYoung;
  int64_t last_ns_ = kNever;
  double young_left_ns_ = kYoungNs;
};

}  // namespace ashlar::paged
