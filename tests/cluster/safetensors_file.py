"""Reads and compares the parameters that a run saved. Format: https://huggingface.co/docs/safetensors."""
import json
import struct

import numpy as np

_DTYPES = {"F32": np.float32, "F64": np.float64, "F16": np.float16, "I32": np.int32, "I64": np.int64, "U8": np.uint8}


def load(path):
    """{name: array}, in the file's order."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    arrays = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        content = data[8 + length + begin : 8 + length + end]
        if entry["dtype"] == "BF16":  # the upper half of a float32
            flat = (np.frombuffer(content, dtype=np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            flat = np.frombuffer(content, dtype=_DTYPES[entry["dtype"]])
        arrays[name] = flat.reshape(entry["shape"])
    return arrays


def worst_difference(left, right):
    """The largest of norm(left - right) / norm(right) over the parameters, and its name."""
    if left.keys() != right.keys():
        raise ValueError(f"different parameters: {sorted(left)} and {sorted(right)}")
    worst, worst_name = 0.0, ""
    for name in left:
        a, b = left[name].astype(np.float64), right[name].astype(np.float64)
        if a.shape != b.shape:
            raise ValueError(f"{name}: shape {a.shape} against {b.shape}")
        difference = float(np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-30))
        if not difference <= worst:
            worst, worst_name = difference, name
    return worst, worst_name
