# SPDX-License-Identifier: Apache-2.0
"""Tensors whose storage is exchanged while operations of the backend "hvd" are under way."""

from __future__ import annotations

import random
import unittest
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

import hvd.torch.distributed  # noqa: F401 (makes the backend known)

torch.set_num_threads(1)
RANK: int
SIZE: int
ROUNDS = 60


def setUpModule() -> None:
    global RANK, SIZE
    dist.init_process_group("hvd", init_method="hvd://")
    RANK, SIZE = dist.get_rank(), dist.get_world_size()


def tearDownModule() -> None:
    dist.barrier()
    dist.destroy_process_group()


def exchange(tensor: torch.Tensor, draw: random.Random) -> None:
    """Gives a tensor other memory, as users do."""
    ways: list[Callable[[], Any]] = [
        lambda: setattr(tensor, "data", tensor.data * 2),
        lambda: setattr(tensor, "data", torch.empty(3)),
        lambda: tensor.data.set_(),
        lambda: tensor.set_(torch.full((draw.randrange(1, 5000),), -1.0)),
        lambda: setattr(tensor, "data", tensor.data.double()),
        lambda: tensor.resize_(1),
    ]
    draw.choice(ways)()
    # What was freed is written to by others at once.
    scratch = [torch.full((size,), 9.0) for size in (7, 100, 4097, 50_000)]
    del scratch


class TestExchangedStorage(unittest.TestCase):
    def test_collectives(self) -> None:
        same, own = random.Random(1), random.Random(RANK)
        for _ in range(ROUNDS):
            count = same.choice([7, 100, 4097, 50_000])
            tensors = [torch.full((count,), RANK + 1.0) for _ in range(4)]
            rows = torch.zeros(count, 2)
            outputs = [torch.empty(count) for _ in range(SIZE)]
            rooms = [tensors[0].detach(), outputs[0].detach(), rows[:, 0]]
            part = torch.empty(count)
            parts = [torch.full((count,), RANK + 1.0) for _ in range(SIZE)]
            works = [
                dist.all_reduce(tensors[0], async_op=True),
                dist.all_gather(outputs, tensors[1], async_op=True),
                dist.broadcast(tensors[2], 0, async_op=True),
                dist.all_reduce(rows[:, 1], async_op=True),
                dist.reduce_scatter(part, parts, async_op=True),
            ]
            for tensor in (*tensors, *outputs, part, *parts):
                if own.random() < 0.5:
                    exchange(tensor, own)
            for work in works:
                work.wait()
            # What was exchanged keeps what it was given; the memory that it had holds the results.
            if rooms[0].numel() == count:
                self.assertEqual(set(rooms[0].tolist()), {SIZE * (SIZE + 1) / 2})
            if rooms[1].numel() == count:
                self.assertEqual(set(rooms[1].tolist()), {1.0})

    def test_messages(self) -> None:
        own = random.Random(RANK)
        right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
        for count in [7, 4097, 50_000] * (ROUNDS // 6):
            sent, got = torch.full((count,), RANK + 1.0), torch.empty(count)
            room = got.detach()
            works = [dist.isend(sent, right), dist.irecv(got, left)]
            for tensor in (sent, got):
                if own.random() < 0.7:
                    exchange(tensor, own)
            del sent, got
            for work in works:
                work.wait()
            self.assertEqual(set(room.tolist()), {left + 1.0})

    def test_works_that_nobody_keeps(self) -> None:
        for count in [7, 4097, 50_000] * (ROUNDS // 6):
            dist.all_reduce(torch.ones(count), async_op=True)
            dist.all_gather(
                [torch.empty(count) for _ in range(SIZE)], torch.ones(count), async_op=True
            )
        dist.barrier()


if __name__ == "__main__":
    unittest.main()
