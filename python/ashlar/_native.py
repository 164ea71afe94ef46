# SPDX-License-Identifier: Apache-2.0
"""Builds and installs the native PyTorch allocator (src/api/torch/native).

The allocator is a small shared object that is compiled against the installed PyTorch: by CMake, if
it found PyTorch, or here on first use. Objects that are compiled here are kept in a folder that
only the user can write to, one for each combination of PyTorch, compiler and sources. If several
processes start at the same time, one of them compiles and the others wait."""

import concurrent.futures
import contextlib
import ctypes
import fcntl
import hashlib
import importlib
import importlib.util
import os
import pathlib
import platform
import shlex
import shutil
import stat
import subprocess
import tempfile
import time
from typing import Any, Iterator, List, NamedTuple, Optional, Tuple

from ashlar import _library

VERSIONS = ((2, 6), (2, 11))  # the first and the last supported version of PyTorch
PREBUILT = "libashlar_torch_native.so"  # beside libashlar_torch.so, if CMake found PyTorch
SOURCES_FOLDER = "native_sources"  # in an installed package
TIMEOUT_S = 600  # for one run of the compiler, and for a wait for the lock

# The functions of PyTorch that do not work with the plug-in.
MISSING_WITH_PLUG_IN = (
    "memory statistics, snapshots and history through torch.cuda.memory, torch.cuda.MemPool, pool "
    "checkpoints and checks of live allocations (torch.compile with reduce-overhead or "
    "max-autotune), torch.backends.cudnn.benchmark, CUDA tensors in torch.multiprocessing, and "
    "memory events of the profiler")

_HEADERS = ("c/ashlar.h", "c/plugin.h", "export.h", "hooks.h", "snapshot.h", "stats.h", "trace.h",
            "types.h")


class Unavailable(Exception):
    """The native allocator cannot be used; the message says why."""


def install(torch: Any) -> None:
    """Makes the native allocator PyTorch's allocator. Raises Unavailable, without effect, if the
    native allocator cannot be built or does not match."""
    _check_version(torch)
    library = _load(torch)
    bridge = _library.load().ashlar_torch_bridge
    bridge.restype = ctypes.c_void_p
    bridge.argtypes = [ctypes.c_uint32]
    address = bridge(library.ashlar_native_bridge_version())
    if not address:
        raise Unavailable("it was built for another version of libashlar_torch.so")
    message = ctypes.create_string_buffer(1024)
    if library.ashlar_native_install(ctypes.c_void_p(address), message, len(message)) != 0:
        raise RuntimeError(message.value.decode("utf-8", "replace"))


def _check_version(torch: Any) -> None:
    text = str(getattr(torch, "__version__", "unknown"))
    try:
        major, minor = (int(part) for part in text.split(".")[:2])
    except ValueError:
        raise Unavailable(f"the version of PyTorch, {text!r}, is unknown") from None
    first, last = VERSIONS
    if not first <= (major, minor) <= last:
        raise Unavailable(f"PyTorch {text} is not supported (expected {first[0]}.{first[1]} to "
                          f"{last[0]}.{last[1]})")
    if not hasattr(torch, "_C") or not getattr(torch, "__file__", None):
        raise Unavailable("PyTorch has no libraries")


def _load(torch: Any) -> ctypes.CDLL:
    """Loads the prebuilt library if it was built for this PyTorch, or else one from the cache,
    which is built if necessary."""
    prebuilt = pathlib.Path(_library.load().path).parent / PREBUILT
    if prebuilt.is_file():
        library = _open(prebuilt)
        built_for = library.ashlar_native_torch_version().decode()
        if built_for == _release(torch):
            return library
    built = _build(torch)
    try:
        return _open(built)
    except Unavailable:  # for example, the disk was full when the file was written
        built.unlink(missing_ok=True)
        return _open(_build(torch))


def _open(path: pathlib.Path) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
    except OSError as failure:
        raise Unavailable(f"{path} cannot be loaded: {failure}") from failure
    library.ashlar_native_torch_version.restype = ctypes.c_char_p
    library.ashlar_native_bridge_version.restype = ctypes.c_uint32
    library.ashlar_native_install.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    return library


def _release(torch: Any) -> str:
    """Returns the version of PyTorch without its local part: "2.11.0" for "2.11.0+cu128"."""
    return str(torch.__version__).split("+", maxsplit=1)[0]


# Building.


