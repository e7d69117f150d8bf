# SPDX-License-Identifier: Apache-2.0
"""Messages between ranks over the torch.distributed backend "hvd", and pipelines made of them."""

from __future__ import annotations

import datetime
import unittest
from typing import Any

import torch
import torch.distributed as dist

import hvd.torch as hvd
import hvd.torch.distributed  # noqa: F401 (makes the backend known)

torch.set_num_threads(1)
RANK: int
SIZE: int
NEWER = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 10)


def setUpModule() -> None:
    global RANK, SIZE
    dist.init_process_group("hvd", init_method="hvd://")
    RANK, SIZE = dist.get_rank(), dist.get_world_size()


def tearDownModule() -> None:
    dist.barrier()
    dist.destroy_process_group()


def of_rank(rank: int, count: int = 4, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.arange(count) + 10 * rank).to(dtype)


class TestMessages(unittest.TestCase):
    def test_send_and_recv(self) -> None:
        for dtype in (torch.float32, torch.int64, torch.bfloat16, torch.bool, torch.complex64):
            if RANK == 0:
                for rank in range(1, SIZE):
                    dist.send(of_rank(rank, dtype=dtype), dst=rank)
            else:
                got = torch.empty(4, dtype=dtype)
                self.assertEqual(dist.recv(got, src=0), 0)
                self.assertTrue(torch.equal(got, of_rank(RANK, dtype=dtype)))

    def test_sizes_and_memory_with_gaps(self) -> None:
        for count in (0, 1, 100_003):
            if RANK == 0:
                dist.send(of_rank(1, count), dst=1)
            elif RANK == 1:
                got = torch.empty(count)
                dist.recv(got, src=0)
                self.assertTrue(torch.equal(got, of_rank(1, count)))
        wide = torch.zeros(4, 2)
        if RANK == 0:
            wide[:, 1] = of_rank(0)
            dist.send(wide[:, 1], dst=1)
        elif RANK == 1:
            dist.recv(wide[:, 0], src=0)
            self.assertEqual(wide.tolist(), [[value, 0.0] for value in of_rank(0).tolist()])

    def test_a_ring_and_batches(self) -> None:
        right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
        for _ in range(3):
            got = torch.empty(4)
            works = [dist.isend(of_rank(RANK), right), dist.irecv(got, left)]
            for work in works:
                work.wait()
            self.assertTrue(torch.equal(got, of_rank(left)))
            got.zero_()
            operations = [
                dist.P2POp(dist.irecv, got, left),
                dist.P2POp(dist.isend, of_rank(RANK), right),
            ]
            for work in dist.batch_isend_irecv(operations):
                work.wait()
            self.assertTrue(torch.equal(got, of_rank(left)))

    def test_tags_find_each_other_in_any_order(self) -> None:
        if RANK == 0:
            works = [dist.isend(of_rank(tag), 1, tag=tag) for tag in (1, 2, 3, 3)]
            works.append(dist.isend(of_rank(7, 9), 1, tag=1))
            for work in works:
                work.wait()
        elif RANK == 1:
            for tag in (3, 2, 3, 1):
                got = torch.empty(4)
                dist.recv(got, 0, tag=tag)
                self.assertTrue(torch.equal(got, of_rank(tag)))
            got = torch.empty(9)
            dist.recv(got, 0, tag=1)
            self.assertTrue(torch.equal(got, of_rank(7, 9)))

    def test_groups(self) -> None:
        if SIZE < 3:
            self.skipTest("needs three ranks")
        group = dist.new_group([1, 2])
        got = torch.empty(4)
        if RANK == 2:
            dist.send(of_rank(2), dst=1, group=group)
        if RANK == 1:
            self.assertEqual(dist.recv(got, src=2, group=group), 2)
            self.assertTrue(torch.equal(got, of_rank(2)))

    def test_futures_and_polls(self) -> None:
        other = 1 - RANK
        if RANK < 2:
            got = torch.empty(4)
            receives = dist.irecv(got, other)
            then = receives.get_future().then(lambda future: future.value()[0].sum().item())
            dist.isend(of_rank(RANK), other)  # nobody waits for it
            self.assertEqual(then.wait(), of_rank(other).sum().item())
            if not NEWER:  # which asks no Work that Python made
                self.assertTrue(receives.is_completed())

    @unittest.skipUnless(NEWER, "this PyTorch sends no objects")
    def test_objects(self) -> None:
        if RANK == 0:
            dist.send_object_list(["a", {"b": 1}], dst=1)
        elif RANK == 1:
            got: list[Any] = [None, None]
            dist.recv_object_list(got, src=0)
            self.assertEqual(got, ["a", {"b": 1}])

    def test_beside_collectives(self) -> None:
        works = [dist.all_reduce(torch.ones(2), async_op=True) for _ in range(5)]
        self.test_a_ring_and_batches()
        for work in works:
            work.wait()


