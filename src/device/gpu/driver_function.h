// SPDX-License-Identifier: Apache-2.0
//
// Functions of a driver that are looked up by name when its library is loaded.
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
  // REQUIRES: is_loaded().
  DriverResult operator()(Arguments... arguments) const {
    const DriverResult result{name_, function_(arguments...)};
    if (!result.ok() && after_failure_ != nullptr) (void)after_failure_();
    return result;
  }
  bool is_loaded() const { return function_ != nullptr; }

 private:
  friend class FunctionLoader;
  const char* name_ = "";
  int (*function_)(Arguments...) = nullptr;
  int (*after_failure_)() = nullptr;
};

// A function that cannot fail, such as one that returns a string.
template <typename... Arguments>
class DriverFunction<const char*(Arguments...)> {
 public:
  const char* operator()(Arguments... arguments) const { return function_(arguments...); }
  bool is_loaded() const { return function_ != nullptr; }

 private:
  friend class FunctionLoader;
  const char* name_ = "";
  const char* (*function_)(Arguments...) = nullptr;
};

// Loads functions from one library and records the missing ones.
class FunctionLoader {
 public:
  // `library` outlives the loader. Ignores names that do not start with `prefix`: they belong to
  // another vendor.
  explicit FunctionLoader(const DriverLibrary& library, std::string_view prefix = "")
      : library_(library), prefix_(prefix) {}

  // Functions loaded from now on call `function` after each failure.
  void call_after_failures(const DriverFunction<int()>& function) {
    after_failure_ = function.function_;
  }

  // Loads the first of the names (literals) that the library has.
  template <typename Signature>
  void optional(DriverFunction<Signature>& function, std::initializer_list<const char*> names) {
    for (const char* name : names) {
      void* found = is_own(name) ? library_.find(name) : nullptr;
      if (found == nullptr) continue;
      function.name_ = name;
      function.function_ = reinterpret_cast<decltype(function.function_)>(found);
      if constexpr (requires { function.after_failure_; }) function.after_failure_ = after_failure_;
      return;
    }
  }
  // Like optional, but status() fails if the library has none of the names.
  template <typename Signature>
  void require(DriverFunction<Signature>& function, std::initializer_list<const char*> names) {
    optional(function, names);
    if (function.is_loaded()) return;
    if (++missing_count_ > kMaxNamedFunctions) return;
    missing_ += text(missing_.empty() ? "" : ", ", first_own(names));
  }
  template <typename Signature>
  void require(DriverFunction<Signature>& function, const char* name) {
    require(function, {name});
  }

  // kUnsupported: a required function is missing; the message names the first ones.
  Status status() const {
    if (missing_.empty()) return {};
    return Status::unsupported(text(library_.name(), " has no ", missing_,
                                    missing_count_ > kMaxNamedFunctions ? " and others" : "", " (",
                                    missing_count_, " missing): update the driver"));
  }

 private:
  static constexpr int kMaxNamedFunctions = 3;

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
