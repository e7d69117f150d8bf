# SPDX-License-Identifier: Apache-2.0
"""The distributed optimizer: gradients are reduced while the backward pass goes on."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from hvd import _lib, api
from hvd.errors import HvdError, InvalidArgumentError
from hvd.gradients import Gradients, Reduction
from hvd.process_sets import ProcessSet, global_process_set, process_set_id
from hvd.torch import tensors as _tensors
from hvd.torch.compression import Compression
from hvd.torch.operations import Average

# What the data plane casts needs no tensors of its own.
_METHODS = {
    Compression.none: _lib.COMPRESS_NONE,
    Compression.fp16: _lib.COMPRESS_FLOAT16,
    Compression.bf16: _lib.COMPRESS_BFLOAT16,
}


class _Reduction:
    """The gradients of one optimizer: which are on their way, and in what form."""

    def __init__(
        self,
        named: list[tuple[str, torch.nn.Parameter]],
        compression: Any,
        reduction: Reduction,
        process_set: ProcessSet,
        sparse_as_dense: bool,
    ) -> None:
        self._parameters = [parameter for _, parameter in named]
        self._sparse_as_dense = sparse_as_dense
        method = _METHODS.get(compression, getattr(compression, "method", None))
        # A compressor of the user's own; the library's methods need no tensors beside the gradient.
        self._compressor = None if method is not None else compression
        self._forms = [self._form(parameter) for parameter in self._parameters]
        # What the engine reads and writes, by parameter; lives until the step is over.
        self._wires: dict[int, tuple[torch.Tensor, Any]] = {}
        self._gradients = Gradients(
            [f"gradient.{name}" for name, _ in named],
            [self._describe(parameter) for parameter in self._parameters],
            reduction,
        )
        if method:
            self._compress(method, compression)
        self._hooks: list[Any] = []
        # A rank that is not in the set steps by itself, as one alone does.
        self.is_shared = process_set.included() and process_set.size() > 1
        if self.is_shared:
            for index, parameter in enumerate(self._parameters):
                self._hooks.append(_on_gradient(parameter, self._hook(index)))

    def _compress(self, method: int, compression: Any) -> None:
        """Chooses the method for each gradient that it takes."""
        details = [getattr(compression, detail, 0) for detail in ("rank", "ratio", "smallest")]
        types = [torch.float32]
        if method in (_lib.COMPRESS_FLOAT16, _lib.COMPRESS_BFLOAT16):
            types.append(torch.float64)
        for index, parameter in enumerate(self._parameters):
            if parameter.dtype in types:
                self._gradients.compress(index, method, *details)

    def _form(self, tensor: torch.Tensor) -> tuple[Any, Any]:
        return tensor.stride(), tensor.dtype

    def _describe(self, gradient: torch.Tensor) -> Any:
        wire = gradient.detach()
        if self._compressor is not None:
            wire, _ = self._compressor.compress(wire)
        return api.tensor_struct(*_tensors.in_place(wire, "gradient"))

    def _hook(self, index: int) -> Callable[[torch.Tensor], None]:
        def hook(parameter: torch.Tensor) -> None:
            self.start(index, parameter, 0)

        return hook

    def start(self, index: int, parameter: torch.Tensor, last_pass: int) -> None:
        """One backward pass has completed the gradient of `parameter`."""
        gradient = parameter.grad
        assert gradient is not None
        if gradient.is_sparse:
            gradient = parameter.grad = self._dense(gradient)
        if (gradient.stride(), gradient.dtype) != self._forms[index]:
            self._gradients.describe(index, self._describe(gradient))
            self._forms[index] = self._form(gradient)
        wires = self._wires
        if not wires:
            api.borrowed[id(self)] = wires
        if self._compressor is None:
            wire, context = gradient, None
        else:
            wire, context = self._compressor.compress(gradient)
        self._gradients.ready(index, wire.data_ptr(), last_pass)
        wires[index] = (wire, context)

    def _dense(self, gradient: torch.Tensor) -> torch.Tensor:
        if self._sparse_as_dense:
            return gradient.to_dense()
        raise InvalidArgumentError(
            "a gradient is sparse: give sparse_as_dense=True to DistributedOptimizer"
        )

    def finish(self) -> None:
        """Sends what is missing and waits until every gradient is reduced."""
        for index in self._gradients.missing():
            parameter = self._parameters[index]
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            self.start(index, parameter, 1)
        try:
            self._gradients.wait()
        except HvdError:
            self.forget()  # the step is over, and another may follow
            raise
        if self._compressor is not None:
            for index, (wire, context) in self._wires.items():
                gradient = self._parameters[index].grad
                if gradient is not None:
                    gradient.copy_(self._compressor.decompress(wire, context))
        self.forget()

    def forget(self) -> None:
        """Nothing of this step is in flight any more."""
        self._wires = {}
        api.borrowed.pop(id(self), None)

    def is_started(self) -> bool:
        """True when gradients of this step are on their way, or accumulated."""
        return bool(self._wires)

    def set_passes(self, passes: int) -> None:
        """How many backward passes add up before a reduction."""
        self._gradients.set_passes(passes)

    def save(self) -> bytes:
        """What compression keeps between steps on this rank."""
        return self._gradients.save()

    def load(self, state: bytes) -> None:
        """Takes over what ``save()`` gave."""
        self._gradients.load(state)


def _on_gradient(parameter: torch.Tensor, hook: Callable[[torch.Tensor], None]) -> Any:
    """Calls `hook(parameter)` when its gradient is complete; returns what keeps this alive."""
    register = getattr(parameter, "register_post_accumulate_grad_hook", None)
    if register is not None:
        return register(hook)
    # Before torch 2.1: the node that accumulates the gradient, found behind any view.
    node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]  # type: ignore[union-attr]
    return node, node.register_hook(lambda *unused: hook(parameter))


class _Distributed:
    """What ``DistributedOptimizer`` adds to the class of the optimizer it is given."""

    _hvd: _Reduction
    _hvd_given: Any
    _hvd_is_synchronized: bool
    _hvd_synchronizes: bool

    def set_backward_passes_per_step(self, passes: int) -> None:
        """How many backward passes add up before gradients are reduced."""
        self._hvd.set_passes(passes)

    def save_compression(self) -> bytes:
        """What compression keeps between steps; this rank's own, so save it on every rank."""
        return self._hvd.save()

    def load_compression(self, state: bytes) -> None:
        """Takes over what ``save_compression()`` gave for the same model and method."""
        self._hvd.load(state)

    def synchronize(self) -> None:
        """Waits until all gradients are reduced; for gradient clipping before ``step()``."""
        if self._hvd.is_shared:
            self._hvd.finish()
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
        """Waits for the gradients of all ranks, then updates the parameters."""
        if closure is not None:
            given = closure

            def closure() -> Any:
                loss = given()
                self._synchronize_for_step()
                return loss

            result = super().step(closure)  # type: ignore[misc]
        else:
            self._synchronize_for_step()
            result = super().step()  # type: ignore[misc]
        self._hvd_is_synchronized = False
        self._tell_schedulers()
        return result

    def _tell_schedulers(self) -> None:
        # One made before the wrapping looks at the optimizer it was given, and would warn.
        self._hvd_given._opt_called = True
        self._hvd_given._step_count = getattr(self._hvd_given, "_step_count", 0) + 1

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

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """Sets gradients to zero; not while they are on their way."""
        if self._hvd.is_started():
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before "
                "optimizer.step() or optimizer.synchronize(): gradients are on their way"
            )
        super().zero_grad(*args, **kwargs)  # type: ignore[misc]