class TestErrors(unittest.TestCase):
    def test_sizes_and_types_that_differ(self) -> None:
        if SIZE < 2:
            self.skipTest("needs two ranks")
        for dtype, count in ((torch.float32, 3), (torch.float32, 5), (torch.int32, 4)):
            group = dist.new_group()
            if RANK == 0:
                dist.send(torch.ones(4), 1, group=group)
            elif RANK == 1:
                with self.assertRaisesRegex(RuntimeError, "rank 0.*16 bytes of torch.float32"):
                    dist.recv(torch.empty(count, dtype=dtype), 0, group=group)
            # The timeout of the group is longer than that of this test.
            self.check_dead(group, "rank 1: receive from rank 0 .*16 bytes of torch.float32")

    def check_dead(self, group: Any, cause: str) -> None:
        """Every later message of ranks 0 and 1 is an error of ours that says why."""
        for tag in (0, 1):
            for act in (dist.send, dist.recv):
                if RANK < 2:
                    pattern = f"rank {RANK}: .* rank {1 - RANK} .*tag {tag}.*: {cause}"
                    with self.assertRaisesRegex(hvd.AbortedError, pattern):
                        act(torch.ones(4), 1 - RANK, group=group, tag=tag)
        dist.barrier()

    def test_a_late_rank_is_a_deadline(self) -> None:
        if SIZE < 2:
            self.skipTest("needs two ranks")
        for is_connected in (False, True):
            group = dist.new_group()
            if is_connected and RANK == 0:
                dist.send(torch.ones(2), 1, group=group)
            if is_connected and RANK == 1:
                dist.recv(torch.empty(2), 0, group=group)
            dist.barrier()  # the deadline ends no message but its own
            if RANK == 0:
                group.set_timeout(datetime.timedelta(seconds=0.5))
                with self.assertRaisesRegex(hvd.DeadlineError, "rank 1.*tag 0.*timeout"):
                    dist.recv(torch.empty(2), 1, group=group)
            dist.barrier()
            self.check_dead(group, "rank 0: receive from rank 1 .*timeout")

    def test_a_shorter_wait(self) -> None:
        if RANK == 0 and SIZE > 1:
            got = torch.empty(2)
            work = dist.irecv(got, 1)
            with self.assertRaises(RuntimeError):
                work.wait(datetime.timedelta(milliseconds=100))
            dist.barrier()
            work.wait()
            self.assertEqual(got.tolist(), [1, 1])
            return
        dist.barrier()
        if RANK == 1:
            dist.send(torch.ones(2), 0)

    def test_refusals(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "without a source"):
            dist.irecv(torch.empty(1))
        with self.assertRaisesRegex(RuntimeError, "itself"):
            dist.isend(torch.empty(1), RANK)
        with self.assertRaisesRegex(RuntimeError, "tag"):
            dist.isend(torch.empty(1), (RANK + 1) % SIZE, tag=1 << 30)

    @unittest.skipUnless(NEWER, "this PyTorch has it for gloo only")
    def test_monitored_barrier(self) -> None:
        dist.monitored_barrier(timeout=datetime.timedelta(seconds=60))
        if RANK != SIZE - 1:
            pattern = rf"ranks \[{SIZE - 1}\] have not come"
            with self.assertRaisesRegex(RuntimeError, pattern):
                dist.monitored_barrier(timeout=datetime.timedelta(seconds=2))
        hvd.barrier()
        if RANK == SIZE - 1:
            dist.monitored_barrier()
        hvd.barrier()


class Stage(torch.nn.Module):
    """A part of a network."""

    def __init__(self, number: int) -> None:
        super().__init__()
        torch.manual_seed(number)
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.layer(batch))


@unittest.skipUnless(NEWER, "this PyTorch has no pipelines")
class TestPipelines(unittest.TestCase):
    def train(self, schedule: Any, stages_each: int) -> None:
        """The gradients of a pipeline are those of all stages in one process."""
        from torch.distributed.pipelining import PipelineStage

        count = SIZE * stages_each
        mine = {number: Stage(number) for number in range(RANK, count, SIZE)}
        stages = [
            PipelineStage(module, number, count, torch.device("cpu"))
            for number, module in mine.items()
        ]
        runner = schedule(
            stages if stages_each > 1 else stages[0], 2 * SIZE, loss_fn=torch.nn.MSELoss()
        )
        generator = torch.Generator().manual_seed(5)
        batch = torch.randn(4 * SIZE, 8, generator=generator)
        target = torch.randn(4 * SIZE, 8, generator=generator)
        for _ in range(2):
            for module in mine.values():
                module.zero_grad()
            given = (batch,) if RANK == 0 else ()
            runner.step(*given, **({"target": target} if RANK == SIZE - 1 else {}))
        whole = [Stage(number) for number in range(count)]
        torch.nn.functional.mse_loss(torch.nn.Sequential(*whole)(batch), target).backward()
        for number, module in mine.items():
            torch.testing.assert_close(
                module.layer.weight.grad, whole[number].layer.weight.grad, rtol=1e-4, atol=1e-6
            )

    def test_gpipe_and_1f1b(self) -> None:
        from torch.distributed import pipelining

        self.train(pipelining.ScheduleGPipe, 1)
        self.train(pipelining.Schedule1F1B, 1)

    def test_interleaved(self) -> None:
        from torch.distributed import pipelining

        self.train(pipelining.ScheduleInterleaved1F1B, 2)


if __name__ == "__main__":
    unittest.main()
