// SPDX-License-Identifier: Apache-2.0
//
// Ratios that are to hold, and whether they did.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace ashlar::symm {

class Bounds {
 public:
  // A ratio beyond `most` is wrong, and remembered.
  bool holds(const std::string& title, double ratio, double most) {
    ++judged_count_;
    if (ratio <= most) return true;
    exceeded_.push_back({title, ratio, most});
    return false;
  }

  bool hold_all() const { return exceeded_.empty(); }

  void print() const {
    std::printf("%d ratios have a bound, and %zu exceed it\n", judged_count_, exceeded_.size());
    for (const Exceeded& each : exceeded_) {
      std::printf("  %s: %.2f, and at most %.2f is wanted\n", each.title.c_str(), each.ratio,
                  each.most);
    }
  }

 private:
  struct Exceeded {
    std::string title{};
    double ratio = 0;
    double most = 0;
  };

  int judged_count_ = 0;
  std::vector<Exceeded> exceeded_;
};

}  // namespace ashlar::symm
