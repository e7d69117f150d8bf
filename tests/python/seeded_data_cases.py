# SPDX-License-Identifier: Apache-2.0
"""What a thread that reads ahead shares with the training: random generators, modes, the GPU."""

from __future__ import annotations

import contextlib
import contextvars
import random
import time
import unittest
import unittest.mock
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy
import torch

from hvd import data

LABEL = contextvars.ContextVar("label", default="none")


class Noisy(torch.utils.data.Dataset):
    """Items with noise from a process-wide generator."""

    def __init__(self, draw: Callable[[], float]) -> None:
        self.draw = draw

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([index, self.draw()])


class Batches(data.AsyncDataLoaderMixin, data.BaseDataLoader):
    """Horovod's way to read ahead."""

    def __init__(self, source: Iterable[Any]) -> None:
        super().__init__(2)
        self.source = source

    def _iterate(self) -> Iterable[Any]:
        return self.source


DRAWS = {
    "torch": lambda: torch.rand(()).item(),
    "random": random.random,
    "numpy.random": numpy.random.rand,
}


def trained(loader: Iterable[Any], draw: Callable[[], float], pause: float) -> list[float]:
    """Two epochs of a seeded training that draws for each step, as dropout does."""
    torch.manual_seed(4)
    random.seed(4)
    numpy.random.seed(4)
    seen = []
    for _ in range(2):
        for batch in loader:
            time.sleep(pause)  # so that a thread comes further ahead, or less far
            seen += [*batch.flatten().tolist(), draw()]
    return seen


class Seeded(unittest.TestCase):
    def test_runs_repeat_where_items_draw(self) -> None:
        for name, draw in DRAWS.items():
            for make in (data.PrefetchLoader, Batches):
                with self.subTest(generator=name, loader=make.__name__):
                    plain = torch.utils.data.DataLoader(Noisy(draw), 2, shuffle=True)
                    wanted = trained(plain, draw, 0)
                    for pause in (0, 0.005, 0.001, 0):
                        loader = make(plain)
                        with self.assertWarnsRegex(
                            UserWarning, f"process-wide generator of {name}: not read ahead"
                        ):
                            self.assertEqual(trained(loader, draw, pause), wanted)
                        with warnings.catch_warnings():  # said once a loader
                            warnings.simplefilter("error")
                            self.assertEqual(trained(loader, draw, pause), wanted)

    def test_what_draws_for_its_epoch_alone_is_read_ahead(self) -> None:
        draw = DRAWS["torch"]
        own = torch.Generator()
        datasets = (
            Noisy(lambda: 0.0),
            Noisy(lambda: torch.rand((), generator=own).item()),
        )
        for dataset in datasets:
            plain = torch.utils.data.DataLoader(dataset, 2, shuffle=True)
            own.manual_seed(1)
            wanted = trained(plain, draw, 0)
            for pause in (0, 0.005, 0.001):
                own.manual_seed(1)
                loader = data.PrefetchLoader(plain)
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    self.assertEqual(trained(loader, draw, pause), wanted)

    def test_draws_of_later_epochs_within_one_source(self) -> None:
        """A loader that is read again and again draws an order each time."""
        plain = torch.utils.data.DataLoader(Noisy(lambda: 0.0), 2, shuffle=True)

        class Cycle:
            def __iter__(self):
                for _ in range(3):
                    yield from plain

        wanted = trained(Cycle(), DRAWS["torch"], 0)
        for make in (data.PrefetchLoader, Batches):
            for pause in (0, 0.002, 0.0005, 0):
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    self.assertEqual(trained(make(Cycle()), DRAWS["torch"], pause), wanted)

    def test_workers_draw_for_themselves(self) -> None:
        plain = torch.utils.data.DataLoader(
            Noisy(DRAWS["torch"]), 2, shuffle=True, num_workers=1, multiprocessing_context="fork"
        )
        wanted = trained(plain, DRAWS["torch"], 0)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            self.assertEqual(trained(data.PrefetchLoader(plain), DRAWS["torch"], 0), wanted)


class Modes(unittest.TestCase):
    def seen(self, look: Callable[[], Any]) -> list[Any]:
        """What a source sees on the thread that reads it; the second item is read in step."""

        def source():
            for _ in range(4):
                yield look()

        return list(data.PrefetchLoader(source()))

    def test_gradient_mode(self) -> None:
        for mode, wanted in (
            (torch.no_grad, (False, False)),
            (torch.enable_grad, (True, False)),
            (torch.inference_mode, (False, True)),
        ):
            with mode():
                got = self.seen(
                    lambda: (torch.is_grad_enabled(), torch.is_inference_mode_enabled())
                )
            self.assertEqual(set(got), {wanted})
        weight = torch.ones(2, requires_grad=True)
        with torch.no_grad():
            self.assertEqual({one.requires_grad for one in self.seen(lambda: weight * 2)}, {False})

    def test_autocast(self) -> None:
        with torch.autocast("cpu", torch.bfloat16):
            got = self.seen(lambda: (torch.ones(2, 2) @ torch.ones(2, 2)).dtype)
        self.assertEqual(set(got), {torch.bfloat16})
        self.assertEqual(
            set(self.seen(lambda: (torch.ones(2, 2) @ torch.ones(2, 2)).dtype)), {torch.float32}
        )

    def test_context_variables(self) -> None:
        token = LABEL.set("mine")
        self.addCleanup(LABEL.reset, token)
        self.assertEqual(set(self.seen(LABEL.get)), {"mine"})

    def test_gpu_and_stream(self) -> None:
        """With a torch that says it uses GPU 3: this machine need not have one."""
        entered: list[Any] = []

        @contextlib.contextmanager
        def noted(what: Any):
            entered.append(what)
            yield

        fakes = {
            "is_initialized": lambda: True,
            "current_device": lambda: 3,
            "current_stream": lambda: "stream",
            "device": noted,
            "stream": noted,
            "get_rng_state": lambda: torch.zeros(1),
        }
        with unittest.mock.patch.multiple(torch.cuda, **fakes):
            self.assertEqual(self.seen(lambda: list(entered))[-1], [3, "stream"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
