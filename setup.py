# SPDX-License-Identifier: Apache-2.0
"""Builds the binaries of the Python package with CMake, for pip:

    pip install --no-build-isolation .

These are the extension module, libashlar_torch.so and the command `ashlar`. Needs CMake, a compiler
and the packages listed in scripts/setup, but no network. The build folder is build/pip and is
reused; CMAKE_ARGS is passed to CMake. ASHLAR_PIP_BUILD names another build folder. If that is
configured already, its configuration is kept."""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import sysconfig

import setuptools
from setuptools.command.build_ext import build_ext
# setuptools provides distutils, also for Python versions without it.
from distutils.command.build_scripts import build_scripts  # pylint: disable=wrong-import-order

ROOT = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "python"))
from ashlar import _native  # noqa: E402  pylint: disable=wrong-import-position

BINARY = pathlib.Path(os.environ.get("ASHLAR_PIP_BUILD", ROOT / "build" / "pip"))
COMMAND = BINARY / "bin" / "ashlar"


def run_cmake():
    """Configures and builds."""
    is_kept = "ASHLAR_PIP_BUILD" in os.environ and (BINARY / "CMakeCache.txt").is_file()
    if not is_kept:
        subprocess.run(
            ["cmake", "-S", ROOT, "-B", BINARY, "-DCMAKE_BUILD_TYPE=Release",
             "-DASHLAR_BUILD_TESTS=OFF", "-DASHLAR_BUILD_REDIS=OFF", "-DASHLAR_BUILD_UCX=OFF",
             "-DASHLAR_INSTALL=OFF", "-DCMAKE_UNITY_BUILD=ON",
             f"-DPython_EXECUTABLE={sys.executable}", "-DASHLAR_REQUIRE_PYTHON=ON",
             *shlex.split(os.environ.get("CMAKE_ARGS", ""))], check=True)
    subprocess.run(
        ["cmake", "--build", BINARY, "--parallel", str(os.cpu_count()),
         "--target", "ashlar_torch", "ashlar_python", "ashlar_cli"], check=True)


def copy_stripped(source, target):
    """Copies a binary without its symbols and debug information."""
    shutil.copy2(source, target)
    if shutil.which("strip"):
        subprocess.run(["strip", "--strip-unneeded", target], check=True)


class BuildBinaries(build_ext):
    """Builds everything, and copies the libraries and the sources of the native allocator, which
    is compiled on first use, into the package."""

    def build_extension(self, extension):
        run_cmake()
        module = pathlib.Path(self.get_ext_fullpath(extension.name))
        module.parent.mkdir(parents=True, exist_ok=True)
        # The build folder may also contain modules for other Python versions.
        built = BINARY / "python" / "ashlar" / f"_ashlar{sysconfig.get_config_var('EXT_SUFFIX')}"
        if not built.is_file():
            raise FileNotFoundError(f"CMake did not build {built} for {sys.executable}")
        copy_stripped(built, module)
        copy_stripped(BINARY / "lib" / "libashlar_torch.so", module.parent / "libashlar_torch.so")
        for source in _native.source_files(ROOT):
            target = module.parent / _native.SOURCES_FOLDER / source.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


class CopyCommand(build_scripts):
    """Puts the command where setuptools expects scripts. It is a binary, so the function that
    setuptools has for scripts, which edits their first line, is replaced."""

    def get_source_files(self):
        return []

    def copy_scripts(self):
        self.mkpath(self.build_dir)
        target = pathlib.Path(self.build_dir) / COMMAND.name
        copy_stripped(COMMAND, target)
        target.chmod(0o755)
        return [str(target)], [str(target)]


setuptools.setup(ext_modules=[setuptools.Extension("ashlar._ashlar", sources=[])],
                 scripts=[str(COMMAND)],
                 cmdclass={"build_ext": BuildBinaries, "build_scripts": CopyCommand})
