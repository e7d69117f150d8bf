# SPDX-License-Identifier: Apache-2.0
"""Gradient scalers, and memory of gradients and tensors while they are reduced; run by each rank."""

from __future__ import annotations

import copy
import random
import signal
import threading
import time
import unittest

import torch
from backward_cases import batch, wide
from small_network import Case, own

import hvd
import hvd.torch as ht
from hvd._core import api, handles


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    torch.set_num_threads(1)
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


class Scalers(Case):
    """torch's own loop for mixed precision, without a word of ours in it."""

    def setUp(self) -> None:
        if not hasattr(torch.amp, "GradScaler"):
            self.skipTest("this torch has no GradScaler for CPUs")

    def loop(self, make, op=ht.Average, spare: bool = False) -> None:
        model = torch.nn.ModuleList([wide(64), torch.nn.Linear(4, 4)])
        ht.broadcast_parameters(model.state_dict(), 0)
        optimizer = ht.DistributedOptimizer(
            make(model.parameters()), model.named_parameters(), op=op
        )
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        for step, overflow in enumerate((False, True, False)):
            before = copy.deepcopy(model.state_dict())
            optimizer.zero_grad()
            loss = model[0](own(batch(step))).square().mean()
            if not spare:
                loss = loss + model[1](torch.ones(1, 4)).sum()
            if overflow and ht.rank() == ht.size() - 1:
                loss = loss * float("inf")
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            self.assertEqual(scaler.get_scale(), 8.0 if step == 0 else 4.0)
            stayed = torch.equal(before["0.0.weight"], model[0][0].weight)
            self.assertEqual(stayed, overflow)
            self.same_everywhere(model)

    def test_all_ranks_skip_alike(self) -> None:
        for make in (
            lambda parameters: torch.optim.SGD(parameters, lr=0.1),
            lambda parameters: torch.optim.AdamW(parameters, foreach=True),
            lambda parameters: torch.optim.AdamW(parameters, fused=True),
        ):
            self.loop(make)
            self.loop(make, spare=True)
            self.loop(make, op=ht.Adasum)


class Ends(Case):
    def test_what_is_on_its_way_when_the_optimizer_goes(self) -> None:
        self.several_ranks()
        for _ in range(3):
            late = torch.nn.Parameter(torch.zeros(70001), requires_grad=False)
            first = torch.nn.Parameter(torch.zeros(70001))
            optimizer = ht.DistributedOptimizer(
                torch.optim.SGD([first, late], lr=1.0), wait_in_backward=False
            )
            late.requires_grad_(True)
            (first.sum() + late.sum()).backward()
            optimizer.step()  # two sets of gradients from now on
            optimizer.zero_grad(set_to_none=True)
            (first.sum() + late.sum()).backward()
            del optimizer, first, late
            keep = [torch.full((70001,), 7.0) for _ in range(6)]
            ht.barrier()
            self.assertTrue(all(bool((one == 7).all()) for one in keep))
            borrowed = [key for key in hvd._core.api.borrowed if isinstance(key, tuple)]
            self.assertEqual(borrowed, [])

    def test_a_refused_pass_keeps_what_is_on_its_way(self) -> None:
        self.several_ranks()
        weight, spare = (torch.nn.Parameter(torch.zeros(70001)) for _ in range(2))
        optimizer = ht.DistributedOptimizer(
            torch.optim.SGD([weight, spare], lr=1.0), wait_in_backward=False
        )
        weight.sum().backward()
        weight.grad = None
        with self.assertRaisesRegex(hvd.errors.BackwardPassError, "another backward pass"):
            weight.sum().backward()
        weight.grad = None
        keep = [torch.full((70001,), 7.0) for _ in range(6)]
        with self.assertRaisesRegex(hvd.errors.BackwardPassError, "removed"):
            optimizer.step()
        self.assertTrue(all(bool((one == 7).all()) for one in keep))


class Storage(Case):
    def test_exchanged_while_operations_are_under_way(self) -> None:
        choices = random.Random(7)  # the same on every rank
        model = wide(300)
        for step in range(25):
            tensor = torch.full((70001,), float(ht.rank()))
            handle = ht.allreduce_async(tensor, op=ht.Sum, name=f"exchange.{step}")
            in_place = torch.ones(70001)
            second = ht.allreduce_async_(in_place, op=ht.Sum, name=f"in.place.{step}")
            kind = choices.randrange(5)
            if kind == 0:
                tensor.data = torch.zeros(2)
            elif kind == 1:
                tensor.set_(torch.zeros(3))
            elif kind == 2:
                del tensor
            elif kind == 3:
                model.double().float()
            else:
                in_place.data = torch.zeros(3)
            keep = [torch.full((70001,), 7.0) for _ in range(3)]
            total = ht.synchronize(handle)
            self.assertEqual(set(total.tolist()), {ht.size() * (ht.size() - 1) / 2})
            if kind == 4 and ht.size() > 1:
                words = f"allreduce_ 'in.place.{step}'.*other memory.*synchronize"
                with self.assertRaisesRegex(hvd.InvalidArgumentError, words):
                    ht.synchronize(second)
            elif kind != 4:
                self.assertEqual(set(ht.synchronize(second).tolist()), {float(ht.size())})
            else:
                with self.assertRaises(hvd.InvalidArgumentError):
                    ht.synchronize(second)
            self.assertTrue(all(bool((one == 7).all()) for one in keep))


