# SPDX-License-Identifier: Apache-2.0
"""Reduces the gradients of some parameters while the backward pass goes on."""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable
from typing import Any, NoReturn, Optional

import torch

from hvd import _lib, api
from hvd.errors import BackwardPassError, HvdError, InvalidArgumentError
from hvd.gradients import Gradients
from hvd.groups import Group, groups_that_hold
from hvd.handles import synchronize
from hvd.refusals import refused
from hvd.settings import Settings, is_shared
from hvd.torch import devices
from hvd.torch import tensors as _tensors
from hvd.torch.compression import Compression
from hvd.torch.parameters import Named
from hvd.torch.sparse import sparse_allreduce_async

# What the data plane casts needs no tensors of its own.
_METHODS = {
    Compression.none: _lib.COMPRESS_NONE,
    Compression.fp16: _lib.COMPRESS_FLOAT16,
    Compression.bf16: _lib.COMPRESS_BFLOAT16,
}


_Form = tuple[Optional[torch.dtype], int, Optional[tuple[int, ...]]]


class GradientReducer:
    """The gradients of some parameters of one device: which are on their way, and in what form."""

    def __init__(self, named: Named, settings: Settings) -> None:
        compression, reduction = settings.compression, settings.reduction
        self.names = [name for name, _ in named]
        self.parameters = [parameter for _, parameter in named]
        self._sparse_as_dense = settings.sparse_as_dense
        self._method = _METHODS.get(compression, getattr(compression, "method", None))
        # A compressor of the user's own; the library's methods need no tensors beside the gradient.
        self._compressor = None if self._method is not None else compression
        self._compression = compression
        self._forms = [_form(parameter) for parameter in self.parameters]
        # What the engine reads and writes, by parameter; lives until the step is over.
        self._wires: dict[int, Any] = {}
        # The GPU, or below 0; of this step: the stream that makes each gradient there, and those
        # whose order the step's end has to keep.
        self._gpu = devices.gpus.index(self.parameters[0])
        self._origins: dict[int, int] = {}
        self._streams: set[int] = set()
        # Sparse gradients of this step, and their handles once they are on their way; they leave
        # when the step is synchronized. Of those that have been sparse: how many sparse dimensions.
        self._rows: dict[int, int | None] = {}
        self._sparse: dict[int, int] = {}
        self._reduction = reduction
        self._gradients = Gradients(
            [f"gradient.{name}" for name in self.names],
            [self._describe(parameter) for parameter in self.parameters],
            reduction,
            (_lib.CPU, 0) if self._gpu < 0 else (devices.gpus.kind, self._gpu),
        )
        for index, parameter in enumerate(self.parameters):
            self._compress(index, parameter.dtype)
        self._hooks: list[Any] = []
        if is_shared(settings.process_set):
            held = groups_that_hold(settings.groups, self.parameters, reduction.passes_per_step)
            self._groups = list({id(group): group for group in held.values()}.values())
            for index, parameter in enumerate(self.parameters):
                hook = self._hook(index, held.get(index))
                # Keeps torch.compile from tracing it, as torch._dynamo.disable() does for some
                # microseconds a call; where that is not imported yet, it would take a second.
                hook._torchdynamo_disable = True  # type: ignore[attr-defined]
                skip = getattr(sys.modules.get("torch._dynamo.eval_frame"), "skip_code", None)
                if skip is not None:
                    skip(hook.__code__)
                self._hooks.append(_on_gradient(parameter, hook))
        else:
            self._groups = []

    def __del__(self) -> None:
        # Another optimizer may follow for the same parameters.
        for _, handle in getattr(self, "_hooks", ()):
            handle.remove()

    def _compress(self, index: int, dtype: torch.dtype) -> None:
        """Chooses the method for a gradient, if it takes that type."""
        types = [torch.float32]
        if self._method in (_lib.COMPRESS_FLOAT16, _lib.COMPRESS_BFLOAT16):
            types.append(torch.float64)
        method = self._method if dtype in types else _lib.COMPRESS_NONE
        if method is not None and self._method:
            details = [
                getattr(self._compression, name, 0) for name in ("rank", "ratio", "smallest")
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
        wires, key, borrowed = self._wires, id(self), api.borrowed
        submit = self._gradients.submitter(index)
        submit_on = self._gradients.submitter_on(index)
        gpu, number = self._gpu, self.parameters[index].get_device()
        stream_of, streams = devices.gpus.stream, self._streams

        def slow(parameter: torch.Tensor) -> None:
            nonlocal dtype, count, strides
            this = reducer()
            if this is not None:
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
            except RuntimeError:  # a sparse one is nowhere
                is_as_before = False
            if not is_as_before:
                slow(parameter)
                return
            if not wires:
                borrowed[key] = wires
            wires[index] = gradient
            if gpu < 0:
                status = submit(address, 0)
            else:
                stream = stream_of(gpu)
                streams.add(stream)
                status = submit_on(address, 0, stream)
            if status:
                _refuse(status)

        if group is not None or self._compressor is not None:
            return slow
        return fast

    def form(self, index: int) -> _Form:
        """What the library knows of a gradient."""
        return self._forms[index]

    def complete(self, index: int, parameter: torch.Tensor, group: Group | None) -> None:
        """One backward pass has completed the gradient of `parameter`."""
        gradient = parameter.grad
        if gradient is not None and gradient.is_sparse and not self._sparse_as_dense:
            self._sparse[index] = gradient.sparse_dim()
            self._rows[index] = None
            return
        address = self._prepare(index, parameter)
        if self._gpu >= 0:
            self._origins[index] = devices.gpus.stream(self._gpu)
        if group is None:
            self._submit(index, address, 0)
            return
        for member, place in group.add(index, address, self.names[index]):
            self._submit(member, place, 0)

    def _prepare(self, index: int, parameter: torch.Tensor) -> int:
        """Makes the gradient of a parameter ready to travel; the address of what travels."""
        gradient = self._flat(parameter)
        if devices.gpus.index(gradient) != self._gpu:
            raise refused(
                f"gradient '{self.names[index]}' is on {gradient.device}: it was elsewhere when the "
                "DistributedOptimizer was made; move the model first, then make its optimizer"
            )
        # One that was frozen since stays without gradient, so that no momentum moves it.
        if gradient is not parameter.grad and parameter.requires_grad:
            parameter.grad = gradient
        form = _form(gradient)
        if form != self._forms[index]:
            self._change(index, gradient)
            self._forms[index] = form
        wires = self._wires
        if not wires:
            api.borrowed[id(self)] = wires
        if self._compressor is None:
            wires[index] = gradient
            return gradient.data_ptr()
        wire, context = wires[index] = self._compressor.compress(gradient)
        return wire.data_ptr()

    def _flat(self, parameter: torch.Tensor) -> torch.Tensor:
        """The gradient as memory that can be replaced; zeros where there is none."""
        gradient = parameter.grad
        if gradient is None:
            return torch.zeros_like(parameter, requires_grad=False)
        flat = gradient
        if gradient.is_sparse:
            flat = gradient.to_dense()
        elif gradient.is_conj() or gradient.is_neg():
            flat = gradient.resolve_conj().resolve_neg()
        if _tensors.layout_of(flat.shape, flat.stride()) is None:
            flat = torch.empty_like(parameter, requires_grad=False).copy_(flat)
        return flat

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

    def _send_rows(self, index: int) -> int:
        """Starts the reduction of a sparse gradient; of no rows where this rank has none."""
        parameter = self.parameters[index]
        gradient = parameter.grad
        if gradient is None:
            dimensions = self._sparse[index]
            gradient = _tensors.sparse(
                torch.zeros((dimensions, 0), dtype=torch.int64, device=parameter.device),
                parameter.new_zeros((0, *parameter.shape[dimensions:])),
                parameter.shape,
            )
        name, (op, _, _, process_set) = f"gradient.{self.names[index]}", self._reduction
        return sparse_allreduce_async(gradient, name, op, process_set)  # type: ignore[arg-type]

    @property
    def is_started(self) -> bool:
        """True when gradients of this step are on their way, or accumulated."""
        return bool(self._wires or self._rows)

    def send_missing(self) -> None:
        """Sends what no backward pass has sent: zeros for a gradient that is not there."""
        for index in self._gradients.missing():
            gradient = self.parameters[index].grad
            if index in self._sparse and (gradient is None or gradient.is_sparse):
                self._rows[index] = self._send_rows(index)
            else:
                self._submit(index, self._prepare(index, self.parameters[index]), 1)

    def wait(self) -> None:
        """Waits until every gradient is reduced; on a GPU: the stream of now does."""
        try:
            if self._gpu < 0:
                self._gradients.wait()
            else:
                self._arrive()
            for index, handle in self._rows.items():
                if handle is not None:
                    self.parameters[index].grad = synchronize(handle)
        except HvdError:
            self._forget()  # the step is over, and another may follow
            raise
        if self._compressor is not None:
            for index, (wire, context) in self._wires.items():
                gradient = self.parameters[index].grad
                if gradient is not None:
                    gradient.copy_(self._compressor.decompress(wire, context))
        self._forget()

    def _arrive(self) -> None:
        now = devices.gpus.stream(self._gpu)
        if not self._streams <= {now}:
            for wire in devices.tensors_in(list(self._wires.values())):
                devices.gpus.keep(wire)
        self._gradients.wait_stream(now)

    def _forget(self) -> None:
        """Nothing of this step is in flight any more."""
        self._wires.clear()
        self._origins.clear()
        self._streams.clear()
        for handle in self._rows.values():
            if handle is not None:
                with contextlib.suppress(HvdError):
                    synchronize(handle)  # nothing where that was done
        self._rows.clear()
        api.borrowed.pop(id(self), None)
        for group in self._groups:
            group.begin_step()

    def set_passes(self, passes: int) -> None:
        """How many backward passes add up before a reduction."""
        self._gradients.set_passes(passes)
        for group in self._groups:
            group.passes_per_step = passes

    def save(self) -> bytes:
        """What compression keeps between steps on this rank."""
        return self._gradients.save()

    def load(self, state: bytes) -> None:
        """Takes over what ``save()`` gave."""
        self._gradients.load(state)


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


def _on_gradient(parameter: torch.Tensor, hook: Callable[[torch.Tensor], None]) -> tuple[Any, Any]:
    """Calls `hook(parameter)` when its gradient is complete; what keeps and what ends this."""
    register = getattr(parameter, "register_post_accumulate_grad_hook", None)
    if register is not None:
        return None, register(hook)
    # Before torch 2.1: the node that accumulates the gradient, found behind any view.
    node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]  # type: ignore[union-attr]
    found = weakref.ref(parameter)

    def on_node(*unused: Any) -> None:
        found_parameter = found()
        if found_parameter is not None:
            hook(found_parameter)

    return node, node.register_hook(on_node)
