// What a pool may spend on saving memory: time of the driver for stitching, and of the host for
// looking where to stitch. Guarded by the engine's lock.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ashlar::paged {

class Budget {
 public:
  // Where much more is held than was ever live, saving is worth more.
  enum class Need { kUsual, kUrgent };

  void spend_us(double driver_us) { spent_us_ += driver_us; }
  // To blocks, looking.
  void spend_visits(int64_t count) {
    for (double* left : {&usual_left_, &urgent_left_}) {
      *left = std::max(*left - static_cast<double>(count), -kMostOwedVisits);
    }
  }
  // There is something left of both, at this time and after so many allocations.
  bool is_left(Need need, int64_t now_ns, int64_t allocation_count) {
    const auto passed_ns = last_ns_ == kNever ? 0 : static_cast<double>(now_ns - last_ns_);
    last_ns_ = now_ns;
    usual_left_ = std::min(usual_left_ + kVisitsPerNs * passed_ns, kMostVisits);
    urgent_left_ = std::min(urgent_left_ + kUrgency * kVisitsPerNs * passed_ns, kMostVisits);
    const double us = kFirstUs + kUsPerAllocation * static_cast<double>(allocation_count);
    if (need == Need::kUrgent) return urgent_left_ > 0 && spent_us_ < kUrgency * us;
    return usual_left_ > 0 && spent_us_ < us;
  }

 private:
  static constexpr int64_t kNever = INT64_MIN;
  static constexpr double kFirstUs = 50'000;
  static constexpr double kUsPerAllocation = 2;
  // Looking may take a sixteenth of a program's time; a visit takes some 8 ns. A program that does
  // nothing but allocate has no such time, and is better off with memory to spare. What is left
  // over is kept for later, up to a tenth of a second; what had to be spent nevertheless is owed.
  static constexpr double kVisitsPerNs = 1.0 / 16 / 8;
  static constexpr double kMostVisits = 12'500'000;
  static constexpr double kMostOwedVisits = 1'000'000;
  static constexpr double kUrgency = 4;  // times as much of both

  double spent_us_ = 0;
  double usual_left_ = kMostVisits;
  double urgent_left_ = kMostVisits;
  int64_t last_ns_ = kNever;
};

}  // namespace ashlar::paged