class Waits(Case):
    """Operations of one tensor, which one call of the library submits and awaits."""

    def late(self, seconds: float) -> None:
        """Others than rank 0 come when it has waited for that long."""
        ht.barrier()
        if ht.rank() != 0:
            time.sleep(seconds)

    def test_for_longer_than_a_slice(self) -> None:
        self.several_ranks()
        pause = 2.5 * api.SLICE_SECONDS
        ones, size = torch.ones(3), ht.size()
        before = set(api.borrowed)
        self.late(pause)
        self.assertEqual(ht.allreduce(ones, op=ht.Sum).tolist(), [size] * 3)
        self.late(pause)
        self.assertEqual(ht.allgather(ones).tolist(), [1] * 3 * size)
        self.late(pause)
        self.assertEqual(ht.reducescatter(torch.ones(size), op=ht.Sum).tolist(), [size])
        self.assertEqual(set(api.borrowed), before)

    def test_that_control_c_ends_leave_the_operation(self) -> None:
        self.several_ranks()
        for operation in (
            lambda: ht.allreduce(torch.ones(70001), op=ht.Sum),
            lambda: ht.allreduce(torch.ones(70001), op=ht.Sum, name="ended early"),
            lambda: ht.allgather(torch.ones(70001)),
        ):
            before = set(api.borrowed)
            self.late(3 * api.SLICE_SECONDS)
            if ht.rank() == 0:
                timer = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT])
                timer.start()
                with self.assertRaises(KeyboardInterrupt):
                    operation()
                timer.join()
                self.assertEqual(len(set(api.borrowed) - before), 1)
            else:
                self.assertEqual(operation().sum().item() % 70001, 0)
            ht.barrier()
            for handle in set(api.borrowed) - before:
                ht.synchronize(handle)
            self.assertEqual(set(api.borrowed), before)
        # The name is free again.
        self.assertEqual(ht.allreduce(torch.ones(1), name="ended early").item(), 1)

    def test_hold_the_name_against_other_threads(self) -> None:
        self.several_ranks()
        self.late(3 * api.SLICE_SECONDS)
        thread = threading.Thread(target=ht.allreduce, args=(torch.ones(1), None, "held"))
        thread.start()
        if ht.rank() == 0:
            time.sleep(api.SLICE_SECONDS)
            with self.assertRaisesRegex(ValueError, "'held' is still being processed"):
                ht.allreduce(torch.ones(1), name="held")
        thread.join()
        self.assertEqual(ht.allreduce(torch.ones(1), name="held").item(), 1)

    def test_that_are_refused_leave_what_is_on_its_way(self) -> None:
        self.several_ranks()
        self.late(api.SLICE_SECONDS)
        started = ht.allreduce_async(torch.ones(70001), op=ht.Sum, name="started")
        for name in ("started", 7, ["started"]):
            if ht.rank() == 0 or name != "started":
                with self.assertRaises(ValueError):
                    ht.allreduce(torch.zeros(70001), op=ht.Sum, name=name)
        keep = torch.full((70001,), 7.0)
        self.assertEqual(set(ht.synchronize(started).tolist()), {float(ht.size())})
        self.assertTrue(bool((keep == 7).all()))

    def test_a_name_that_an_interrupt_left_marked_is_free(self) -> None:
        handles._names[0, "marked"] = -threading.get_ident()
        self.assertEqual(ht.allreduce(torch.ones(1), name="marked").item(), 1)
        self.assertNotIn((0, "marked"), handles._names)

    def test_take_a_factor_as_it_is_now(self) -> None:
        factor = torch.tensor(2.0)
        for _ in range(3):
            result = ht.allreduce(torch.ones(1), op=ht.Max, prescale_factor=factor)
            self.assertEqual(result.item(), factor.item())
            factor.mul_(2)

    def test_rows_of_a_tensor_that_is_cast_meanwhile(self) -> None:
        for cast in (torch.Tensor.double, torch.Tensor.half):
            mine = torch.full((ht.size(), 3), float(ht.rank()))
            started = ht.alltoall_async(mine, splits=[1] * ht.size())
            gathered = ht.gather_async(mine, 0)
            mine.data = cast(mine.data)
            rows, _ = ht.synchronize(started)
            self.assertEqual(rows[:, 0].tolist(), [float(rank) for rank in range(ht.size())])
            everything = ht.synchronize(gathered)
            self.assertEqual(everything.dtype, torch.float32)
            self.assertEqual(len(everything), ht.size() ** 2 if ht.rank() == 0 else 0)

    def test_travel_as_a_derived_compressor_says(self) -> None:
        class Doubled(ht.Compression.fp16):
            @staticmethod
            def compress(tensor: torch.Tensor) -> tuple:
                return 2 * tensor, None

        result = ht.allreduce(torch.ones(1), compression=Doubled)
        self.assertEqual(result.item(), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
