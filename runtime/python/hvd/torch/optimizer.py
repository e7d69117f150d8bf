# SPDX-License-Identifier: Apache-2.0
"""The distributed optimizer: gradients are reduced while the backward pass goes on."""

from __future__ import annotations

import contextlib
import os
import struct
import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from hvd._core import api, handles
from hvd._core.groups import Groups, chosen_groups
from hvd._core.refusals import refused
from hvd._core.settings import Settings, check_momentum, check_passes, checked_settings, is_shared
from hvd._core.work import Adasum, Average, Sum
from hvd.errors import BackwardPassError, HvdError
from hvd.process_sets import ProcessSet, global_process_set
from hvd.torch import devices
from hvd.torch.amp import loss_scale, watch_scalers
from hvd.torch.backward import PassEnd
from hvd.torch.compression import Compression
from hvd.torch.graphs import keep_from_tracing
from hvd.torch.ops.allreduce import allreduce_async
from hvd.torch.parameters import Named, checked_names, trained
from hvd.torch.reducer import GradientReducer
from hvd.torch.replicas import guard_of
from hvd.torch.typed import keeps_class
from hvd.torch.wrapping import Wrapped, wrap

_optimizers: weakref.WeakSet[_Distributed] = weakref.WeakSet()


def _begin_job() -> None:
    for optimizer in list(_optimizers):
        optimizer._hvd_begin_job()


api.at_start(_begin_job)


