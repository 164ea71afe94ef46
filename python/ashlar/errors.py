# SPDX-License-Identifier: Apache-2.0
"""What Ashlar raises. Each class is that of include/ashlar/errors.h, and also the one of Python's
own that programs catch for such a thing.

    Error                     any failure: a RuntimeError
    ├── OutOfMemoryError      the device has no memory, after everything was tried: a MemoryError
    ├── InvalidArgument       the caller's mistake; nothing changed: a ValueError
    ├── FormatError           unreadable input, or text that makes no sense: a ValueError
    ├── FileError             a file cannot be opened, read or written: an OSError
    ├── DeviceError           a driver or system call failed, or the device is lost
    ├── TimeoutError          a deadline passed: Python's TimeoutError
    └── PeerError             another rank died or gave up: a ConnectionError"""

import builtins

__all__ = [
    "DeviceError", "Error", "FileError", "FormatError", "OutOfMemory", "OutOfMemoryError",
    "PeerError", "TimeoutError", "InvalidArgument",
]


class Error(RuntimeError):
    """A failure of the library; the text is its own."""

    kind: str = ""  # "out of memory", "invalid argument", and so on
    call: str = ""  # the driver's or system's call that failed, if one did
    code: int = 0  # its own number for why


class OutOfMemoryError(Error, MemoryError):
    """The device has no memory, after everything was tried. The text is the report."""


OutOfMemory = OutOfMemoryError  # as C++ calls it


class InvalidArgument(Error, ValueError):
    """The caller's mistake; nothing changed."""


class FormatError(Error, ValueError):
    """Unreadable input: the text says where, and what was expected."""


class FileError(Error, OSError):
    """A file cannot be opened, read or written: errno says why, filename which."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class DeviceError(Error):
    """A driver or system call failed, or the device is lost."""


class TimeoutError(Error, builtins.TimeoutError):
    """A deadline passed. What was begun is taken back, and may be tried again."""


class PeerError(Error, ConnectionError):
    """Another rank died or gave up."""