def _named(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None,
) -> list[tuple[str, torch.nn.Parameter]]:
    """Name and parameter of all that the optimizer trains, in its order."""
    trained = [
        (f"{number}.{place}", parameter)
        for number, group in enumerate(optimizer.param_groups)
        for place, parameter in enumerate(group["params"])
        if parameter.requires_grad
    ]
    if named_parameters is None:
        return trained
    pairs = list(named_parameters)
    if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs):
        raise ValueError(
            "named_parameters should be a sequence of tuples (name, parameter), usually produced "
            "by model.named_parameters()."
        )
    names = [name for name, _ in pairs]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"Parameter names in named_parameters must be unique: {repeated}")
    by_id = {id(parameter): name for name, parameter in pairs}
    unnamed = [place for place, parameter in trained if id(parameter) not in by_id]
    if unnamed:
        raise ValueError(
            "named_parameters was specified, but one or more model parameters were not named: "
            f"{len(unnamed)} of {len(trained)} (group.place: {', '.join(unnamed[:5])})"
        )
    return [(by_id[id(parameter)], parameter) for _, parameter in trained]


def DistributedOptimizer(  # noqa: N802 (the name that users know)
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None = None,
    compression: Any = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
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
        ``Average`` or ``Sum``.
    gradient_predivide_factor
        Gradients are divided by it before the sum and multiplied after; with ``Average`` only.
    process_set
        The ranks that train together. On a rank that is not in the set each step is local.
    """
    if backward_passes_per_step <= 0:
        raise ValueError("backward_passes_per_step must be > 0")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    named = _named(optimizer, named_parameters)
    reduction = Reduction(
        op, gradient_predivide_factor, backward_passes_per_step, process_set_id(process_set)
    )
    given = type(optimizer)
    wrapped = object.__new__(type(given.__name__, (_Distributed, given), {}))  # type: ignore[var-annotated]
    wrapped.__dict__.update(optimizer.__dict__)
    # A scheduler made before may have put its own step into the instance, bound to `optimizer`.
    wrapped.__dict__.pop("step", None)
    wrapped._hvd = _Reduction(named, compression, reduction, process_set, sparse_as_dense)
    wrapped._hvd_given = optimizer
    wrapped._hvd_is_synchronized = False
    wrapped._hvd_synchronizes = True
    return wrapped
