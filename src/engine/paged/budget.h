// What a pool may spend on saving memory: time of the driver for stitching, and of the host for
// looking where to stitch. Guarded by the engine's lock.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ashlar::paged {

class Budget {
 public:
  void spend_us(double driver_us) { spent_us_ += driver_us; }
  // To blocks, looking.
  void spend_visits(int64_t count) {
    visits_left_ = std::max(visits_left_ - static_cast<double>(count), -kMostOwedVisits);
  }
  // There is something left of both, at this time and after so many allocations.
  bool is_left(int64_t now_ns, int64_t allocation_count) {
    const int64_t passed_ns = last_ns_ == kNever ? 0 : now_ns - last_ns_;
    last_ns_ = now_ns;
    visits_left_ =
        std::min(visits_left_ + kVisitsPerNs * static_cast<double>(passed_ns), kMostVisits);
    const double us = kFirstUs + kUsPerAllocation * static_cast<double>(allocation_count);
    return visits_left_ > 0 && spent_us_ < us;
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

  double spent_us_ = 0;
  double visits_left_ = kMostVisits;
  int64_t last_ns_ = kNever;
};

}  // namespace ashlar::paged
