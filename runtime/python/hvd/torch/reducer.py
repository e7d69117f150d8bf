# SPDX-License-Identifier: Apache-2.0
"""Reduces the gradients of some parameters while the backward pass goes on."""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable
from typing import Any, NoReturn, Optional

import torch

from hvd._core import _lib, api
from hvd._core.gradients import Gradients
from hvd._core.groups import Group, groups_that_hold
from hvd._core.refusals import refused
from hvd._core.settings import Settings
from hvd.errors import BackwardPassError, HvdError, InvalidArgumentError
from hvd.process_sets import process_set_id
from hvd.torch import devices
from hvd.torch import tensors as _tensors
from hvd.torch.backward import PassEnd, on_gradient
from hvd.torch.compression import Compression
from hvd.torch.graphs import keep_from_tracing
from hvd.torch.in_flight import Sent, change_error, changes, flat_gradient, spoil
from hvd.torch.ops.sparse import SparseGradients
from hvd.torch.owners import Owner, leave, refusing_hooks, take_over
from hvd.torch.parameters import Named

# What the data plane casts needs no tensors of its own.
_METHODS = {
    Compression.none: _lib.COMPRESS_NONE,
    Compression.fp16: _lib.COMPRESS_FLOAT16,
    Compression.bf16: _lib.COMPRESS_BFLOAT16,
}


_Form = tuple[Optional[torch.dtype], int, Optional[tuple[int, ...]]]