class _Distributed(Wrapped):
    """What ``DistributedOptimizer`` adds where gradients are reduced."""

    _hvd_reducers: list[GradientReducer]
    _hvd_settings: Settings
    _hvd_names: dict[int, str] | None
    _hvd_frozen: Named
    _hvd_pass_end: PassEnd
    _hvd_waits: bool
    _hvd_made: str
    # The parameter that got its gradient first in the last backward pass, and that gradient.
    _hvd_first: tuple[weakref.ref[torch.Tensor], weakref.ref[torch.Tensor]] | None
    _hvd_passes: int  # that have ended in this step
    _hvd_open: list[GradientReducer] | None  # whose step goes on after a part was reduced
    _hvd_is_reduced: bool  # the gradients of this step are those of all ranks
    _hvd_is_synchronized: bool  # because synchronize() was called
    _hvd_synchronizes: bool

    def _hvd_begin(
        self, settings: Settings, names: dict[int, str] | None, waits: bool, made: str
    ) -> None:
        self._hvd_settings = settings
        self._hvd_names = names
        self._hvd_reducers = []
        self._hvd_frozen = trained(self, names)  # type: ignore[arg-type]
        self._hvd_guard = guard_of(self, self._hvd_frozen)
        self._hvd_waits = waits
        self._hvd_made = made
        self._hvd_pass_end = PassEnd(self._hvd_end_of_backward, waits)
        keep_from_tracing(self._hvd_begin_backward)
        keep_from_tracing(self._hvd_pass_end.begin)
        self._hvd_first = None
        self._hvd_synchronizes = True
        self._hvd_end_step()
        self._take_up()
        _optimizers.add(self)

    def _hvd_begin_job(self) -> None:
        for reducer in self._hvd_reducers:
            reducer.begin_job()
        self._hvd_end_step()

    def _hvd_end_step(self) -> None:
        """The next backward pass begins a step."""
        self._hvd_passes = 0
        self._hvd_is_reduced = False
        self._hvd_is_synchronized = False
        self._hvd_open = None
        self._hvd_pass_end.reset()

    @property
    def _hvd_is_under_way(self) -> bool:
        return any(reducer.is_started for reducer in self._hvd_reducers)

    def _hvd_begin_backward(self, parameter: torch.Tensor) -> None:
        """The first gradient of a backward pass is there."""
        first = self._hvd_first
        self._hvd_first = weakref.ref(parameter), weakref.ref(parameter.grad)
        if self._hvd_is_reduced or self._hvd_open is not None:
            # The gradients of the step were dropped, as of one that is left out.
            before = None if first is None else first[0]()
            was = None if first is None else first[1]()
            is_dropped = before is None or was is None or before.grad is not was
            if is_dropped and not self._hvd_is_under_way:
                self._hvd_leave_step()
            elif self._hvd_is_synchronized:
                self._hvd_end_step()
            elif self._hvd_is_reduced:
                raise BackwardPassError(
                    f"rank {api.rank()}: another backward pass after the gradients of this step "
                    "were reduced: call optimizer.step() or optimizer.zero_grad() first, give "
                    "backward_passes_per_step, or, where the loss of another model passes through "
                    "this one as in a GAN, requires_grad_(False) meanwhile"
                )
        if not self._hvd_is_under_way and self._hvd_open is None:
            for reducer in self._hvd_reducers:
                if reducer.keeps_errors:
                    reducer.set_loss_scale(loss_scale())
        self._hvd_pass_end.begin()

    def _hvd_end_of_backward(self, is_nested: bool) -> None:
        """Waits for the gradients that this pass gave to any rank."""
        late = self._take_up()
        is_complete = all(one.is_complete for one in self._hvd_reducers if one not in late)
        if not is_nested:
            self._hvd_passes += 1
        if is_nested and not is_complete:
            return
        if self._hvd_passes < self._hvd_settings.reduction.passes_per_step and not is_complete:
            return
        for reducer in late:
            reducer.send_rest()
        self._hvd_reduce(False)

    def _hvd_reduce(self, is_final: bool) -> None:
        """Reduces what ranks have of this step; `is_final`: until no rank has more."""
        self._hvd_guard.act()  # where this rank has skipped the last step
        while True:
            going = self._hvd_reducers if self._hvd_open is None else self._hvd_open
            error: Exception | None = None
            has_failed = False
            still: list[GradientReducer] = []
            for reducer in going:
                try:
                    is_over = reducer.exchange(is_final)
                    still += [] if is_over else [reducer]
                    error = reducer.wait(is_over) or error
                except HvdError as failure:
                    error, has_failed = failure, True
            self._hvd_open = still
            if not still and not has_failed:
                self._hvd_guard.reductions += 1
            if error is not None:
                if has_failed or not still:
                    self._hvd_leave_step()
                raise error
            if not still:
                self._hvd_end_step()
                self._hvd_is_reduced = True
            if not still or not is_final:
                return

    def _hvd_before_unscale(self) -> None:
        """A gradient scaler is going to look at the gradients of this step."""
        self._hvd_settle()

    def _hvd_settle(self) -> None:
        """Reduces what is not reduced, and waits; the step gets no more gradients."""
        if self._hvd_is_reduced and not self._hvd_is_under_way:
            return
        if self._hvd_settings.reduces:
            self._take_up()
            for reducer in self._hvd_reducers if self._hvd_open is None else self._hvd_open:
                reducer.send_rest()
            self._hvd_reduce(True)
        else:
            self._hvd_end_step()
            self._hvd_is_reduced = True

    def _hvd_leave_step(self) -> None:
        """The step ends without its results."""
        for reducer in self._hvd_open or ():
            reducer.abandon()
        self._hvd_end_step()

    def _take_up(self) -> list[GradientReducer]:
        """Reducers of parameters that are trained from now on."""
        if not self._hvd_frozen:
            return []
        named = [
            (name, parameter) for name, parameter in self._hvd_frozen if parameter.requires_grad
        ]
        if named:
            self._hvd_frozen = [pair for pair in self._hvd_frozen if not pair[1].requires_grad]
        # The parameters of each device: a model may be spread over several.
        by_gpu: dict[int, Named] = {}
        for name, parameter in named:
            by_gpu.setdefault(devices.gpus.index(parameter), []).append((name, parameter))
        made = [
            GradientReducer(
                part,
                self._hvd_settings,
                self._hvd_begin_backward,
                self._hvd_pass_end,
                self._hvd_waits,
                self._hvd_made,
            )
            for part in by_gpu.values()
        ]
        self._hvd_reducers += made
        return made

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
        """Waits until all gradients are reduced; nothing where ``backward()`` has waited.

        Gradients that this rank does not have count as zeros; one that no rank has stays none.
        """
        self._hvd_settle()
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
        self._hvd_end_step()
        self._tell_schedulers()
        self._hvd_guard.act()
        return result

    def _agreed(self, loss: Any) -> Any:
        """The loss of all ranks, reduced as gradients are."""
        settings = self._hvd_settings
        if not is_shared(settings.process_set) or settings.reduction.op not in (Average, Sum):
            return loss
        if not isinstance(loss, (float, torch.Tensor)):
            return loss
        value = torch.as_tensor(loss, dtype=None if torch.is_tensor(loss) else torch.float64)
        handle = allreduce_async(
            value.detach(),
            name=f"loss.{self._hvd_reducers[0].names[0]}" if self._hvd_reducers else "loss",
            op=settings.reduction.op,
            process_set=settings.process_set,
        )
        total = handles.synchronize(handle)
        return total if torch.is_tensor(loss) else total.item()

    def _synchronize_for_step(self) -> None:
        if not self._hvd_synchronizes:
            if self._hvd_is_under_way or self._hvd_open is not None:
                self._hvd_settle()
            return
        if self._hvd_is_synchronized:
            warnings.warn(
                "optimizer.step() called without optimizer.skip_synchronize() context after "
                "optimizer.synchronize(). This can cause training slowdown. You may want to "
                "consider using optimizer.skip_synchronize() context if you use "
                "optimizer.synchronize() in your code.",
                stacklevel=3,
            )
        self._hvd_settle()

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """Sets gradients to zero; not while they are on their way."""
        if self._hvd_is_under_way:
            raise AssertionError(
                f"rank {api.rank()}: optimizer.zero_grad() was called after loss.backward() but "
                "before optimizer.step() or optimizer.synchronize(), and gradients are on their "
                "way, or more passes are to come. Call optimizer.synchronize() first; where the "
                "backward pass is not for this optimizer, set requires_grad_(False) on its "
                "parameters meanwhile"
            )
        super().zero_grad(*args, **kwargs)  # type: ignore[misc]
        self._hvd_leave_step()  # what was reduced is gone


