# SPDX-License-Identifier: Apache-2.0
"""Which device a rank works on, run by each rank; torch says how many GPUs there are."""

from __future__ import annotations

import contextlib
import os
import unittest
from collections.abc import Iterator
from unittest import mock

import torch

import hvd
import hvd.torch as ht


class Device(unittest.TestCase):
    @contextlib.contextmanager
    def gpus(self, count: int, chosen: str | None = None) -> Iterator[list[torch.device]]:
        """As on a machine of so many GPUs; gives what torch is told to use."""
        told: list[torch.device] = []
        with (
            mock.patch.multiple(
                torch.cuda,
                is_available=lambda: count > 0,
                device_count=lambda: count,
                set_device=told.append,
            ),
            mock.patch.dict(os.environ),
        ):
            os.environ.pop("HVD_LOCAL_DEVICE", None)
            if chosen is not None:
                os.environ["HVD_LOCAL_DEVICE"] = chosen
            yield told

    def check(self, count: int, chosen: str | None, wanted: int) -> None:
        with self.gpus(count, chosen) as told:
            device = ht.device()
        self.assertEqual(device, torch.device("cuda", wanted))
        self.assertEqual(told, [device])

    def test_is_that_of_the_rank(self) -> None:
        self.check(4, None, ht.local_rank())
        self.check(4, "3", 3)
        self.check(1, None, 0)  # a task that sees its own alone

    def test_is_the_cpu_without_gpus(self) -> None:
        with self.gpus(0) as told:
            self.assertEqual(ht.device(), torch.device("cpu"))
        self.assertEqual(told, [])

    def test_there_may_be_too_few(self) -> None:
        words = "device: HVD_LOCAL_DEVICE is 2, and the process sees 2 GPUs: start at most one"
        with self.gpus(2, "2") as told, self.assertRaisesRegex(hvd.InvalidArgumentError, words):
            ht.device()
        self.assertEqual(told, [])

    def test_init_comes_first(self) -> None:
        ht.shutdown()
        try:
            for count in (0, 4):
                with self.gpus(count, "1"), self.assertRaises(hvd.NotInitializedError):
                    ht.device()
        finally:
            ht.init()

    def setUp(self) -> None:
        ht.init()


if __name__ == "__main__":
    unittest.main(verbosity=2)
