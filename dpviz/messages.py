"""The one wire format: a header in JSON and raw arrays behind it. Nothing is pickled: who reads such bytes runs none of
them."""

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

_LENGTH, _ALIGNED = struct.Struct("<Q"), 64  # arrays begin at multiples of this, as NumPy's own do
_KINDS = "biufcSU"  # of dtypes that are nothing but their bytes


def pack(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> list[bytes | memoryview]:
    """A message as pieces of bytes, to be sent or joined: what JSON can say, and arrays by name. Nothing is copied that
    lies in one piece. Raises TypeError for an array of Python objects."""
    pieces: list[bytes | memoryview] = []
    described = []
    for name, array in arrays.items():
        if array.dtype.kind not in _KINDS:
            raise TypeError(f"{name}: an array of {array.dtype} cannot travel")
        fortran = array.flags.f_contiguous and not array.flags.c_contiguous
        whole = np.asarray(array, order="F" if fortran else "C")
        described.append([name, array.dtype.str, list(array.shape), fortran])
        flat = whole.ravel(order="K").view(np.uint8) if whole.size else np.empty(0, np.uint8)
        pieces += [flat.data, bytes(-flat.nbytes % _ALIGNED)]
    text = json.dumps({"header": dict(header), "arrays": described}).encode()
    text += b" " * (-(len(text) + _LENGTH.size) % _ALIGNED)
    return [_LENGTH.pack(len(text)), text, *pieces]


def unpack(message: bytes | bytearray) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of a message; the arrays are views of it. Raises ValueError if it is none."""
    try:
        (length,) = _LENGTH.unpack_from(message)
        text = json.loads(bytes(message[_LENGTH.size : _LENGTH.size + length]))
        place, arrays = _LENGTH.size + length, {}
        for name, code, shape, fortran in text["arrays"]:
            dtype = np.dtype(code)
            if dtype.kind not in _KINDS:
                raise ValueError(f"an array of {dtype}")
            count = int(np.prod(shape, dtype=np.int64))
            flat = np.frombuffer(message, dtype, count, place) if count else np.empty(0, dtype)
            arrays[name] = flat.reshape(shape, order="F" if fortran else "C")
            place += flat.nbytes + -flat.nbytes % _ALIGNED
        return text["header"], arrays
    except (struct.error, KeyError, TypeError, UnicodeDecodeError, AttributeError) as error:
        raise ValueError("these bytes are no message") from error
