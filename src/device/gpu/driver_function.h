// SPDX-License-Identifier: Apache-2.0
//
// Driver functions that are looked up by name in the driver's library at run time.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/text.h"
#include "device/driver_library.h"
#include "device/gpu/driver.h"

namespace ashlar::gpu {

// The address and the name of a driver function, which can be called once a FunctionLoader has
// loaded it.
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

// A function that returns a string and cannot fail.
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

// Loads functions from one library, and records which required functions are missing.
class FunctionLoader {
 public:
  // REQUIRES: `library` outlives the loader. Names that do not start with `prefix` are ignored,
  // because they belong to another vendor.
  explicit FunctionLoader(const DriverLibrary& library, std::string_view prefix = "")
      : library_(library), prefix_(prefix) {}

  // Functions that are loaded after this call invoke `function` whenever they fail.
  void call_after_failures(const DriverFunction<int()>& function) {
    after_failure_ = function.function_;
  }

  // Loads the function under the first of `names` that the library has, if any. The names must be
  // string literals.
  template <typename Signature>
  void optional(DriverFunction<Signature>& function, std::initializer_list<const char*> names) {
    for (const char* name : names) {
      void* found = has_prefix(name) ? library_.find(name) : nullptr;
      if (found == nullptr) continue;
      function.name_ = name;
      function.function_ = reinterpret_cast<decltype(function.function_)>(found);
      if constexpr (requires { function.after_failure_; }) function.after_failure_ = after_failure_;
      return;
    }
  }
  // Like `optional`, but if the library has none of the names, status() returns an error.
  template <typename Signature>
  void require(DriverFunction<Signature>& function, std::initializer_list<const char*> names) {
    optional(function, names);
    if (function.is_loaded()) return;
    if (++missing_count_ > kMaxNamedFunctions) return;
    missing_names_ += text(missing_names_.empty() ? "" : ", ", first_with_prefix(names));
  }
  template <typename Signature>
  void require(DriverFunction<Signature>& function, const char* name) {
    require(function, {name});
  }

  // Returns kUnsupported if required functions are missing; the message names up to three of them.
  Status status() const {
    if (missing_names_.empty()) return {};
    return Status::unsupported(text(library_.name(), " has no ", missing_names_,
                                    missing_count_ > kMaxNamedFunctions ? " and others" : "", " (",
                                    missing_count_, " missing): update the driver"));
  }

 private:
  static constexpr int kMaxNamedFunctions = 3;

  bool has_prefix(std::string_view name) const { return name.starts_with(prefix_); }
  const char* first_with_prefix(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      if (has_prefix(name)) return name;
    }
    return "";
  }

  const DriverLibrary& library_;
  const std::string_view prefix_;
  int (*after_failure_)() = nullptr;
  std::string missing_names_;
  int missing_count_ = 0;
};

}  // namespace ashlar::gpu
