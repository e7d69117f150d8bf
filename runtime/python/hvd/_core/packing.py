# SPDX-License-Identifier: Apache-2.0
"""Values as bytes in one piece of memory: tensors and arrays as they lie, the rest by pickle."""

from __future__ import annotations

import io
import pickle
import sys
from array import array
from typing import Any

from hvd._core.pickles import dumps

# Of each part in the memory, so that any number may lie there.
_ALIGNMENT = 64


def pack(value: Any, into: array | None = None) -> array:
    """The value in `into`, if that is as long as the value needs, else in new memory.

    NumPy arrays and PyTorch tensors are copied once, from where they are to where they belong
    (out-of-band buffers of pickle 5, PEP 574).

    >>> import array
    >>> memory = pack({"epoch": 3})
    >>> unpack(memory), pack({"epoch": 4}, memory) is memory
    ({'epoch': 3}, True)
    """
    buffers: list[pickle.PickleBuffer] = []
    head = _pickled(value, buffers)
    raws = [memoryview(head), *(buffer.raw() for buffer in buffers)]
    lengths = array("q", [len(raws), *(raw.nbytes for raw in raws)])
    places = _places(lengths)
    if into is None or len(into) != places[-1]:
        into = array("B", b"\0") * places[-1]
    with memoryview(into) as memory:
        memory[: lengths.itemsize * len(lengths)] = lengths.tobytes()
        for place, raw in zip(places, raws):
            memory[place : place + raw.nbytes] = raw.cast("B")
    return into


def unpack(memory: Any) -> Any:
    """The value that ``pack()`` took, in memory of its own.

    >>> unpack(pack([1, "a"]))
    [1, 'a']
    """
    view = memoryview(memory).cast("B")
    count = array("q")
    count.frombytes(view[: count.itemsize])
    lengths = array("q")
    lengths.frombytes(view[: count.itemsize * (1 + count[0])])
    parts = [
        bytearray(view[place : place + length])
        for place, length in zip(_places(lengths), lengths[1:])
    ]
    return pickle.loads(parts[0], buffers=parts[1:])


def _places(lengths: array) -> list[int]:
    """Where each part begins, and where the last ends."""
    places = []
    end = lengths.itemsize * len(lengths)
    for length in lengths[1:]:
        begin = -(-end // _ALIGNMENT) * _ALIGNMENT
        places.append(begin)
        end = begin + length
    return [*places, end]


def _pickled(value: Any, buffers: list[pickle.PickleBuffer]) -> bytes:
    stream = io.BytesIO()
    try:
        _Pickler(stream, 5, buffer_callback=buffers.append).dump(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        buffers.clear()
        return dumps(value)  # what cloudpickle takes, or the error
    return stream.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """PyTorch's tensors, whose own way has their numbers among the rest."""
        torch = sys.modules.get("torch")
        if torch is None or type(value) is not torch.Tensor or not _is_plain(value, torch):
            return NotImplemented
        # That it is a conjugate is a flag, which numbers do not have (and pickle loses).
        flat = value.resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
        raw = flat.view(torch.uint8).numpy() if flat.numel() else bytearray()
        name = str(value.dtype).removeprefix("torch.")
        return _tensor, (pickle.PickleBuffer(raw), name, tuple(value.shape), value.is_cuda)


def _is_plain(tensor: Any, torch: Any) -> bool:
    return (
        tensor.layout is torch.strided
        and not tensor.is_quantized
        and not tensor.requires_grad
        and not tensor.__dict__
        and (tensor.is_cuda or tensor.device.type == "cpu")
    )


def _tensor(raw: Any, dtype: str, shape: tuple[int, ...], is_cuda: bool) -> Any:
    import torch

    kind = getattr(torch, dtype)
    flat = torch.frombuffer(raw, dtype=kind) if len(raw) else torch.empty(0, dtype=kind)
    # On the GPU of the process that unpacks it.
    return flat.reshape(shape).cuda() if is_cuda else flat.reshape(shape)
