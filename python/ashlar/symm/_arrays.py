# SPDX-License-Identifier: Apache-2.0
"""Memory as arrays: views of symmetric memory for other libraries, and memory of their arrays."""

import importlib
import math
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple, Union

from ashlar.errors import InvalidArgument

Shape = Union[None, int, Sequence[int]]


class ElementType(NamedTuple):
    """An element type. `code` is the value of ashlar_symm_type."""

    name: str
    code: int
    size: int
    typestr: str  # of the array interfaces, which lack bfloat16


ELEMENT_TYPES: Dict[str, ElementType] = {each.name: each for each in (
    ElementType("float32", 0, 4, "<f4"), ElementType("float16", 1, 2, "<f2"),
    ElementType("bfloat16", 2, 2, "<u2"), ElementType("float64", 3, 8, "<f8"),
    ElementType("int8", 4, 1, "|i1"), ElementType("int16", 5, 2, "<i2"),
    ElementType("int32", 6, 4, "<i4"), ElementType("int64", 7, 8, "<i8"),
    ElementType("uint8", 8, 1, "|u1"), ElementType("uint16", 9, 2, "<u2"),
    ElementType("uint32", 10, 4, "<u4"), ElementType("uint64", 11, 8, "<u8"))}


def element_type(dtype: Any) -> ElementType:
    """Converts a name, or a data type of numpy or PyTorch."""
    if isinstance(dtype, type):  # numpy.float32
        name = dtype.__name__
    else:
        name = getattr(dtype, "name", None) or str(dtype).rpartition(".")[2]
    if name not in ELEMENT_TYPES:
        raise InvalidArgument(f"element type {name!r} (expected one of "
                              f"{', '.join(sorted(ELEMENT_TYPES))})")
    return ELEMENT_TYPES[name]


class View:
    """An array in symmetric memory, of this rank or of another. Keeps the memory mapped. Other
    libraries access it without a copy: with numpy() and the array interface if it is host memory,
    with tensor() and `__cuda_array_interface__` if it is memory of a GPU, and with DLPack."""

    def __init__(self, owner: Any, address: int, device: Optional[str], dtype: ElementType,
                 shape: Tuple[int, ...]) -> None:
        self._owner = owner  # keeps the memory mapped
        self.address = address
        self.device = device  # "cuda:0"; None: host memory
        self.shape = shape
        self._type = dtype

    @property
    def dtype(self) -> str:
        """The name of the element type."""
        return self._type.name

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return math.prod(self.shape) * self._type.size

    def numpy(self) -> Any:
        """Returns a numpy array of host memory. bfloat16 elements become uint16."""
        if self.device is not None:
            raise InvalidArgument(f"the memory is on {self.device} (expected host memory)")
        return importlib.import_module("numpy").asarray(self)

    def tensor(self) -> Any:
        """Returns a tensor of PyTorch."""
        torch = importlib.import_module("torch")
        if self.device is None:
            tensor = torch.from_numpy(self.numpy())
        else:
            index = self._gpu_index()
            tensor = torch.as_tensor(self, device=torch.device("cuda", index))
        return tensor.view(torch.bfloat16) if self.dtype == "bfloat16" else tensor

    def _gpu_index(self) -> int:
        backend, _, index = (self.device or "host").partition(":")
        if backend not in ("cuda", "hip"):
            raise AttributeError(f"the memory is on {self.device or 'the host'}, not on a GPU")
        return int(index)

    def _interface(self) -> Dict[str, Any]:
        return {"shape": self.shape, "typestr": self._type.typestr, "data": (self.address, False),
                "strides": None, "version": 3}

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        if self.device is not None:
            raise AttributeError(f"the memory is on {self.device}, not on the host")
        return self._interface()

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        self._gpu_index()
        return self._interface()

    def __dlpack_device__(self) -> Tuple[int, int]:
        if self.device is None:
            return 1, 0  # kDLCPU
        return (10 if self.device.startswith("hip") else 2), self._gpu_index()

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        """Exports host memory through numpy, and memory of a GPU through PyTorch."""
        if options.get("copy"):
            raise BufferError("symmetric memory is exported without a copy only")
        if self.device is None:
            return self.numpy().__dlpack__()
        return self.tensor().__dlpack__(stream=stream)

    def __repr__(self) -> str:
        return (f"<symmetric memory at {self.address:#x}, {self.dtype}, shape {self.shape}, "
                f"{self.device or 'host'}>")


def make_view(owner: Any, memory: Tuple[int, int], device: Optional[str], dtype: Any,
              shape: Shape, offset: int) -> View:
    """Makes a view of a part of `memory`, an address and a size in bytes. `offset` is in bytes."""
    kind = element_type(dtype)
    address, size = memory
    if offset < 0 or offset % kind.size != 0:
        raise InvalidArgument(f"an offset of {offset} bytes (expected a multiple of {kind.size})")
    if shape is None:
        shape = max(size - offset, 0) // kind.size
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(extent < 0 for extent in extents):
        raise InvalidArgument(f"shape {extents} has a negative extent")
    view = View(owner, address + offset, device, kind, extents)
    if offset + view.nbytes > size:
        raise InvalidArgument(f"{view.nbytes} bytes at offset {offset} of memory of {size} bytes")
    return view


class Memory(NamedTuple):
    """The memory of an array. `keep` keeps it alive."""

    address: int
    nbytes: int
    dtype: Optional[ElementType]  # None: unknown
    keep: Any


def memory_of(array: Any, is_written: bool = False) -> Memory:
    """Returns the memory of a View, of an array of numpy, PyTorch or CuPy, or of an object with the
    buffer protocol. Raises InvalidArgument unless it is contiguous and, if it `is_written`,
    writable."""
    if isinstance(array, View):
        return Memory(array.address, array.nbytes, ELEMENT_TYPES[array.dtype], array)
    if callable(getattr(array, "data_ptr", None)):  # PyTorch
        if not array.is_contiguous():
            raise InvalidArgument("the tensor is not contiguous")
        return Memory(array.data_ptr(), array.numel() * array.element_size(),
                      ELEMENT_TYPES.get(str(array.dtype).rpartition(".")[2]), array)
    for name in ("__array_interface__", "__cuda_array_interface__"):
        interface = getattr(array, name, None)
        if interface is not None:
            return _memory_of_interface(array, interface, is_written)
    numpy = importlib.import_module("numpy")
    try:
        made = numpy.frombuffer(array, dtype=numpy.uint8)
    except (TypeError, ValueError) as failure:
        raise InvalidArgument(f"{type(array).__name__} is not an array in contiguous memory: "
                              f"{failure}") from None
    return _memory_of_interface(made, made.__array_interface__, is_written)


def _memory_of_interface(array: Any, interface: Dict[str, Any], is_written: bool) -> Memory:
    kind = next((each for each in ELEMENT_TYPES.values()
                 if each.typestr == interface["typestr"] and each.name != "bfloat16"), None)
    size = int(interface["typestr"][2:])
    shape = interface["shape"]
    strides = interface.get("strides")
    if strides is not None and not _is_contiguous(shape, strides, size):
        raise InvalidArgument("the array is not contiguous")
    address, is_read_only = interface["data"]
    if is_written and is_read_only:
        raise InvalidArgument("the array is read-only")
    return Memory(address, math.prod(shape) * size, kind, array)


def _is_contiguous(shape: Sequence[int], strides: Sequence[int], size: int) -> bool:
    expected = size
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent > 1 and stride != expected:
            return False
        expected *= extent
    return True
