# SPDX-License-Identifier: Apache-2.0
"""Builds the extension module and the PyTorch plug-in with CMake, for pip:

    pip install --no-build-isolation ./python

Needs CMake, a compiler and the packages listed in scripts/setup, but no network. The build folder
is build/pip, or ASHLAR_PIP_BUILD if set, and is reused. CMAKE_ARGS is passed to CMake."""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import sysconfig

import setuptools
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).resolve().parent.parent


class CMakeBuild(build_ext):
    """Builds both libraries and copies them into the package."""

    def build_extension(self, extension):
        binary = pathlib.Path(os.environ.get("ASHLAR_PIP_BUILD", ROOT / "build" / "pip"))
        subprocess.run(
            ["cmake", "-S", ROOT, "-B", binary, "-DCMAKE_BUILD_TYPE=Release",
             "-DASHLAR_BUILD_CLI=OFF", "-DASHLAR_BUILD_TESTS=OFF", "-DASHLAR_BUILD_REDIS=OFF",
             "-DASHLAR_BUILD_UCX=OFF", "-DASHLAR_INSTALL=OFF", "-DCMAKE_UNITY_BUILD=ON",
             f"-DPython_EXECUTABLE={sys.executable}", "-DASHLAR_REQUIRE_PYTHON=ON",
             *shlex.split(os.environ.get("CMAKE_ARGS", ""))], check=True)
        subprocess.run(
            ["cmake", "--build", binary, "--parallel", str(os.cpu_count()),
             "--target", "ashlar_torch", "ashlar_python"], check=True)
        module = pathlib.Path(self.get_ext_fullpath(extension.name))
        module.parent.mkdir(parents=True, exist_ok=True)
        # The build folder may also contain modules for other Python versions.
        built = binary / "python" / "ashlar" / f"_ashlar{sysconfig.get_config_var('EXT_SUFFIX')}"
        if not built.is_file():
            raise FileNotFoundError(f"CMake did not build {built} for {sys.executable}")
        shutil.copy2(built, module)
        shutil.copy2(binary / "lib" / "libashlar_torch.so", module.parent)


setuptools.setup(ext_modules=[setuptools.Extension("ashlar._ashlar", sources=[])],
                 cmdclass={"build_ext": CMakeBuild})
