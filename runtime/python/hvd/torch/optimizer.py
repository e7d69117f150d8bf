# SPDX-License-Identifier: Apache-2.0
"""The distributed optimizer: gradients are reduced while the backward pass goes on."""

from __future__ import annotations

import contextlib
import struct
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from hvd.groups import Groups, chosen_groups
from hvd.process_sets import ProcessSet, global_process_set
from hvd.refusals import refused
from hvd.settings import Settings, check_passes, checked_settings, is_shared
from hvd.torch import devices, operations
from hvd.torch.compression import Compression
from hvd.torch.parameters import Named, checked_names, trained
from hvd.torch.reducer import GradientReducer
from hvd.torch.wrapping import Wrapped, wrap
from hvd.work import Adasum, Average, Sum


class _Distributed(Wrapped):
    """What ``DistributedOptimizer`` adds where gradients are reduced."""

    _hvd_reducers: list[GradientReducer]
    _hvd_settings: Settings
    _hvd_names: dict[int, str] | None
    _hvd_frozen: Named
    _hvd_is_synchronized: bool
    _hvd_synchronizes: bool

    def _hvd_begin(self, settings: Settings, names: dict[int, str] | None) -> None:
        self._hvd_settings = settings
        self._hvd_names = names
        self._hvd_reducers = []
        self._hvd_frozen = trained(self, names)  # type: ignore[arg-type]
        self._hvd_is_synchronized = False
        self._hvd_synchronizes = True
        self._take_up()

    def _take_up(self) -> None:
        """Hooks of parameters that are trained from now on."""
        named = [
            (name, parameter) for name, parameter in self._hvd_frozen if parameter.requires_grad
        ]
        if named:
            self._hvd_frozen = [pair for pair in self._hvd_frozen if not pair[1].requires_grad]
        # The parameters of each device: a model may be spread over several.
        by_gpu: dict[int, Named] = {}
        for name, parameter in named:
            by_gpu.setdefault(devices.gpus.index(parameter), []).append((name, parameter))
        for part in by_gpu.values():
            self._hvd_reducers.append(GradientReducer(part, self._hvd_settings))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters to train; on all ranks, between steps."""
        super().add_param_group(param_group)  # type: ignore[misc]
        known = {id(p) for reducer in self._hvd_reducers for p in reducer.parameters}
        known.update(id(parameter) for _, parameter in self._hvd_frozen)
        everything = trained(self, None)  # type: ignore[arg-type]
        names = self._hvd_names or {}
        self._hvd_frozen += [
            (names.get(id(parameter), place), parameter)
            for place, parameter in everything
            if id(parameter) not in known
        ]
        self._take_up()

    def set_backward_passes_per_step(self, passes: int) -> None:
        """How many backward passes add up before gradients are reduced."""
        check_passes(passes)
        for reducer in self._hvd_reducers:
            reducer.set_passes(passes)
        reduction = self._hvd_settings.reduction._replace(passes_per_step=passes)
        self._hvd_settings = self._hvd_settings._replace(reduction=reduction)

    def save_compression(self) -> bytes:
        """What compression keeps between steps; this rank's own, so save it on every rank."""
        parts = [reducer.save() for reducer in self._hvd_reducers]
        return b"".join(struct.pack("<Q", len(part)) + part for part in parts)

    def load_compression(self, state: bytes) -> None:
        """Takes over what ``save_compression()`` gave for the same model and method."""
        parts = []
        while len(state) >= 8:
            end = 8 + struct.unpack_from("<Q", state)[0]
            parts.append(state[8:end])
            state = state[end:]
        if state or len(parts) != len(self._hvd_reducers):
            raise refused(
                f"the state of the compression is for {len(parts)} sets of parameters, this "
                f"optimizer has {len(self._hvd_reducers)}: save it with the same model"
            )
        for reducer, part in zip(self._hvd_reducers, parts):
            reducer.load(part)

    def synchronize(self) -> None:
        """Waits until all gradients are reduced; for gradient clipping before ``step()``."""
        if is_shared(self._hvd_settings.process_set):
            if self._hvd_frozen:
                self._take_up()
            for reducer in self._hvd_reducers:
                reducer.send_missing()
            for reducer in self._hvd_reducers:
                reducer.wait()
        self._hvd_is_synchronized = True

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """``step()`` within does not synchronize: it was done by hand."""
        self._hvd_synchronizes = False
        try:
            yield
        finally:
            self._hvd_synchronizes = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Waits for the gradients of all ranks, then updates the parameters.

        Gradients are reduced after each call of the closure, and so is the loss that it returns:
        optimizers that search by it, as LBFGS does, decide alike on all ranks.
        """
        if closure is not None:
            given = closure

            def closure() -> Any:
                loss = given()
                self._synchronize_for_step()
                return self._agreed(loss)

            result = super().step(closure)  # type: ignore[misc]
        else:
            self._synchronize_for_step()
            result = super().step()  # type: ignore[misc]
        self._hvd_is_synchronized = False
        self._tell_schedulers()
        return result

    def _agreed(self, loss: Any) -> Any:
        """The loss of all ranks, reduced as gradients are."""
        settings = self._hvd_settings
        if not is_shared(settings.process_set) or settings.reduction.op not in (Average, Sum):
            return loss
        if not isinstance(loss, (float, torch.Tensor)):
            return loss
        value = torch.as_tensor(loss, dtype=None if torch.is_tensor(loss) else torch.float64)
        handle = operations.allreduce_async(
            value.detach(),
            name=f"loss.{self._hvd_reducers[0].names[0]}" if self._hvd_reducers else "loss",
            op=settings.reduction.op,
            process_set=settings.process_set,
        )
        total = operations.synchronize(handle)
        return total if torch.is_tensor(loss) else total.item()

    def _synchronize_for_step(self) -> None:
        if not self._hvd_synchronizes:
            return
        if self._hvd_is_synchronized:
            warnings.warn(
                "optimizer.step() called after optimizer.synchronize(): use "
                "'with optimizer.skip_synchronize(): optimizer.step()' to avoid a second reduction",
                stacklevel=3,
            )
        self.synchronize()
        self._hvd_is_synchronized = False

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """Sets gradients to zero; not while they are on their way."""
        if any(reducer.is_started for reducer in self._hvd_reducers):
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before "
                "optimizer.step() or optimizer.synchronize(): gradients are on their way. With a "
                "GradScaler call optimizer.synchronize() before it, and step within "
                "optimizer.skip_synchronize(); where the backward pass is not for this optimizer, "
                "set requires_grad_(False) on its parameters meanwhile"
            )
        super().zero_grad(*args, **kwargs)  # type: ignore[misc]
        self._hvd_is_synchronized = False  # what was reduced is gone


def _check_optimizer(optimizer: Any) -> None:
    if not hasattr(optimizer, "param_groups"):
        raise refused(
            f"DistributedOptimizer: an optimizer of torch is needed, not {type(optimizer).__name__}"
        )
    if isinstance(optimizer, Wrapped) and hasattr(optimizer, "_hvd_settings"):
        raise refused(
            "DistributedOptimizer: this is a DistributedOptimizer already: wrap once, and pass "
            "the optimizer that it was made of to wrap another time"
        )


def DistributedOptimizer(  # noqa: N802 (the name that users know)
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None = None,
    compression: Any = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Groups = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """An optimizer of the same class whose ``step()`` uses the gradients of all ranks.

    Parameters
    ----------
    optimizer
        Any torch optimizer; its state and parameter groups are shared with the result.
    named_parameters
        ``model.named_parameters()``; names must be equal on all ranks.
    compression
        One of ``Compression``, or an object with ``compress()`` and ``decompress()``. The methods of
        ``Compression`` take float32 gradients, fp16 and bf16 float64 ones too; others travel whole.
    backward_passes_per_step
        Backward passes whose gradients add up before they are reduced.
    op
        ``Average`` or ``Sum`` of gradients, or ``Adasum``: then every rank steps locally, and
        ``step()`` reduces what this changed.
    gradient_predivide_factor
        Gradients are divided by it before the sum and multiplied after; with ``Average`` only.
    num_groups
        The old name of `groups`, deprecated.
    groups
        Gradients of a group leave when all of them are there: a number of groups, or lists of
        parameters. Without it each leaves when it is there, which overlaps best.
    sparse_as_dense
        Sparse gradients are made dense before they are reduced.
    process_set
        The ranks that train together. On a rank that is not in the set each step is local.

    Raises
    ------
    ValueError
        An argument is wrong.

    >>> model = torch.nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> optimizer = DistributedOptimizer(optimizer, model.named_parameters())
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> optimizer.step()
    """
    _check_optimizer(optimizer)
    settings = checked_settings(
        compression,
        op,
        process_set,
        gradient_predivide_factor,
        backward_passes_per_step,
        sparse_as_dense,
        chosen_groups(num_groups, groups, torch.Tensor, "torch.Tensor"),
    )
    names = checked_names(named_parameters)
    kind: type = _Distributed
    if op == Adasum:
        from hvd.torch.adasum_optimizer import AdasumOptimizer  # few scripts need it

        kind = AdasumOptimizer
    wrapped = wrap(optimizer, kind)
    wrapped._hvd_begin(settings, names)
    return wrapped