class GradientReducer:
    """The gradients of some parameters of one device: which are on their way, and in what form.

    Parameters
    ----------
    named
        Names, equal on all ranks, and parameters.
    settings
        How they are reduced.
    begin
        Called by the first gradient of each backward pass, with the parameter.
    pass_end
        Whether that was called in this pass.
    waits
        Gradients are reduced when ``backward()`` returns.
    owner
        What an error calls the optimizer.
    """

    def __init__(
        self,
        named: Named,
        settings: Settings,
        begin: Callable[[torch.Tensor], None],
        pass_end: PassEnd,
        waits: bool,
        owner: str,
    ) -> None:
        compression = settings.compression
        self.names = [name for name, _ in named]
        self.parameters = [parameter for _, parameter in named]
        self.name = owner
        self._settings = settings
        self._begin = weakref.WeakMethod(begin)
        self._pass_end = pass_end
        self._waits = waits
        self._sparse_as_dense = settings.sparse_as_dense
        self._method = _METHODS.get(compression, getattr(compression, "method", None))
        # A compressor of the user's own; the library's methods need no tensors beside the gradient.
        self._compressor = None if self._method is not None else compression
        self._compression = compression
        self._forms = [_form(parameter) for parameter in self.parameters]
        # What the engine reads and writes, by parameter; lives until the step is over. What a
        # compressor made of it.
        self._wires: dict[int, Sent] = {}
        self._compressed: dict[int, tuple[torch.Tensor, Any]] = {}
        # Of this step: those of no parameter, as it is frozen.
        self._detached: set[int] = set()
        # The GPU, or below 0; of this step: the stream that makes each gradient there, and those
        # whose order the step's end has to keep.
        self._gpu = devices.gpus.index(self.parameters[0])
        self._origins: dict[int, int] = {}
        self._streams: set[int] = set()
        self._rows = SparseGradients(self.parameters, self.names)
        self._make_gradients()
        self._hooks: list[Any] = []
        self._groups: list[Group] = []
        take_over(self)
        if settings.reduces:
            self._listen()

    def __del__(self) -> None:
        # Another optimizer may follow for the same parameters.
        if hasattr(self, "_hooks"):
            self._remove_hooks()
            leave(self)
            del self._gradients  # waits for what is in flight
            if not sys.is_finalizing():
                api.borrowed.pop(self._key, None)

    @property
    def _key(self) -> tuple[str, int]:
        return "gradients", id(self)

    def _make_gradients(self) -> None:
        self._reduction = self._settings.reduction
        self._gradients = Gradients(
            [f"gradient.{name}" for name in self.names],
            [self._describe(parameter) for parameter in self.parameters],
            self._reduction,
            (_lib.CPU, 0) if self._gpu < 0 else (devices.gpus.kind, self._gpu),
            tracks_use=True,
        )
        for index, parameter in enumerate(self.parameters):
            self._compress(index, parameter.dtype)

    def _listen(self) -> None:
        """From now on each backward pass sends its gradients."""
        api.borrowed[self._key] = self._wires, self._compressed
        passes = self._reduction.passes_per_step
        held = groups_that_hold(self._settings.groups, self.parameters, passes)
        self._groups = list({id(group): group for group in held.values()}.values())
        for index, parameter in enumerate(self.parameters):
            hook = self._hook(index, held.get(index))
            keep_from_tracing(hook)
            self._hooks.append(on_gradient(parameter, hook))

    def _remove_hooks(self) -> None:
        for _, handle in self._hooks:
            handle.remove()
        self._hooks = []
        self._groups = []

    def give_way(self, newer: Owner) -> None:
        """Another optimizer has the same parameters: an error, unless this one ends before."""
        if self._hooks:
            self._remove_hooks()
            self._hooks = list(refusing_hooks(self, newer))

    def begin_job(self) -> None:
        """This process has joined another job: what was under way is over."""
        self._forget()
        number = process_set_id(self._settings.process_set)
        if number != self._reduction.process_set:
            kept = self._gradients.save()
            reduction = self._reduction._replace(process_set=number)
            self._settings = self._settings._replace(reduction=reduction)
            self._make_gradients()
            self._gradients.load(kept)
        self._remove_hooks()
        if self._settings.reduces:
            self._listen()

    def _compress(self, index: int, dtype: torch.dtype) -> None:
        """Chooses the method for a gradient, if it takes that type."""
        types = [torch.float32]
        if self._method in (_lib.COMPRESS_FLOAT16, _lib.COMPRESS_BFLOAT16):
            types.append(torch.float64)
        method = self._method if dtype in types else _lib.COMPRESS_NONE
        if method is not None and self._method:
            details = [
                getattr(self._compression, name, 0)
                for name in ("rank", "ratio", "smallest", "momentum")
            ]
            self._gradients.compress(index, method, *details)

    def _describe(self, gradient: torch.Tensor) -> Any:
        wire = gradient.detach()
        if self._compressor is not None:
            wire, _ = self._compressor.compress(wire)
        return api.tensor_struct(*_tensors.in_place(wire, "gradient"))

    def _hook(self, index: int, group: Group | None) -> Callable[[torch.Tensor], None]:
        """What runs when gradient `index` is complete; refers to this reducer weakly."""
        reducer = weakref.ref(self)
        dtype, count, strides = self._forms[index]
        wires, begin = self._wires, self._begin_pass_weakly()
        submit = self._gradients.submitter(index)
        submit_on = self._gradients.submitter_on(index)
        gpu, number = self._gpu, self.parameters[index].get_device()
        stream_of, streams = devices.gpus.stream, self._streams
        is_queued, storage_of = self._pass_end.is_queued, _tensors.storage_of

        def slow(parameter: torch.Tensor) -> None:
            nonlocal dtype, count, strides
            this = reducer()
            if this is not None and parameter.grad is not None:
                if not is_queued[0]:
                    begin(parameter)
                this.complete(index, parameter, group)
                dtype, count, strides = this.form(index)

        # All that most gradients need, because it runs for each of them in each step.
        def fast(parameter: torch.Tensor) -> None:
            gradient: Any = parameter.grad
            try:
                address = gradient.data_ptr()
                is_as_before = (
                    gradient.dtype is dtype
                    and gradient.numel() == count
                    and (
                        gradient.is_contiguous()
                        if strides is None
                        else gradient.stride() == strides
                    )
                    and gradient.get_device() == number
                    and not gradient.is_neg()
                )
            except (RuntimeError, AttributeError):  # a sparse one is nowhere, and a dropped one
                is_as_before = False
            if not is_as_before:
                slow(parameter)
                return
            if not is_queued[0]:
                begin(parameter)
            if gpu < 0:
                status = submit(address, 0)
            else:
                stream = stream_of(gpu)
                streams.add(stream)
                status = submit_on(address, 0, stream)
            if status:
                spoil(wires, index)
                _refuse(status)
            wires[index] = gradient, storage_of(gradient), address, gradient._version

        if group is not None or self._compressor is not None:
            return slow
        return fast

    def _begin_pass_weakly(self) -> Callable[[torch.Tensor], None]:
        begin = self._begin

        def begin_pass(parameter: torch.Tensor) -> None:
            action = begin()
            if action is not None:
                action(parameter)

        keep_from_tracing(begin_pass)
        return begin_pass

    def form(self, index: int) -> _Form:
        """What the library knows of a gradient."""
        return self._forms[index]

    def complete(self, index: int, parameter: torch.Tensor, group: Group | None) -> None:
        """One backward pass has completed the gradient of `parameter`."""
        gradient = parameter.grad
        if gradient is not None and gradient.is_sparse and not self._sparse_as_dense:
            self._rows.add(index, gradient)
            return
        address, sent, compressed = self._prepare(index, parameter)
        if self._gpu >= 0:
            self._origins[index] = devices.gpus.stream(self._gpu)
        try:
            if group is None:
                self._submit(index, address, 0)
            else:
                for member, place in group.add(index, address, self.names[index]):
                    self._submit(member, place, 0)
        except BackwardPassError:
            spoil(self._wires, index)  # what is on its way stays as it is
            raise
        self._keep(index, sent, compressed)

    def _prepare(
        self, index: int, parameter: torch.Tensor
    ) -> tuple[int, Sent, tuple[torch.Tensor, Any] | None]:
        """Makes the gradient of a parameter ready to travel.

        The address of what travels, what must live meanwhile, and what a compressor made.
        """
        gradient = flat_gradient(parameter)
        if devices.gpus.index(gradient) != self._gpu:
            raise refused(
                f"gradient '{self.names[index]}' is on {gradient.device}: it was elsewhere when the "
                "DistributedOptimizer was made; move the model first, then make its optimizer"
            )
        if gradient is not parameter.grad:
            # One that was frozen since stays without gradient, so that no momentum moves it.
            if parameter.requires_grad:
                parameter.grad = gradient
            else:
                self._detached.add(index)
        form = _form(gradient)
        if form != self._forms[index]:
            self._change(index, gradient)
            self._forms[index] = form
        address = gradient.data_ptr()
        storage = _tensors.storage_of(gradient)
        compressed = None
        if self._compressor is not None:
            compressed = self._compressor.compress(gradient)
            storage = storage, _tensors.storage_of(compressed[0])
            address = compressed[0].data_ptr()
        return address, (gradient, storage, gradient.data_ptr(), gradient._version), compressed

    def _keep(self, index: int, sent: Sent, compressed: tuple[torch.Tensor, Any] | None) -> None:
        self._wires[index] = sent
        if compressed is not None:
            self._compressed[index] = compressed

    def _change(self, index: int, gradient: torch.Tensor) -> None:
        """The gradient has another type, shape or memory order than the last one."""
        described = self._describe(gradient)
        if self._method:
            self._gradients.compress(index, _lib.COMPRESS_NONE)
        self._gradients.describe(index, described)
        self._compress(index, gradient.dtype)

    def _submit(self, index: int, address: int, last_pass: int) -> None:
        if self._gpu < 0:
            status = self._gradients.submitter(index)(address, last_pass)
        else:
            stream = self._origins.get(index)
            if stream is None:  # 0 is the default stream
                stream = devices.gpus.stream(self._gpu)
            self._streams.add(stream)
            status = self._gradients.submitter_on(index)(address, last_pass, stream)
        if status:
            _refuse(status)

    @property
    def keeps_errors(self) -> bool:
        """True where compression adds to each step what it left out before."""
        return self._method in (_lib.COMPRESS_TOP_K, _lib.COMPRESS_POWER_SGD)

    @property
    def is_started(self) -> bool:
        """True when gradients of this step are on their way, or accumulated."""
        return bool(self._wires or self._rows.passes)

    @property
    def is_complete(self) -> bool:
        """True when each gradient that can come has come in all passes of this step."""
        passes = self._reduction.passes_per_step
        return not any(
            self.parameters[index].requires_grad and self._rows.passes.get(index, 0) < passes
            for index in self._gradients.missing()
        )

    def send_rest(self) -> None:
        """Sends the gradients that are there and that no backward pass has sent."""
        for index in self._gradients.missing():
            if self.parameters[index].grad is not None:
                self._send(index)

    def _send_rows(self) -> None:
        passes = self._reduction.passes_per_step
        for index, count in self._rows.passes.items():
            if count >= passes and index in self._gradients.missing():
                self._send(index)

    def _send(self, index: int) -> None:
        """Sends a gradient, or zeros; its rows if it is sparse, or else would be."""
        parameter = self.parameters[index]
        if not self._sparse_as_dense and self._rows.serves(index, parameter.grad):
            self._rows.send(index, self._reduction)
            self._gradients.elsewhere(index)
            return
        address, sent, compressed = self._prepare(index, parameter)
        self._submit(index, address, 1)
        self._keep(index, sent, compressed)

    def exchange(self, is_final: bool) -> bool:
        """Learns which gradients other ranks have, and sends zeros for those that are not here.

        True where no rank sends more in this step.
        """
        try:
            self._send_rows()
            needed, is_over = self._gradients.exchange(is_final)
            for index in needed:
                self._send(index)
        except HvdError:
            self._forget()
            raise
        return is_over

    def wait(self, ends: bool) -> Exception | None:
        """Waits until all that was sent is reduced; on a GPU: the stream of now does.

        The error, if any, of gradients that were changed since they were sent, or of a compressor:
        the other ranks go on, so this one has to count the reduction first.
        """
        try:
            if self._gpu < 0:
                self._gradients.wait(ends)
            else:
                self._arrive(ends)
            self._rows.wait()
        except HvdError:
            self._forget()  # the step is over, and another may follow
            raise
        error: Exception | None = None
        changed = changes(self._wires, self.parameters, self._detached, not self._waits)
        if changed:
            error = change_error(changed, self.names)
        try:
            for index, (wire, context) in self._compressed.items():
                gradient = self.parameters[index].grad
                if gradient is not None and self._compressor is not None and index not in changed:
                    gradient.copy_(self._compressor.decompress(wire, context))
        except Exception as failure:
            error = error or failure
        if ends:
            self._forget()
        else:
            self._forget_sent()
        return error

    def _forget_sent(self) -> None:
        """What was sent has arrived; what adds up for later passes stays."""
        missing = set(self._gradients.missing())
        for index in [one for one in self._wires if one not in missing]:
            del self._wires[index]
        self._compressed.clear()
        self._detached.clear()
        self._rows.passes.clear()

    def abandon(self) -> None:
        """Leaves the step without its results."""
        with contextlib.suppress(HvdError):
            self._gradients.abandon("it left a step of its optimizer")
        self._forget()

    def _arrive(self, ends: bool) -> None:
        now = devices.gpus.stream(self._gpu)
        if not self._streams <= {now}:
            for wire in self._wires.values():
                devices.gpus.keep(wire[0])
        self._gradients.wait_stream(now, ends)

    def _forget(self) -> None:
        """Nothing of this step is in flight any more."""
        self._wires.clear()
        self._compressed.clear()
        self._detached.clear()
        self._origins.clear()
        self._streams.clear()
        self._rows.forget()
        for group in self._groups:
            group.begin_step()

    def set_passes(self, passes: int) -> None:
        """How many backward passes add up before a reduction."""
        self._gradients.set_passes(passes)
        self._reduction = self._reduction._replace(passes_per_step=passes)
        self._settings = self._settings._replace(reduction=self._reduction)
        for group in self._groups:
            group.passes_per_step = passes

    def set_loss_scale(self, scale: float) -> None:
        """The gradients of the next step are the true ones times this."""
        self._gradients.set_loss_scale(scale)

    def save(self) -> bytes:
        """What compression keeps between steps on this rank."""
        return self._gradients.save()

    def load(self, state: bytes) -> None:
        """Takes over what ``save()`` gave."""
        self._gradients.load(state)

    def begin_compression(self) -> None:
        """Nothing is kept of earlier steps."""
        for index, (dtype, *_) in enumerate(self._forms):
            if self._method and dtype is not None:
                self._gradients.compress(index, _lib.COMPRESS_NONE)
                self._compress(index, dtype)


def _form(tensor: torch.Tensor) -> _Form:
    """Type, elements, and strides unless row-major; what may be conjugated has no type here."""
    dtype = None if tensor.is_complex() else tensor.dtype
    return dtype, tensor.numel(), None if tensor.is_contiguous() else tensor.stride()


def _refuse(status: int) -> NoReturn:
    error = api.failure(status)
    if isinstance(error, InvalidArgumentError):
        raise BackwardPassError(
            f"rank {api.rank()}: {error}: call optimizer.step() or synchronize(), give "
            "backward_passes_per_step, or, where the loss of another model passes through this one "
            "as in a GAN, requires_grad_(False) meanwhile"
        )
    raise error
