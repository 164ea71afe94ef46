# SPDX-License-Identifier: Apache-2.0
#
# The Python package: its files in Python, for builds and installs, and its extension module where
# it is built. Without the module the package is still ashlar.torch, which needs nothing but Python.
set(ASHLAR_PYTHON_FILES
  python/ashlar/__init__.py
  python/ashlar/_ashlar.pyi
  python/ashlar/_display.py
  python/ashlar/_library.py
  python/ashlar/_recording.py
  python/ashlar/errors.py
  python/ashlar/py.typed
  python/ashlar/torch.py)

# Where `cmake --install` puts the package: a folder below the prefix, or anywhere, such as a
# site-packages. The folder is to be on PYTHONPATH, unless Python knows it.
set(ASHLAR_PYTHON_SITE "share/ashlar/python" CACHE PATH
  "Folder that the Python package is installed to, relative to the prefix or absolute")

if(ASHLAR_BUILD_PYTHON)
  add_subdirectory(python)
endif()
