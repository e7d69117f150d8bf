# SPDX-License-Identifier: Apache-2.0
"""Random numbers that differ between ranks and do not from run to run."""

from __future__ import annotations

import hashlib
import random
import sys
from typing import Any

from hvd._core import api


def derived_seed(base: int, *parts: int | str) -> int:
    """A seed of 64 bits from another and what it is for; neighbours have nothing in common.

    Parameters
    ----------
    base
        The seed of the run.
    *parts
        What it is for: numbers and words, as an epoch and a rank.

    >>> derived_seed(1, 0) == derived_seed(1, 0), derived_seed(1, 0) == derived_seed(0, 1)
    (True, False)
    """
    text = "/".join(map(str, (base, *parts)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def seed_everything(base: int, rank: int | None = None) -> int:
    """Seeds ``random``, and NumPy and PyTorch where they are imported, for this rank.

    Parameters
    ----------
    base
        Equal on all ranks; another one gives another run.
    rank
        This one unless given. The same number on all ranks gives all the same random numbers, as
        for the first values of a model.

    Returns
    -------
    int
        The seed of this rank, for other generators.

    >>> seed_everything(1, rank=0) == seed_everything(1, rank=0)
    True
    """
    seed = derived_seed(base, api.rank() if rank is None else rank)
    _apply(seed)
    return seed


def _apply(seed: int) -> None:
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed & 0xFFFFFFFF)
    if "torch" in sys.modules:
        # Of signed 64 bits; also those of GPUs.
        sys.modules["torch"].manual_seed(seed >> 1)


class RandomState:
    """The generators of ``random``, and of NumPy and PyTorch where they are imported, of this process.

    A value for elastic states: with ``rng=hvd.elastic.PerRank(hvd.seeds.RandomState())`` dropout and
    shuffling go on after a loss as they would have without it, on each rank with numbers of its own.

    >>> generators = RandomState()
    >>> before = generators.state_dict()
    >>> first = random.random()
    >>> generators.load_state_dict(before)
    >>> random.random() == first
    True
    """

    def state_dict(self) -> dict[str, Any]:
        """Where each generator is; of GPUs the one that this process works on."""
        state: dict[str, Any] = {"random": random.getstate()}
        if "numpy" in sys.modules:
            state["numpy"] = sys.modules["numpy"].random.get_state()
        torch = sys.modules.get("torch")
        if torch is not None:
            state["torch"] = torch.get_rng_state()
            if torch.cuda.is_initialized():
                state["cuda"] = torch.cuda.get_rng_state()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Sets the generators; those that are not in the state stay as they are.

        Parameters
        ----------
        state
            What ``state_dict()`` gave, on any rank.
        """
        random.setstate(state["random"])
        if "numpy" in state:
            import numpy

            numpy.random.set_state(state["numpy"])
        if "torch" in state:
            import torch

            torch.set_rng_state(state["torch"])
            if "cuda" in state:
                torch.cuda.set_rng_state(state["cuda"])

    def fresh_state(self, rank: int, size: int) -> dict[str, Any]:
        """A state for a rank that has come to a job at work, from this process's ``random``.

        Parameters
        ----------
        rank, size
            Its number, and how many ranks there are.
        """
        before = self.state_dict()
        _apply(derived_seed(random.getrandbits(64), rank, size))
        fresh = self.state_dict()
        self.load_state_dict(before)
        return fresh


def worker_init_fn(worker_id: int) -> None:
    """For ``DataLoader(worker_init_fn=...)``: workers of all ranks draw different numbers.

    The seed comes from that of this rank's PyTorch, so ``seed_everything()`` goes first; epochs differ,
    too. Without it ``random`` and NumPy of the workers repeat each other in old versions of PyTorch.

    Parameters
    ----------
    worker_id
        As torch gives it.

    >>> worker_init_fn(0)
    """
    import torch

    # In a worker this is what the loader drew for the epoch, plus the worker's number.
    _apply(derived_seed(torch.initial_seed(), "worker", worker_id))
