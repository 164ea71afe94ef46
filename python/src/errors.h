// Failures of the library as the exceptions of python/ashlar/errors.py.
#pragma once

namespace ashlar::python {

// From here on, what the library throws arrives in Python under its own name.
void translate_errors();

}  // namespace ashlar::python
