# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all ranks."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from hvd._core import _lib, handles
from hvd._core.refusals import refused
from hvd._core.settings import is_shared
from hvd._core.work import Sum, Work
from hvd.process_sets import ProcessSet, global_process_set, process_set_id
from hvd.torch.ops.allgather import start_allgather
from hvd.torch.ops.allreduce import start_allreduce


class SyncBatchNorm(_BatchNorm):
    """As ``torch.nn.BatchNorm1d`` to ``3d``, with mean and variance over the batches of all ranks.

    Batches may differ in size, and be empty on some ranks. In ``eval()`` mode with running
    statistics it is the layer of torch. The gradient of the input is that of the sum of all ranks'
    losses; those of weight and bias are this rank's part, which ``DistributedOptimizer`` averages.

    Parameters
    ----------
    num_features
        Channels: the second extent of the input, which is (N, C) or (N, C, ...), floating.
    eps, momentum, affine, track_running_stats
        As in torch; momentum None: the running statistics are plain means over all batches.
    process_set
        The ranks that normalise together; a rank outside of it does so alone.
    device, dtype
        Of weight and bias.

    Raises
    ------
    ValueError
        The input has one dimension, or all ranks together have one value per channel.

    >>> layer = SyncBatchNorm(3)
    >>> layer(torch.randn(4, 3)).mean().abs().item() < 1e-6
    True
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_set: ProcessSet = global_process_set,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device=device, dtype=dtype
        )
        self.process_set = process_set

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise refused(
                f"expected at least 2D input (got {input.dim()}D input): "
                "give it batches of channels"
            )

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The normalised input, in its shape and type.

        Parameters
        ----------
        input
            (N, C) or (N, C, ...), floating; N may be 0.
        """
        if not self.training or not is_shared(self.process_set):
            return super().forward(input)
        self._check_input_dim(input)
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        return _normalize(self, input)

    @classmethod
    def convert_sync_batchnorm(
        cls, module: torch.nn.Module, process_set: ProcessSet = global_process_set
    ) -> torch.nn.Module:
        """The module with each batch normalisation in it replaced; parameters are kept.

        Parameters
        ----------
        module
            Any module; it is changed unless it is itself replaced.
        process_set
            The ranks that normalise together.

        >>> model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2))
        >>> type(SyncBatchNorm.convert_sync_batchnorm(model)[1]).__name__
        'SyncBatchNorm'
        """
        made = module
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            made = cls(
                module.num_features,
                module.eps,
                module.momentum,
                False,
                False,
                process_set,
            )
            made.affine = module.affine
            made.track_running_stats = module.track_running_stats
            for name in ("weight", "bias"):
                setattr(made, name, getattr(module, name))
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                made.register_buffer(name, getattr(module, name))
            made.training = module.training
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_set))
        return made


def _normalize(layer: SyncBatchNorm, given: torch.Tensor) -> torch.Tensor:
    number = process_set_id(layer.process_set)
    output, mean, variance, count = _Normalize.apply(
        given, layer.weight, layer.bias, layer.eps, number
    )
    if layer.running_mean is not None and layer.running_var is not None:
        factor = layer.momentum
        if factor is None:
            factor = 1.0 / float(layer.num_batches_tracked)  # type: ignore[arg-type]
        with torch.no_grad():
            unbiased = variance * (count / (count - 1))
            layer.running_mean.lerp_(mean.to(layer.running_mean.dtype), factor)
            layer.running_var.lerp_(unbiased.to(layer.running_var.dtype), factor)
    return output


# Operations of the library end what torch.compile can trace; it looks for this.
_normalize._torchdynamo_disable = True  # type: ignore[attr-defined]


def _statistics(
    given: torch.Tensor, number: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Mean and variance per channel, in float64, and the values per channel, of all ranks."""
    channels = given.shape[1]
    count = given.numel() // channels if channels else 0
    own = torch.zeros(1, 2 * channels + 1, dtype=torch.float64, device=given.device)
    own[0, -1] = count
    if count:
        wide = given if given.dtype == torch.float64 else given.float()
        variance, mean = torch.var_mean(wide, _dimensions(given), unbiased=False)
        own[0, :channels] = mean
        own[0, channels:-1] = variance
    everyone = start_allgather([own], True, Work(_lib.ALLGATHER, process_set=number), handles.run)
    counts = everyone[:, -1:]
    total = counts.sum()
    # The first half spares the host a wait for a GPU.
    if count <= 1 and total.item() <= 1:
        raise refused(
            "Expected more than 1 value per channel when training, got input size "
            f"{list(given.shape)} and {total.item():.0f} values on all ranks; "
            "give larger batches, or call eval()"
        )
    weights = counts / total
    means, variances = everyone[:, :channels], everyone[:, channels:-1]
    # Of parts: no difference of large squares (Chan et al. 1979).
    mean = (weights * means).sum(0)
    variance = (weights * (variances + (means - mean).square())).sum(0)
    return mean, variance, total


def _dimensions(given: torch.Tensor) -> list[int]:
    return [0, *range(2, given.dim())]


class _Normalize(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: Any, weight: Any, bias: Any, eps: float, number: int) -> Any:
        mean, variance, count = _statistics(given, number)
        kind = torch.float64 if given.dtype == torch.float64 else torch.float32
        narrow_mean, narrow_variance = mean.to(kind), variance.to(kind)
        scale = torch.rsqrt(variance + eps).to(kind)
        shape = [1, -1] + [1] * (given.dim() - 2)
        factor = scale if weight is None else scale * weight.to(kind)
        output = (given.to(kind) - narrow_mean.reshape(shape)) * factor.reshape(shape)
        if bias is not None:
            output += bias.to(kind).reshape(shape)
        ctx.save_for_backward(given, weight, narrow_mean, scale, count)
        ctx.number, ctx.shape = number, shape
        ctx.bias_dtype = None if bias is None else bias.dtype
        ctx.mark_non_differentiable(narrow_mean, narrow_variance, count)
        return output.to(given.dtype), narrow_mean, narrow_variance, count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor, *unused: Any) -> Any:
        given, weight, mean, scale, count = ctx.saved_tensors
        shape, kind = ctx.shape, mean.dtype
        dimensions = _dimensions(given)
        wide = gradient.to(kind)
        hat = (given.to(kind) - mean.reshape(shape)) * scale.reshape(shape)
        sums = torch.stack([wide.sum(dimensions), (wide * hat).sum(dimensions)])
        work = Work(_lib.ALLREDUCE, op=Sum, process_set=ctx.number)
        means = start_allreduce(work, [sums.double()], True, handles.run) / count
        along, across = (one.to(kind).reshape(shape) for one in means)
        factor = scale if weight is None else scale * weight.to(kind)
        back = (wide - along - hat * across) * factor.reshape(shape)
        of_weight = None if weight is None else sums[1].to(weight.dtype)
        of_bias = None if ctx.bias_dtype is None else sums[0].to(ctx.bias_dtype)
        return back.to(given.dtype), of_weight, of_bias, None, None
