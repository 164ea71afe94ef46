// SPDX-License-Identifier: Apache-2.0
//
// A function of a driver, found by name when the driver is loaded: called, it says by that name how
// the call ended.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/text.h"
#include "device/driver_library.h"
#include "device/gpu/driver.h"

namespace ashlar::gpu {

template <typename Signature>
class DriverFunction;

template <typename... Arguments>
class DriverFunction<int(Arguments...)> {
 public:
  // REQUIRES: it was found.
  Outcome operator()(Arguments... arguments) const {
    const Outcome outcome{name_, function_(arguments...)};
    if (!outcome.ok() && after_failure_ != nullptr) (void)after_failure_();
    return outcome;
  }
  bool is_there() const { return function_ != nullptr; }

 private:
  friend class FunctionFinder;
  const char* name_ = "";
  int (*function_)(Arguments...) = nullptr;
  int (*after_failure_)() = nullptr;
};

// The same for a function that cannot fail, such as one that gives a text.
template <typename... Arguments>
class DriverFunction<const char*(Arguments...)> {
 public:
  const char* operator()(Arguments... arguments) const { return function_(arguments...); }
  bool is_there() const { return function_ != nullptr; }

 private:
  friend class FunctionFinder;
  const char* name_ = "";
  const char* (*function_)(Arguments...) = nullptr;
};

// Finds the functions of one library and keeps account of those that are missing.
class FunctionFinder {
 public:
  // `library` outlives the finder. Names that begin otherwise than `prefix` are another vendor's
  // and passed over.
  explicit FunctionFinder(const DriverLibrary& library, std::string_view prefix = "")
      : library_(library), prefix_(prefix) {}

  // Functions that are found from now on call this one after each of their failures.
  void call_after_failures(const DriverFunction<int()>& function) {
    after_failure_ = function.function_;
  }

  // The first of the names (literals) that the library has.
  template <typename Signature>
  void want(DriverFunction<Signature>& function, std::initializer_list<const char*> names) {
    for (const char* name : names) {
      void* found = is_own(name) ? library_.find(name) : nullptr;
      if (found == nullptr) continue;
      function.name_ = name;
      function.function_ = reinterpret_cast<decltype(function.function_)>(found);
      if constexpr (requires { function.after_failure_; }) function.after_failure_ = after_failure_;
      return;
    }
  }
  // The same, and the library cannot be used without.
  template <typename Signature>
  void need(DriverFunction<Signature>& function, std::initializer_list<const char*> names) {
    want(function, names);
    if (function.is_there()) return;
    const int most_named = 3;
    if (++missing_count_ > most_named) return;
    missing_ += text(missing_.empty() ? "" : ", ", first_own(names));
  }
  template <typename Signature>
  void need(DriverFunction<Signature>& function, const char* name) {
    need(function, {name});
  }

  // kUnsupported: some function was needed and is missing; the message names the first ones.
  Status status() const {
    if (missing_.empty()) return {};
    return Status::unsupported(text(library_.name(), " has no ", missing_,
                                    missing_count_ > 3 ? " and others" : "", " (", missing_count_,
                                    " missing); expected a driver that has: update it"));
  }

 private:
  bool is_own(std::string_view name) const { return name.starts_with(prefix_); }
  const char* first_own(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      if (is_own(name)) return name;
    }
    return "";
  }

  const DriverLibrary& library_;
  const std::string_view prefix_;
  int (*after_failure_)() = nullptr;
  std::string missing_;
  int missing_count_ = 0;
};

}  // namespace ashlar::gpu
