"""Making arrays, and the NumPy names of their types."""
from typing import Any, Optional, Sequence, Union

import numpy

from . import _core
from ._core import Context, NDArray, cpu

Shape = Union[int, Sequence[int]]


def _name_of(dtype: Any) -> str:
    """'float32' for what NumPy takes as a dtype, and for "bfloat16"."""
    return dtype if dtype == "bfloat16" else numpy.dtype(dtype).name


def array(value: Any, ctx: Optional[Context] = None, dtype: Any = None) -> NDArray:
    """Returns an NDArray with a copy of `value`: numbers in lists, or an array of any library with DLPack or buffers.

    Without `dtype`, Python's numbers become float32, and an array keeps its type.
    """
    context = cpu() if ctx is None else ctx
    if isinstance(value, NDArray):
        made = value.copy().as_in_context(context)
    else:
        if not (hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__") or isinstance(value, (bytearray, memoryview))):
            value = numpy.asarray(value, dtype="float32" if dtype is None or dtype == "bfloat16" else dtype)
        made = _core.from_foreign(value, context)
    return made if dtype is None or made.dtype_name == _name_of(dtype) else made.astype(_name_of(dtype))


def empty(shape: Shape, ctx: Optional[Context] = None, dtype: Any = "float32") -> NDArray:
    """Returns an array whose contents are undefined."""
    return _core.empty(shape, cpu() if ctx is None else ctx, _name_of(dtype))


def full(shape: Shape, value: float, ctx: Optional[Context] = None, dtype: Any = "float32") -> NDArray:
    """Returns an array of which every element is `value`."""
    made = empty(shape, ctx, dtype)
    made.fill(value)
    return made


def zeros(shape: Shape, ctx: Optional[Context] = None, dtype: Any = "float32") -> NDArray:
    """Returns an array of zeros."""
    return full(shape, 0, ctx, dtype)


def ones(shape: Shape, ctx: Optional[Context] = None, dtype: Any = "float32") -> NDArray:
    """Returns an array of ones."""
    return full(shape, 1, ctx, dtype)
