# SPDX-License-Identifier: Apache-2.0
"""Exceptions. Each class except FileError corresponds to a class in include/ashlar/errors.h. Most
classes also derive from a matching built-in exception.

    Error                     any failure: a RuntimeError
    ├── OutOfMemoryError      the device or the host is out of memory: a MemoryError
    ├── InvalidArgument       a wrong argument; nothing changed: a ValueError
    ├── FormatError           malformed input: a ValueError
    ├── FileError             a file cannot be opened, read or written: an OSError
    ├── DeviceError           a driver or system call failed, or the device is lost
    ├── TimeoutError          a deadline passed: a built-in TimeoutError
    └── PeerError             another rank failed: a ConnectionError"""

import builtins

__all__ = [
    "DeviceError", "Error", "FileError", "FormatError", "OutOfMemory", "OutOfMemoryError",
    "PeerError", "TimeoutError", "InvalidArgument",
]


class Error(RuntimeError):
    """Base class of all failures."""

    kind: str = ""  # "out of memory", "invalid argument", and so on
    call: str = ""  # the failed driver or system call, if any
    code: int = 0  # the error code of that driver or system call


class OutOfMemoryError(Error, MemoryError):
    """The device is out of memory even after all recovery steps, and the message is a report; or
    the host is out of memory."""


OutOfMemory = OutOfMemoryError  # the name in C++


class InvalidArgument(Error, ValueError):
    """A wrong argument. Nothing was changed."""


class FormatError(Error, ValueError):
    """Malformed input. The message gives the position and what was expected."""


class FileError(Error, OSError):
    """A file cannot be opened, read or written. See `errno` and `filename`."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class DeviceError(Error):
    """A driver or system call failed, or the device is lost."""


class TimeoutError(Error, builtins.TimeoutError):
    """A deadline passed. The call may be repeated."""


class PeerError(Error, ConnectionError):
    """Another rank failed."""
