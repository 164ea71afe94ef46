# SPDX-License-Identifier: Apache-2.0
#
# The Python package: its .py files, and its extension module if it is built. Without the module,
# the package still provides ashlar.torch, which is plain Python.
set(ASHLAR_PYTHON_FILES
  python/ashlar/__init__.py
  python/ashlar/_ashlar.pyi
  python/ashlar/_display.py
  python/ashlar/_library.py
  python/ashlar/_native.py
  python/ashlar/_recording.py
  python/ashlar/_results.py
  python/ashlar/_sections.py
  python/ashlar/allocators/__init__.py
  python/ashlar/allocators/cupy.py
  python/ashlar/allocators/numba.py
  python/ashlar/allocators/torch.py
  python/ashlar/errors.py
  python/ashlar/py.typed
  python/ashlar/symm/__init__.py
  python/ashlar/symm/_arrays.py
  python/ashlar/symm/_functions.py
  python/ashlar/symm/_stores.py
  python/ashlar/torch.py)

# Where `cmake --install` puts the package: relative to the prefix, or absolute, such as a
# site-packages folder. Add it to PYTHONPATH unless Python searches it already.
set(ASHLAR_PYTHON_SITE "share/ashlar/python" CACHE PATH
  "Folder that the Python package is installed to, relative to the prefix or absolute")

if(ASHLAR_BUILD_PYTHON)
  add_subdirectory(python)
endif()