def _build(torch: Any) -> pathlib.Path:
    """Returns the path of the library for this PyTorch, which is built unless it exists."""
    sources, includes = _sources()
    compiler = _compiler()
    flags = _flags(torch, includes)
    key = _key(torch, compiler, flags, sources)
    folder = _cache_folder()
    built = folder / f"torch-{_release(torch)}-{key}.so"
    if built.is_file():
        return built
    with _lock(folder / "lock"):
        if not built.is_file():
            try:
                _build_file(built, _Toolchain(compiler, flags, _link_flags(torch)), sources)
            except OSError as failure:
                raise Unavailable(f"the folder {folder} cannot be used: {failure}") from failure
    return built


class _Toolchain(NamedTuple):
    compiler: List[str]
    compile_flags: List[str]
    link_flags: List[str]


def _build_file(built: pathlib.Path, tools: _Toolchain, sources: List[pathlib.Path]) -> None:
    with tempfile.TemporaryDirectory(dir=built.parent, prefix="build-") as scratch:
        made = pathlib.Path(scratch) / built.name
        units = [path for path in sources if path.suffix == ".cc"]
        objects = [str(made.with_name(f"{unit.stem}.o")) for unit in units]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            commands = [[*tools.compiler, *tools.compile_flags, "-c", "-o", each, str(unit)]
                        for each, unit in zip(objects, units)]
            list(pool.map(_compile, commands))
        _compile([*tools.compiler, "-shared", "-o", str(made), *objects, *tools.link_flags])
        # The replacement is atomic, because processes without the lock may build the same file.
        os.replace(made, built)


@contextlib.contextmanager
def _lock(path: pathlib.Path) -> Iterator[None]:
    """Holds a lock that excludes other processes. The system releases the lock if this process
    dies. Continues without the lock if the file system has no locks, and after TIMEOUT_S."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield
        return
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.05)
            except OSError:
                break
        yield
    finally:
        os.close(file)


def _sources() -> Tuple[List[pathlib.Path], List[pathlib.Path]]:
    """Returns the sources and headers of the native allocator, and the folders to include."""
    package = pathlib.Path(__file__).resolve().parent
    for root in (package / SOURCES_FOLDER, package.parent.parent):
        files = source_files(root)
        if all(path.is_file() for path in files) and any(path.suffix == ".cc" for path in files):
            return files, [root / "src", root / "include"]
    raise Unavailable("its sources are not installed")


def source_files(root: pathlib.Path) -> List[pathlib.Path]:
    """Returns the sources of the native allocator in a folder that is laid out like a checkout."""
    native = root / "src" / "api" / "torch" / "native"
    return [*sorted(native.glob("*.cc")), *sorted(native.glob("*.h")),
            native.parent / "torch_bridge.h",
            *(root / "include" / "ashlar" / name for name in _HEADERS)]


def _compiler() -> List[str]:
    named = os.environ.get("CXX")
    if named:
        return shlex.split(named)
    for name in ("c++", "g++", "clang++"):
        found = shutil.which(name)
        if found:
            return [found]
    raise Unavailable("no C++ compiler was found (looked for CXX, c++, g++ and clang++)")


def _flags(torch: Any, includes: List[pathlib.Path]) -> List[str]:
    root = _root(torch)
    abi = int(bool(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True)))
    is_hip = _is_hip(torch)
    flags = ["-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-w",
             f"-D_GLIBCXX_USE_CXX11_ABI={abi}"]
    if is_hip:
        flags += ["-DUSE_ROCM", "-D__HIP_PLATFORM_AMD__"]
        if _hipify_generation() >= 2:
            flags.append("-DHIPIFY_V2")
    flags += [f"-I{folder}" for folder in includes]
    torch_includes = [root / "include",
                      root / "include" / "torch" / "csrc" / "api" / "include"]
    for folder in [*torch_includes, *_gpu_includes(is_hip)]:
        flags += ["-isystem", str(folder)]
    return flags


def _link_flags(torch: Any) -> List[str]:
    library = "c10_hip" if _is_hip(torch) else "c10_cuda"
    folder = _root(torch) / "lib"
    return [f"-L{folder}", f"-Wl,-rpath,{folder}", "-Wl,--no-as-needed", "-lc10", f"-l{library}",
            *_loaded_runtime()]


def _loaded_runtime() -> List[str]:
    """Returns the path of the C++ runtime that PyTorch uses; empty if it cannot be found. Some
    compilers link their own runtime statically. Two runtimes in one process exchange streams and
    locales through PyTorch's inline functions, which crashes."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            paths = [line.split(maxsplit=5)[-1].strip() for line in maps]
    except OSError:
        return []
    return [path for path in paths if path.startswith("/") and "/libstdc++.so" in path][:1]


