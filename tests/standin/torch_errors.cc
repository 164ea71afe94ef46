// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's exception types for tests without PyTorch: the symbols that libashlar_torch.so looks
// up, and a function that catches exceptions as PyTorch does. Unlike in PyTorch, the base and the
// derived type are in one library.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace c10 {

struct SourceLocation {
  const char* function;
  const char* file;
  uint32_t line;
};

namespace {
int error_count = 0;
}

class Error : public std::exception {
 public:
  Error(SourceLocation where, std::string message);
  Error(const Error&) = delete;
  ~Error() override { --error_count; }
  const char* what() const noexcept override { return message_.c_str(); }
  const SourceLocation& where() const { return where_; }

 private:
  std::string message_;
  SourceLocation where_;
};

Error::Error(SourceLocation where, std::string message)
    : message_(std::move(message)), where_(where) {
  ++error_count;
}

class OutOfMemoryError : public Error {
  using Error::Error;
};

}  // namespace c10

extern "C" int torch_standin_error_count() { return c10::error_count; }

// Returns a description of the exception that an allocation of `bytes` throws. Valid until the next
// call.
extern "C" const char* torch_standin_catch(void* (*allocate)(size_t, int, void*), size_t bytes) {
  static std::string caught;
  try {
    allocate(bytes, 0, nullptr);
    caught = "nothing";
  } catch (const c10::OutOfMemoryError& error) {
    const bool is_whole = std::string(error.where().function) == "ashlar_torch_alloc";
    caught = is_whole ? std::string("OutOfMemoryError: ") + error.what() : "another place";
  } catch (const std::exception& other) {
    caught = other.what();
  }
  return caught.c_str();
}
