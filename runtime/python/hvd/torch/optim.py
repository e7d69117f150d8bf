# SPDX-License-Identifier: Apache-2.0
"""Training models of half types: float32 copies of their weights, so that small updates count.

::

    model = Model().to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    optimizer = hvd.optim.MasterWeights(optimizer)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import torch

from hvd._core.refusals import refused
from hvd.torch.wrapping import Wrapped, wrap

__all__ = ["MasterWeights"]

# The class of an optimizer, which an editor completes, stays what it is.
Given = TypeVar("Given", bound=torch.optim.Optimizer)

_HALVES = (torch.float16, torch.bfloat16)


def MasterWeights(optimizer: Given) -> Given:  # noqa: N802 (a kind of optimizer)
    """An optimizer of the same class that keeps float32 copies of float16 and bfloat16 parameters.

    The model computes, and gradients travel, in its own type; the data plane adds them in float32.
    A step updates the copies, and the model gets them rounded. Parameters of other types are
    updated directly.

    ``state_dict()`` holds the copies. Where the model has other weights than a copy rounded
    (because they were loaded, or broadcast), the copy takes those of the model.

    Parameters
    ----------
    optimizer
        Any torch optimizer of the model's parameters; its groups then hold the copies.

    Raises
    ------
    InvalidArgumentError
        The optimizer is distributed already, or has such copies.

    >>> weight = torch.nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
    >>> optimizer = MasterWeights(torch.optim.SGD([weight], lr=1e-3))
    >>> for _ in range(8):  # 1 - 0.001 is 1 in bfloat16
    ...     weight.grad = torch.ones_like(weight)
    ...     optimizer.step()
    >>> weight.item()
    0.9921875
    """
    if hasattr(optimizer, "_hvd_reducers") or hasattr(optimizer, "_hvd_masters"):
        raise refused(
            "MasterWeights takes a torch optimizer, once: call DistributedOptimizer on its result"
        )
    wrapped = wrap(optimizer, _Masters)
    wrapped._hvd_masters = []
    wrapped._hvd_model_groups = []
    for group in wrapped.param_groups:
        wrapped._adopt(group)
    return wrapped


class _Masters(Wrapped):
    """What ``MasterWeights`` adds to the class of the optimizer it is given."""

    # Parameter of the model, and its copy.
    _hvd_masters: list[tuple[torch.nn.Parameter, torch.nn.Parameter]]
    _hvd_model_groups: list[list[torch.nn.Parameter]]

    def _adopt(self, group: dict[str, Any]) -> None:
        """Replaces the half parameters of a group by copies, in place: schedulers hold it."""
        of_model = list(group["params"])
        self._hvd_model_groups.append(of_model)
        state = self.__dict__["state"]
        for place, parameter in enumerate(of_model):
            if parameter.dtype not in _HALVES:
                continue
            master = torch.nn.Parameter(parameter.detach().float())
            group["params"][place] = master
            self._hvd_masters.append((parameter, master))
            if parameter in state:
                state[master] = {
                    key: value.float() if _is_half(value) else value
                    for key, value in state.pop(parameter).items()
                }

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters to train, and copies of those of half types."""
        super().add_param_group(param_group)  # type: ignore[misc]
        self._adopt(self.__dict__["param_groups"][-1])

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the float32 copies, and gives the model their rounded values."""
        self._follow_model()
        if closure is not None:
            given = closure

            def closure() -> Any:
                self._to_model()
                loss = given()
                self._take_gradients()
                return loss

            result = super().step(closure)  # type: ignore[misc]
        else:
            self._take_gradients()
            result = super().step()  # type: ignore[misc]
        self._to_model()
        for _, master in self._hvd_masters:
            master.grad = None
        self._tell_schedulers()
        return result

    @torch.no_grad()
    def _follow_model(self) -> None:
        for parameter, master in self._hvd_masters:
            if not torch.equal(parameter, master.to(parameter.dtype)):
                master.copy_(parameter)

    @torch.no_grad()
    def _take_gradients(self) -> None:
        for parameter, master in self._hvd_masters:
            gradient = parameter.grad
            master.grad = None if gradient is None else gradient.to(torch.float32)

    @torch.no_grad()
    def _to_model(self) -> None:
        for parameter, master in self._hvd_masters:
            parameter.copy_(master)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients of the model, or sets them to zero."""
        super().zero_grad(set_to_none)  # type: ignore[misc]
        for parameter, _ in self._hvd_masters:
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad.detach_().zero_()

    def state_dict(self) -> dict[str, Any]:
        """That of torch, with the copies."""
        state = super().state_dict()  # type: ignore[misc]
        state["masters"] = [master.detach() for _, master in self._hvd_masters]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what ``state_dict()`` gave; the model's weights are loaded by themselves."""
        masters = state_dict.get("masters")
        if masters is not None and len(masters) != len(self._hvd_masters):
            raise refused(
                f"the state has {len(masters)} float32 copies, this optimizer "
                f"{len(self._hvd_masters)}: load it into an optimizer of the same model"
            )
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "masters"})
        with torch.no_grad():
            for (_, master), saved in zip(self._hvd_masters, masters or ()):
                master.copy_(saved)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("an optimizer with MasterWeights cannot be copied: copy its state_dict()")


def _is_half(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in _HALVES
