// SPDX-License-Identifier: Apache-2.0
//
// Distinguishes the user's code from PyTorch, the interpreter, installed packages and generated
// code, by the name and the file of a frame. Immutable and therefore thread safe.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ashlar/snapshot.h"

namespace ashlar {

enum class FrameKind : uint8_t {
  kUser,         // the user's Python code and extensions; in a C++ program, its own functions
  kLibrary,      // Python code of PyTorch and installed packages, and generated Python code
  kNative,       // C++ code of PyTorch or another library, such as an operator
  kInterpreter,  // the interpreter and its standard library, PyTorch's dispatcher and allocator
};

// Classifies the frames of one snapshot. Some rules need the whole snapshot: a PyTorch folder
// outside site-packages is recognized by the names of its files, and a native frame outside known
// libraries is user code if no frame is Python, or if its source is in a folder with Python code of
// the user.
class FrameClassifier {
 public:
  explicit FrameClassifier(const SnapshotTables& tables);

  FrameKind kind(const Frame& frame) const;
  // Returns whether the frame is Python code, also in a script without a suffix.
  bool is_python(const Frame& frame) const;
  // Returns whether the snapshot has Python frames.
  bool has_python() const { return has_python_; }
  // Returns whether the snapshot has frames of native code.
  bool has_native() const { return has_native_; }

 private:
  FrameKind python_kind(const Frame& frame) const;
  FrameKind native_kind(const Frame& frame) const;
  bool is_users_extension(const Frame& frame) const;

  bool has_python_ = false;
  bool has_native_ = false;
  bool is_spawned_ = false;                // the process was spawned by Python's multiprocessing
  std::set<std::string> library_roots_{};  // folders of libraries, with '/' at the end
  std::set<std::string> user_folders_{};   // with Python code of the user, with '/' at the end
  std::set<std::string> scripts_{};        // Python files without a suffix
};

// Returns whether the path is absolute on Windows: "C:\\..." or "\\\\server\\...".
bool is_windows_path(std::string_view path);

// Returns whether the frame belongs to the interpreter, the dispatcher or the stack unwinder. Uses
// the lists of PyTorch's torch/cuda/_memory_viz.py.
bool is_boilerplate(const Frame& frame);

// Returns the qualified name of a C++ function with its template arguments, but without its return
// type and parameters: "at::native::add<float>" for "at::Tensor at::native::add<float>(long)".
// Returns other names unchanged.
std::string_view function_name(std::string_view demangled);

// Returns the name of the node of PyTorch's backward graph that a C++ frame evaluates, such as
// "MulBackward0"; empty for other frames.
std::string_view backward_node(const Frame& frame);

// Returns whether the frame belongs to the engine that evaluates PyTorch's backward graph.
bool is_backward_engine(const Frame& frame);

}  // namespace ashlar
