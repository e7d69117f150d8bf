# SPDX-License-Identifier: Apache-2.0
"""How tensors and gradients travel."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hvd._core import _lib


class Compressor:
    """Makes a tensor smaller before an operation, and restores it after: for your own as well."""

    wire = _lib.WIRE_SAME

    @staticmethod
    def compress(tensor: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """The tensor to send, and what ``decompress`` needs."""
        return tensor, None

    @staticmethod
    def decompress(tensor: tf.Tensor, ctx: Any) -> tf.Tensor:
        """The received tensor in its original type."""
        return tensor if ctx is None else tf.cast(tensor, ctx)


class NoneCompressor(Compressor):
    """Tensors travel as they are."""


class FP16Compressor(Compressor):
    """Floating point tensors travel as float16; an allreduce adds them in float32."""

    wire = _lib.WIRE_FLOAT16

    @staticmethod
    def compress(tensor: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """The tensor to send, and what ``decompress`` needs."""
        if not tensor.dtype.is_floating:
            return tensor, None
        return tf.cast(tensor, tf.float16), tensor.dtype


class BF16Compressor(Compressor):
    """The same as bfloat16: the range of float32, 8 bits of mantissa."""

    wire = _lib.WIRE_BFLOAT16

    @staticmethod
    def compress(tensor: tf.Tensor) -> tuple[tf.Tensor, Any]:
        """The tensor to send, and what ``decompress`` needs."""
        if not tensor.dtype.is_floating:
            return tensor, None
        return tf.cast(tensor, tf.bfloat16), tensor.dtype


class Compression:
    """The choices for the argument `compression`.

    >>> Compression.fp16.compress(tf.ones(1))[0].dtype.name
    'float16'
    """

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor


def wire_for(compression: Any, tensors: Any) -> int | None:
    """The ``hvd_wire`` that does this compression of an allreduce; None: use ``compress()``."""
    if compression is NoneCompressor:
        return _lib.WIRE_SAME
    # One that is derived from ours has its own compress().
    wire = getattr(compression, "__dict__", {}).get("wire")
    if not wire or any(t.dtype not in (tf.float32, tf.float64) for t in tensors):
        return None
    return wire
