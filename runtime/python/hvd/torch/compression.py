# SPDX-License-Identifier: Apache-2.0
"""How tensors and gradients travel."""

from __future__ import annotations

from typing import Any

import torch

from hvd._core import _lib
from hvd.errors import UnsupportedError


class Compressor:
    """Makes a tensor smaller before an operation, and restores it after: for your own as well."""

    wire = _lib.WIRE_SAME

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """The tensor to send, and what ``decompress`` needs."""
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """The received tensor in its original type."""
        return tensor if ctx is None else tensor.to(ctx)


class NoneCompressor(Compressor):
    """Tensors travel as they are."""


class FP16Compressor(Compressor):
    """Floating point tensors travel as float16.

    An allreduce of float32 and float64 casts in the data plane and adds in float32; others are cast
    before and after.
    """

    wire = _lib.WIRE_FLOAT16

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """The tensor to send, and what ``decompress`` needs."""
        if not tensor.dtype.is_floating_point:
            return tensor, None
        return tensor.to(torch.float16), tensor.dtype


class BF16Compressor(Compressor):
    """The same as bfloat16: the range of float32, 8 bits of mantissa."""

    wire = _lib.WIRE_BFLOAT16

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """The tensor to send, and what ``decompress`` needs."""
        if not tensor.dtype.is_floating_point:
            return tensor, None
        return tensor.to(torch.bfloat16), tensor.dtype


class GradientCompressor(Compressor):
    """A method for ``DistributedOptimizer``, for it keeps what it left out for the next step.

    Parameters
    ----------
    method
        An ``hvd_compression_method``.
    rank
        Of PowerSGD: columns of the factors.
    ratio
        Of top-k: the share of the elements that travels.
    smallest
        Gradients of fewer elements travel whole (1024 unless given).
    momentum
        Of top-k: that of momentum correction, 0 to below 1.
    """

    def __init__(
        self,
        method: int,
        rank: int = 0,
        ratio: float = 0,
        smallest: int = 0,
        momentum: float = 0,
    ) -> None:
        self.method = method
        self.rank = rank
        self.ratio = ratio
        self.smallest = smallest
        self.momentum = momentum

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Not for single tensors."""
        raise UnsupportedError(
            "8-bit floats, top-k and PowerSGD are methods of DistributedOptimizer(compression=...): "
            "for single tensors use Compression.fp16 or Compression.bf16"
        )


class Compression:
    """The choices for the argument `compression`.

    `none`, `fp16` and `bf16` are for every operation that has it, the others for
    ``DistributedOptimizer``; docs/explanation/compression.md says what each is good for.

    >>> Compression.fp16.compress(torch.ones(1))
    (tensor([1.], dtype=torch.float16), torch.float32)
    """

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
    fp8_e4m3 = GradientCompressor(_lib.COMPRESS_FLOAT8_E4M3)
    fp8_e5m2 = GradientCompressor(_lib.COMPRESS_FLOAT8_E5M2)

    @staticmethod
    def top_k(ratio: float = 0.01, smallest: int = 0, momentum: float = 0.0) -> GradientCompressor:
        """The largest elements; the rest is added to the next step.

        Parameters
        ----------
        ratio
            The share of the elements that travels, above 0 and at most 1.
        smallest
            Gradients of fewer elements travel whole; 0: 1024.
        momentum
            0 to below 1; 0: none. Each rank adds up its gradients with this momentum before it
            chooses, and forgets it where an element has travelled (momentum correction and factor
            masking, Lin et al. 2018). The optimizer must then be plain SGD without momentum.

        Returns
        -------
        GradientCompressor
            For the argument `compression` of ``DistributedOptimizer``.

        >>> Compression.top_k(ratio=0.001, momentum=0.9).momentum
        0.9
        """
        return GradientCompressor(
            _lib.COMPRESS_TOP_K, ratio=ratio, smallest=smallest, momentum=momentum
        )

    @staticmethod
    def power_sgd(rank: int = 2, smallest: int = 0) -> GradientCompressor:
        """Two factors of some columns; what they leave out is added to the next step.

        Parameters
        ----------
        rank
            Columns of the factors, 1 to 64.
        smallest
            Gradients of fewer elements travel whole; 0: 1024.

        Returns
        -------
        GradientCompressor
            For the argument `compression` of ``DistributedOptimizer``.

        >>> Compression.power_sgd(rank=4).rank
        4
        """
        return GradientCompressor(_lib.COMPRESS_POWER_SGD, rank=rank, smallest=smallest)


def wire_for(compression: Any, tensors: Any) -> int | None:
    """The ``hvd_wire`` that does this compression of an allreduce; None: use ``compress()``."""
    if compression is NoneCompressor:
        return _lib.WIRE_SAME
    # One that is derived from ours has its own compress().
    wire = getattr(compression, "__dict__", {}).get("wire")
    if not wire or any(t.dtype not in (torch.float32, torch.float64) for t in tensors):
        return None
    return wire
