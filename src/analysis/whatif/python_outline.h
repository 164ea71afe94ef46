// SPDX-License-Identifier: Apache-2.0
//
// The functions of a Python source file with their lines. A recorded frame has only an unqualified
// name and a line; the outline adds the class. Pure function.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ashlar {

struct PythonFunction {
  std::string qualified_name{};  // "Block.forward"; a nested function: "train.closure"
  int64_t first_line = 0;        // of "def", from 1
  int64_t last_line = 0;
};

// Returns the functions in the order of their lines. Some may be missing if the file is not valid
// Python.
std::vector<PythonFunction> python_functions(const std::vector<std::string>& lines);

}  // namespace ashlar