def _checked_wait(given: bool | None) -> bool:
    """Whether backward() waits: the argument, else the setting."""
    if given is not None:
        if not isinstance(given, bool):
            raise refused(f"wait_in_backward is {given!r}: give True or False")
        return given
    text = os.environ.get("HVD_WAIT_IN_BACKWARD") or "1"
    if text not in ("0", "1"):
        raise refused(f"HVD_WAIT_IN_BACKWARD is {text!r}: give 1 or 0")
    return text == "1"


def _made_by(optimizer: torch.optim.Optimizer) -> str:
    """What an error calls an optimizer: its class, and the line of the program that wraps it."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in (
        "hvd",
        "horovod",
    ):
        frame = frame.f_back
    place = "" if frame is None else f" of {frame.f_code.co_filename}:{frame.f_lineno}"
    return f"the DistributedOptimizer of {type(optimizer).__name__}{place}"


# torch puts hooks around the step of each class once, where this says that it has none; the given
# optimizer's step, which ours calls, has them.
_Distributed.step.hooked = True  # type: ignore[attr-defined]


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


@keeps_class
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
    check_replicas: int | None = None,
    wait_in_backward: bool | None = None,
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
        Sparse gradients are made dense before they are reduced; not those of ``SparseAdam``, which
        takes no others.
    process_set
        The ranks that train together. On a rank that is not in the set each step is local.
    check_replicas
        Steps from one comparison of parameters and state over ranks to the next: where they differ,
        ``step()`` raises a ``ReplicasDifferError`` on every rank. The first comes after the first
        step; 0 switches it off; without: ``HVD_CHECK_REPLICAS``, else 100.
    wait_in_backward
        ``backward()`` waits until the gradients that it gave to any rank are reduced, so that they
        may be read and changed after it. False: ``step()`` or ``synchronize()`` waits, so that more
        work overlaps with the reduction. Without: ``HVD_WAIT_IN_BACKWARD`` (1 or 0), else True.

    Raises
    ------
    ValueError
        An argument is wrong.
    BackwardPassError
        Later, by ``backward()`` and ``step()``: a pass too many, two optimizers of one parameter,
        or gradients that were changed while they were reduced.

    >>> model = torch.nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> optimizer = DistributedOptimizer(optimizer, model.named_parameters())
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> optimizer.step()
    """
    _check_optimizer(optimizer)
    settings = checked_settings(
        compression=compression,
        op=op,
        process_set=process_set,
        gradient_predivide_factor=gradient_predivide_factor,
        backward_passes_per_step=backward_passes_per_step,
        # SparseAdam refuses what is dense: its rows travel as rows, and the sum is the same.
        sparse_as_dense=sparse_as_dense and not isinstance(optimizer, torch.optim.SparseAdam),
        groups=chosen_groups(num_groups, groups, torch.Tensor, "torch.Tensor"),
        check_replicas=check_replicas,
    )
    check_momentum(compression, optimizer)
    names = checked_names(named_parameters)
    kind: type = _Distributed
    if op == Adasum:
        from hvd.torch.adasum_optimizer import AdasumOptimizer  # few scripts need it

        kind = AdasumOptimizer
    watch_scalers()
    wrapped = wrap(optimizer, kind)
    wrapped._hvd_begin(settings, names, _checked_wait(wait_in_backward), _made_by(optimizer))
    return wrapped
