# SPDX-License-Identifier: Apache-2.0
"""Futures of the torch.distributed backend "hvd" whose callbacks wait, start operations, fail."""

from __future__ import annotations

import datetime
import threading
import unittest
from typing import Any

import torch
import torch.distributed as dist

import hvd.torch as hvd
import hvd.torch.distributed  # noqa: F401 (makes the backend known)

torch.set_num_threads(1)
RANK: int
SIZE: int


def setUpModule() -> None:
    global RANK, SIZE
    dist.init_process_group("hvd", init_method="hvd://")
    RANK, SIZE = dist.get_rank(), dist.get_world_size()


def tearDownModule() -> None:
    dist.barrier()
    dist.destroy_process_group()


def total(value: float, group: Any = None) -> torch.futures.Future:
    """The future of the sum over ranks of `value` times rank + 1."""
    tensor = torch.full((3,), value * (RANK + 1))
    return dist.all_reduce(tensor, group=group, async_op=True).get_future()


def summed(value: float, times: int = 1) -> float:
    return value * sum(range(1, SIZE + 1)) * SIZE ** (times - 1)


def first(future: torch.futures.Future) -> float:
    return future.value()[0][0].item()


class TestWaits(unittest.TestCase):
    def test_a_callback_waits_for_a_future_that_it_makes(self) -> None:
        made = [
            total(number).then(lambda future: first(future) + first_of(total(1.0)))
            for number in range(20)
        ]
        for number, future in enumerate(made):
            self.assertEqual(future.wait(), summed(number) + summed(1.0))

    def test_callbacks_wait_for_later_futures_and_for_each_other(self) -> None:
        sources = [total(1.0) for _ in range(8)]
        chain = sources.pop().then(first)
        while sources:
            later = chain
            chain = sources.pop().then(
                lambda future, later=later: first(future) + later.wait()  # type: ignore[misc]
            )
        self.assertEqual(chain.wait(), 8 * summed(1.0))

    def test_at_depth(self) -> None:
        def deeper(depth: int) -> Any:
            def callback(future: torch.futures.Future) -> float:
                here = first(future)
                return here + (total(1.0).then(deeper(depth - 1)).wait() if depth else 0)

            return callback

        self.assertEqual(total(1.0).then(deeper(6)).wait(), 7 * summed(1.0))

    def test_chains_whose_links_start_operations(self) -> None:
        chains = []
        for number in range(30):
            chain = total(number).then(lambda future: total(first(future)).wait()[0])
            chain = chain.then(lambda future: total(future.value()[0].item()).wait()[0])
            chains.append(chain.then(lambda future: future.value()[0].item()))
        for number, chain in enumerate(chains):
            self.assertAlmostEqual(chain.wait(), number * summed(1.0) ** 3)

    def test_from_any_thread(self) -> None:
        results: list[float] = []
        chain = total(2.0).then(lambda future: first(future) + first_of(total(1.0)))
        threads = [threading.Thread(target=lambda: results.append(chain.wait())) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual(results, [summed(3.0)] * 3)

    def test_works_and_events_are_waited_for_in_callbacks(self) -> None:
        seen = threading.Event()

        def callback(future: torch.futures.Future) -> float:
            self.assertTrue(seen.wait(60))  # which nobody of us sees
            tensor = torch.ones(1)
            dist.all_reduce(tensor)
            return tensor.item()

        early = total(1.0)
        total(1.0).add_done_callback(lambda future: seen.set())
        self.assertEqual(early.then(callback).wait(), SIZE)

    def test_collected_futures(self) -> None:
        parts = [total(float(number)) for number in range(5)]
        whole = torch.futures.collect_all(parts).then(
            lambda future: sum(map(first, future.value())) + first_of(total(1.0))
        )
        self.assertEqual(whole.wait(), summed(11.0))
        waited = total(1.0).then(
            lambda future: sum(
                value[0][0].item() for value in torch.futures.wait_all([total(1.0), total(2.0)])
            )
        )
        self.assertEqual(waited.wait(), summed(3.0))


def first_of(future: torch.futures.Future) -> float:
    return future.wait()[0][0].item()


class TestNames(unittest.TestCase):
    """Operations of callbacks find each other, wherever and whenever each rank runs them."""

    def test_callbacks_at_once_on_one_rank_and_later_on_another(self) -> None:
        for number in range(10):
            future = total(1.0)
            if RANK == number % SIZE:
                future.wait()
            chain = future.then(lambda done: total(10.0)).then(lambda done: total(100.0))
            between = total(1000.0)
            self.assertEqual(first_of(chain.wait()), summed(100.0))
            self.assertEqual(first_of(between), summed(1000.0))

    def test_callbacks_that_end_in_another_order(self) -> None:
        turn = [threading.Event() for _ in range(SIZE)]

        def callback(number: int) -> Any:
            def start(future: torch.futures.Future) -> float:
                if number == RANK % 4:
                    turn[RANK].wait(
                        0.1
                    )  # this one comes late, to be seen in the values if mixed up
                return first_of(total(float(number)))

            return start

        chains = [total(1.0).then(callback(number)) for number in range(4)]
        self.assertEqual([chain.wait() for chain in chains], [summed(n) for n in range(4)])

    def test_another_group(self) -> None:
        group = dist.new_group()
        chains = [
            total(float(number), group).then(lambda future: first_of(total(first(future))))
            for number in range(5)
        ]
        for number, chain in enumerate(chains):
            self.assertEqual(chain.wait(), summed(number) * summed(1.0))


class TestErrors(unittest.TestCase):
    def test_exceptions_of_callbacks(self) -> None:
        def fail(future: torch.futures.Future) -> None:
            first_of(total(1.0))
            raise ZeroDivisionError("on purpose")

        chain = total(1.0).then(fail).then(lambda future: future.value())
        with self.assertRaisesRegex(RuntimeError, "on purpose"):
            chain.wait()
        silent = total(1.0)
        silent.add_done_callback(lambda future: 1 / 0)
        self.assertEqual(first_of(silent), summed(1.0))
        self.assertEqual(first_of(total(1.0)), summed(1.0))  # the threads live

    def test_operations_that_fail_in_callbacks(self) -> None:
        def mismatch(future: torch.futures.Future) -> None:
            dist.all_reduce(torch.ones(3 + RANK))

        chain = total(1.0).then(mismatch)
        if SIZE > 1:
            with self.assertRaisesRegex(RuntimeError, "shape"):
                chain.wait()
        self.assertEqual(first_of(total(1.0)), summed(1.0))

    def test_a_late_rank_is_a_deadline_of_the_callback(self) -> None:
        if SIZE < 2:
            self.skipTest("one rank is never late")
        group = dist.new_group()
        if RANK == 0:
            group.set_timeout(datetime.timedelta(seconds=0.3))
        chain = total(1.0).then(lambda future: first_of(total(1.0, group)) if RANK == 0 else None)
        if RANK == 0:
            with self.assertRaisesRegex(RuntimeError, "timeout"):
                chain.wait()
        else:
            chain.wait()
        dist.barrier()
        hvd.barrier()


if __name__ == "__main__":
    unittest.main()
