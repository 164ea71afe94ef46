// SPDX-License-Identifier: Apache-2.0
//
// Constructs a c10::Error with PyTorch's own constructor and throws it with the type information of
// c10::OutOfMemoryError, which has no members of its own. A handler is selected by the type
// information, so this file depends only on the constructor's signature, not on the object's
// layout.
#include "api/torch/torch_error.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <exception>
#include <typeinfo>

namespace ashlar::torch {
namespace {

// Libraries that throw or catch c10::OutOfMemoryError and thus contain its type information. Each
// depends on libc10.so, which defines the base class c10::Error.
constexpr std::array kLibraries = {"libc10_cuda.so", "libc10_hip.so", "libtorch_python.so"};
// c10::Error::Error(c10::SourceLocation, std::string)
constexpr const char* kConstructorSymbol =
    "_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
constexpr const char* kTypeInfoSymbol = "_ZTIN3c1016OutOfMemoryErrorE";
constexpr size_t kObjectBytes = 1024;  // several times what any version needs

// c10::SourceLocation
struct SourceLocation {
  const char* function;
  const char* file;
  uint32_t line;
};

// A handle to a library; null if the library is not loaded in this process.
class Library {
 public:
  explicit Library(const char* name) : library_(::dlopen(name, RTLD_LAZY | RTLD_NOLOAD)) {}
  ~Library() {
    if (library_ != nullptr) ::dlclose(library_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  void* symbol(const char* name) const {
    return library_ == nullptr ? nullptr : ::dlsym(library_, name);
  }

 private:
  void* library_;
};

using Constructor = void (*)(void* object, SourceLocation where, std::string message);

// The destructor that the C++ runtime calls for the exception object.
void destroy(void* object) { static_cast<std::exception*>(object)->~exception(); }

// Throws c10::OutOfMemoryError with symbols of the library. Returns if the library lacks a symbol.
void throw_with_symbols_of(const Library& library, const std::string& message) {
  const auto construct = reinterpret_cast<Constructor>(library.symbol(kConstructorSymbol));
  auto* type = static_cast<std::type_info*>(library.symbol(kTypeInfoSymbol));
  if (construct == nullptr || type == nullptr) return;
  void* object = abi::__cxa_allocate_exception(kObjectBytes);
  try {
    construct(object, {"ashlar_torch_alloc", "libashlar_torch.so", 0}, message);
  } catch (...) {
    abi::__cxa_free_exception(object);
    throw;
  }
  abi::__cxa_throw(object, type, destroy);
}

}  // namespace

// Looks the symbols up each time, because PyTorch may be loaded later.
void throw_as_pytorch(const std::string& message) {
  for (const char* name : kLibraries) throw_with_symbols_of(Library(name), message);
}

}  // namespace ashlar::torch