def _root(torch: Any) -> pathlib.Path:
    return pathlib.Path(torch.__file__).resolve().parent


def _is_hip(torch: Any) -> bool:
    return bool(getattr(torch.version, "hip", None))


def _hipify_generation() -> int:
    """Returns the major version of hipify, which translated PyTorch's sources from CUDA to HIP."""
    try:
        version = importlib.import_module("torch.utils.hipify").__version__
        return int(str(version).split(".", maxsplit=1)[0])
    except (ImportError, AttributeError, ValueError):
        return 1


def _gpu_includes(is_hip: bool) -> Iterator[pathlib.Path]:
    """Yields folders with the runtime's headers: of the toolkit or, if it is not found, of NVIDIA's
    Python packages."""
    names = ("ROCM_HOME", "ROCM_PATH") if is_hip else ("CUDA_HOME", "CUDA_PATH")
    homes = [os.environ.get(name) for name in names]
    homes.append("/opt/rocm" if is_hip else "/usr/local/cuda")
    header = "hip/hip_runtime_api.h" if is_hip else "cuda_runtime_api.h"
    for home in homes:
        if home and (pathlib.Path(home) / "include" / header).is_file():
            yield pathlib.Path(home) / "include"
            return
    package = None if is_hip else importlib.util.find_spec("nvidia")
    for place in (package.submodule_search_locations or []) if package else []:
        yield from sorted(pathlib.Path(place).glob("*/include"))


def _key(torch: Any, compiler: List[str], flags: List[str], sources: List[pathlib.Path]) -> str:
    """Returns a hash of PyTorch's version, the processor, the compiler, its flags and the
    sources."""
    digest = hashlib.sha256()
    for part in (torch.__version__, getattr(torch.version, "git_version", ""), platform.machine(),
                 *compiler, *_file_state(compiler[0]), *flags):
        digest.update(str(part).encode() + b"\0")
    for path in sources:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _file_state(program: str) -> Tuple[Any, ...]:
    """Returns the path, size and modification time of a program, which change if it is replaced;
    empty if it is not found."""
    found = shutil.which(program)
    if found is None:
        return ()
    real = os.path.realpath(found)
    try:
        state = os.stat(real)
    except OSError:
        return (real,)
    return real, state.st_size, state.st_mtime_ns


def _cache_folder() -> pathlib.Path:
    """Returns the folder for built libraries. Raises Unavailable if another user owns the folder or
    can write to it, because this process runs its libraries, or if its path is relative and
    therefore depends on the current folder."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(home):
        home = os.path.join(os.path.expanduser("~"), ".cache")
    folder = pathlib.Path(os.environ.get("ASHLAR_TORCH_CACHE") or os.path.join(home, "ashlar"))
    if not folder.is_absolute():
        raise Unavailable(f"{str(folder)!r} is not an absolute path (set ASHLAR_TORCH_CACHE to the "
                          "folder for built libraries)")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = folder.stat()
    except OSError as failure:
        raise Unavailable(f"the folder {folder} cannot be used: {failure} (set ASHLAR_TORCH_CACHE "
                          "to another folder)") from failure
    is_ours = state.st_uid == os.getuid()
    if not is_ours or state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Unavailable(f"other users can write to the folder {folder} (expected mode 0700 and "
                          "the owner of this process; set ASHLAR_TORCH_CACHE to another folder)")
    return folder


def _compile(command: List[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                              timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise Unavailable(f"the compiler failed: {failure}") from failure
    if done.returncode != 0:
        raise Unavailable(f"{command[0]} failed: {_first_error(done.stderr)}")


def _first_error(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line]
    return (errors or lines or ["no message"])[0][:500]


def cached_library(torch: Any) -> Optional[str]:
    """Returns the path of the library that `install` has built; None if there is none. For
    diagnostics."""
    try:
        sources, includes = _sources()
        key = _key(torch, _compiler(), _flags(torch, includes), sources)
        built = _cache_folder() / f"torch-{_release(torch)}-{key}.so"
    except Unavailable:
        return None
    return str(built) if built.is_file() else None
