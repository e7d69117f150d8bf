# SPDX-License-Identifier: Apache-2.0
"""The learning rate of many ranks, after a gradual warm-up."""

from __future__ import annotations

import torch

from hvd._core import api
from hvd._core.refusals import refused

# Its name before torch 2.0.
_Base = getattr(torch.optim.lr_scheduler, "LRScheduler", torch.optim.lr_scheduler._LRScheduler)


class WarmupSchedule(_Base):  # type: ignore[misc, valid-type]
    """Multiplies the rates by 1/factor at first and, growing in equal steps, by 1 after the warm-up.

    From Goyal et al. 2017: give the optimizer the rate that suits one rank times the number of ranks;
    the training begins with that of one rank. It multiplies what it finds, so it may be chained with
    ``StepLR``, ``MultiStepLR``, ``ExponentialLR`` and ``CosineAnnealingLR``: call ``step()`` of both.
    Schedules that compute each rate from the first one (``LambdaLR``, ``OneCycleLR``) go after it, in
    a ``SequentialLR`` with the milestone `warmup_steps`.

    Parameters
    ----------
    optimizer
        With the rates that suit all ranks together.
    warmup_steps
        Calls of ``step()`` until the warm-up is over; 0: none.
    factor
        The number of ranks unless given.
    last_epoch
        As in torch: how many steps were done, to go on with a training.

    Raises
    ------
    InvalidArgumentError
        `warmup_steps` or `factor` is out of range.

    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.8)
    >>> schedule = WarmupSchedule(optimizer, warmup_steps=100, factor=8)
    >>> round(optimizer.param_groups[0]["lr"], 3)
    0.1
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        warmup_steps: int,
        factor: float | None = None,
        last_epoch: int = -1,
    ) -> None:
        self.warmup_steps = warmup_steps
        self.factor = float(api.size() if factor is None else factor)
        if warmup_steps < 0 or self.factor <= 0:
            raise refused(
                f"WarmupSchedule: warmup_steps is {warmup_steps}, factor {self.factor}; 0 or more, and "
                "more than 0"
            )
        super().__init__(optimizer, last_epoch)

    def _scale(self, step: int) -> float:
        return api.learning_rate(1 / self.factor, step, self.warmup_steps, self.factor)

    def get_lr(self) -> list[float]:
        """What the rates become in this step."""
        step = self.last_epoch
        change = self._scale(step) / (self._scale(step - 1) if step > 0 else 1.0)
        return [group["lr"] * change for group in self.optimizer.param_groups]
