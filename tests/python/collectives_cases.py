# SPDX-License-Identifier: Apache-2.0
"""Every collective of hvd.torch, run by each rank."""

from __future__ import annotations

import itertools
import json
import os
import re
import tempfile
import threading
import unittest
from pathlib import Path
from unittest import mock

import torch

import hvd
import hvd.torch as ht
from hvd._core import handles
from hvd.torch.tensors import DTYPES


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
SHAPES = [(), (1,), (0,), (17,), (3, 0, 2), (5, 7), (2, 3, 4), (70001,)]


def numbers(shape, dtype, rank):
    """Small whole numbers that differ by rank and place, exact in every type."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count) % 5) + rank + 1).reshape(shape).to(dtype)


class Allreduce(unittest.TestCase):
    def expected(self, shape, dtype, combine):
        total = numbers(shape, torch.float64, 0)
        for rank in range(1, ht.size()):
            total = combine(total, numbers(shape, torch.float64, rank))
        return total.to(dtype)

    def test_table(self) -> None:
        combinations = [
            (ht.Sum, torch.add),
            (ht.Min, torch.minimum),
            (ht.Max, torch.maximum),
            (ht.Product, torch.mul),
        ]
        for dtype in FLOATS + INTEGERS:
            for shape in SHAPES:
                for op, combine in combinations:
                    with self.subTest(dtype=dtype, shape=shape, op=op):
                        given = numbers(shape, dtype, ht.rank())
                        result = ht.allreduce(given, op=op)
                        self.assertTrue(torch.equal(result, self.expected(shape, dtype, combine)))
                        self.assertTrue(torch.equal(given, numbers(shape, dtype, ht.rank())))

    def test_average_and_scales(self) -> None:
        given = torch.full((10,), float(ht.rank() + 1))
        mean = (ht.size() + 1) / 2
        self.assertTrue(torch.allclose(ht.allreduce(given), torch.full((10,), mean)))
        scaled = ht.allreduce(given, prescale_factor=0.5, postscale_factor=4.0)
        self.assertTrue(torch.allclose(scaled, torch.full((10,), 2 * mean)))
        self.assertTrue(
            torch.allclose(ht.allreduce(given, average=False), mean * ht.size() + 0 * given)
        )
        with self.assertRaisesRegex(ValueError, "supersedes"):
            ht.allreduce(given, average=True, op=ht.Sum)

    def test_in_place_in_any_dense_order(self) -> None:
        given = numbers((2, 3, 4, 5), torch.float32, ht.rank())
        turned = given.contiguous(memory_format=torch.channels_last)
        result = ht.allreduce_(turned, op=ht.Sum)
        self.assertIs(result, turned)
        self.assertEqual(turned.stride()[1], 1)
        self.assertTrue(torch.equal(turned, self.expected((2, 3, 4, 5), torch.float32, torch.add)))
        transposed = given[0, 0].t()
        self.assertTrue(
            torch.equal(
                ht.allreduce(transposed, op=ht.Sum),
                self.expected((2, 3, 4, 5), torch.float32, torch.add)[0, 0].t(),
            )
        )

    def test_refuses_what_cannot_be_replaced(self) -> None:
        with self.assertRaisesRegex(hvd.UnsupportedError, "expanded"):
            ht.allreduce_(torch.ones(1).expand(4))
        with self.assertRaisesRegex(hvd.UnsupportedError, "gaps"):
            ht.allreduce_(torch.ones(4, 4)[:, ::2])
        with self.assertRaisesRegex(hvd.UnsupportedError, "complex64"):
            ht.allreduce(torch.ones(2, dtype=torch.complex64), op=ht.Max)
        with self.assertRaisesRegex(hvd.UnsupportedError, "sparse"):
            ht.allreduce(torch.ones(2, 2).to_sparse())

    def test_complex_numbers(self) -> None:
        given = torch.full((3,), complex(ht.rank() + 1, -1), dtype=torch.complex64)
        total = sum(range(1, ht.size() + 1))
        expected = torch.full((3,), complex(total, -ht.size()), dtype=torch.complex64)
        self.assertTrue(torch.equal(ht.allreduce(given, op=ht.Sum), expected))
        self.assertTrue(torch.allclose(ht.allreduce(given), expected / ht.size()))

    def test_adasum(self) -> None:
        same = torch.full((7,), 3.0)
        self.assertTrue(torch.equal(ht.allreduce(same, op=ht.Adasum), same))
        apart = torch.zeros(ht.size())
        apart[ht.rank()] = float(ht.rank() + 1)  # orthogonal: they add
        expected = torch.arange(1, ht.size() + 1, dtype=torch.float32)
        self.assertTrue(torch.equal(ht.allreduce(apart, op=ht.Adasum), expected))
        with self.assertRaisesRegex(hvd.UnsupportedError, "adasum"):
            ht.allreduce(torch.ones(3, dtype=torch.int32), op=ht.Adasum)

    def test_groups(self) -> None:
        group = [numbers((3,), torch.float32, ht.rank()), numbers((2, 2), torch.int64, ht.rank())]
        results = ht.grouped_allreduce(group, op=ht.Sum, name="group")
        self.assertTrue(torch.equal(results[0], self.expected((3,), torch.float32, torch.add)))
        self.assertTrue(torch.equal(results[1], self.expected((2, 2), torch.int64, torch.add)))
        ht.grouped_allreduce_(group, op=ht.Sum)
        self.assertTrue(torch.equal(group[1], results[1]))
        with self.assertRaisesRegex(ValueError, "empty"):
            ht.grouped_allreduce([])

    def test_any_order(self) -> None:
        names = [f"order.{i}" for i in range(20)]
        ordered = names if ht.rank() % 2 == 0 else names[::-1]
        handles = {
            name: ht.allreduce_async(torch.tensor([float(names.index(name))]), name=name, op=ht.Sum)
            for name in ordered
        }
        for number, name in enumerate(names):
            self.assertEqual(ht.synchronize(handles[name]).item(), number * ht.size())
        self.assertIsNone(ht.synchronize(handles[names[0]]))
        with self.assertRaisesRegex(ValueError, "cleared"):
            ht.poll(handles[names[0]])

    def test_fp16_compression(self) -> None:
        result = ht.allreduce(torch.ones(5), op=ht.Sum, compression=ht.Compression.fp16)
        self.assertEqual(result.dtype, torch.float32)
        self.assertTrue(torch.equal(result, torch.full((5,), float(ht.size()))))

    def test_a_name_that_another_thread_waits_for_is_refused(self) -> None:
        if ht.size() == 1:
            self.skipTest("one rank alone may be done before another thread submits")
        ht.barrier()
        done = []
        thread = threading.Thread(
            target=lambda: done.append(ht.allreduce(torch.ones(3), name="waits", op=ht.Sum))
        )
        if ht.rank() == 0:
            thread.start()
            while (0, "waits") not in handles._names:
                self.assertTrue(thread.is_alive())
            for again in (ht.allreduce, ht.allreduce_async_, ht.grouped_allreduce):
                given = torch.ones(3)
                with self.assertRaisesRegex(ValueError, "waits.*still being processed"):
                    again([given] if again is ht.grouped_allreduce else given, name="waits")
            ht.broadcast(torch.ones(1), 0, name="go on")
        else:
            ht.broadcast(torch.ones(1), 0, name="go on")
            thread.start()
        thread.join()
        self.assertEqual(done[0].tolist(), [ht.size()] * 3)

    def test_what_is_no_name(self) -> None:
        with self.assertRaisesRegex(hvd.InvalidArgumentError, f"rank {ht.rank()}: the name 7"):
            ht.allgather(torch.ones(1), name=7)

    def test_a_name_in_flight_is_refused(self) -> None:
        if ht.size() == 1:
            self.skipTest("one rank alone may be done before it submits again")
        ht.barrier()
        if ht.rank() == 0:
            first = ht.allreduce_async(torch.ones(3), name="twice", op=ht.Sum)
            with self.assertRaisesRegex(ValueError, "twice"):
                ht.allreduce_async(torch.ones(3), name="twice", op=ht.Sum)
            self.assertFalse(ht.poll(first))
            ht.broadcast(torch.ones(1), 0, name="go on")
        else:
            ht.broadcast(torch.ones(1), 0, name="go on")
            first = ht.allreduce_async(torch.ones(3), name="twice", op=ht.Sum)
        self.assertEqual(ht.synchronize(first)[0].item(), ht.size())


class Tables(unittest.TestCase):
    """Every type and shape in every operation on rows, all of them on their way at once."""

    def test_rows(self) -> None:
        size, rank, root = ht.size(), ht.rank(), ht.size() - 1
        started = []
        for dtype, shape in itertools.product(DTYPES, [(), (1,), (5, 7), (2, 3, 4), (70001,)]):
            if shape == (70001,) and dtype not in (torch.uint8, torch.float32, torch.complex128):
                continue

            def rows(of, count, dtype=dtype, shape=shape):
                return numbers((count, *shape), torch.float32, of).to(dtype)

            even = [rows(one, size) for one in range(size)]
            uneven = [rows(one, one and one + 1) for one in range(size)]  # rank 0 has none
            everyone = torch.cat(uneven)
            counts = [one % 2 for one in range(size)]
            place = sum(counts[:rank])
            part = even[root][place : place + counts[rank]]
            started += [
                (ht.allgather_async(uneven[rank]), everyone),
                (ht.gather_async(uneven[rank], root), everyone if rank == root else everyone[:0]),
                (ht.broadcast_async(even[rank], root), even[root]),
                (ht.scatter_async(even[rank], root), even[root][rank : rank + 1]),
                (ht.scatter_async(even[rank], root, counts), part),
                (ht.alltoall_async(even[rank]), torch.stack([one[rank] for one in even])),
            ]
            if dtype == torch.bool:
                continue
            held = dtype if "float8" in str(dtype) else torch.float32  # 8 bits hold few numbers
            total = sum(rows(one, size + 1, dtype=held).float() for one in range(size)).to(dtype)
            share = total[:2] if rank == 0 else total[rank + 1 : rank + 2]
            given = rows(rank, size + 1)
            started += [
                (ht.reducescatter_async(given, op=ht.Sum), share),
                (ht.reduce_async(given, root, op=ht.Sum), total if rank == root else None),
            ]
        for number, (handle, expected) in enumerate(started):
            result = ht.synchronize(handle)
            if expected is None:
                self.assertIsNone(result)
                continue
            self.assertEqual((result.dtype, result.shape), (expected.dtype, expected.shape), number)
            # Newer types have no comparison of their own.
            ours, theirs = (one.flatten().view(torch.uint8) for one in (result, expected))
            self.assertTrue(torch.equal(ours, theirs), (number, expected.dtype, expected.shape))


class Others(unittest.TestCase):
    def test_allgather_of_uneven_rows(self) -> None:
        for dtype in [*FLOATS, *INTEGERS, torch.bool]:
            rows = ht.rank() + 1 if ht.rank() else 0
            result = ht.allgather(torch.full((rows, 3), ht.rank()).to(dtype))
            expected = torch.cat(
                [torch.full((rank + 1 if rank else 0, 3), rank) for rank in range(ht.size())]
            ).to(dtype)
            self.assertTrue(torch.equal(result, expected), dtype)
        empty = ht.allgather(torch.empty(0, 2))
        self.assertEqual(tuple(empty.shape), (0, 2))
        with self.assertRaisesRegex(ValueError, "scalar"):
            ht.allgather(torch.tensor(1.0))

    def test_broadcast(self) -> None:
        root = ht.size() - 1
        for dtype in [*FLOATS, *INTEGERS, torch.bool]:
            given = torch.full((4, 2), ht.rank()).to(dtype)
            result = ht.broadcast(given, root)
            self.assertTrue(torch.equal(result, torch.full((4, 2), root).to(dtype)))
            self.assertTrue(torch.equal(given, torch.full((4, 2), ht.rank()).to(dtype)))
            ht.broadcast_(given, root)
            self.assertTrue(torch.equal(given, result))
        self.assertEqual(ht.broadcast(torch.tensor(float(ht.rank())), 0).item(), 0)

    def test_objects(self) -> None:
        self.assertEqual(ht.broadcast_object({"rank": ht.rank()}, 0), {"rank": 0})
        self.assertEqual(
            ht.allgather_object("x" * ht.rank()), ["x" * rank for rank in range(ht.size())]
        )

    def test_gradients_flow(self) -> None:
        given = torch.ones(2, requires_grad=True)
        ht.allreduce(given, op=ht.Sum).sum().backward()
        self.assertEqual(given.grad.tolist(), [ht.size()] * 2)
        given.grad = None
        (ht.allgather(given.reshape(1, 2)) * (ht.rank() + 1.0)).sum().backward()
        self.assertEqual(given.grad.tolist(), [(ht.size() + 1) / 2] * 2)
        given.grad = None
        ht.broadcast(given, 0).sum().backward()
        self.assertEqual(given.grad.tolist(), [1.0 if ht.rank() == 0 else 0.0] * 2)

    def test_the_reference_has_every_name(self) -> None:
        page = Path(__file__).resolve().parents[2] / "docs" / "reference" / "python.md"
        documented = set(re.findall(r"\w+", page.read_text()))
        self.assertEqual(sorted({*ht.__all__, *hvd.__all__} - documented), [])

    def test_who_and_where(self) -> None:
        self.assertEqual(ht.allgather(torch.tensor([ht.rank()])).tolist(), list(range(ht.size())))
        self.assertLess(ht.local_rank(), ht.local_size())
        self.assertLess(ht.cross_rank(), ht.cross_size())
        self.assertIn(f"{ht.size()} rank", ht.describe())
        self.assertGreater(ht.statistics().requests, 0)

    def test_a_node_without_a_driver_reads_nothing_of_gpus(self) -> None:
        none = dict.fromkeys(("HVD_CUDA_LIBRARY", "HVD_HIP_LIBRARY"), "/nowhere/driver.so")
        with mock.patch.dict(os.environ, none):
            self.assertNotIn("GPU", ht.describe())


class Timeline(unittest.TestCase):
    def test_has_each_operation_on_each_rank(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            ht.start_timeline(Path(folder) / "rank-{rank}.json", mark_cycles=True)
            with self.assertRaisesRegex(ValueError, f"rank-{ht.rank()}.json"):
                hvd.start_timeline(f"{folder}/other-{{rank}}.json")
            for _ in range(2):
                ht.allreduce(torch.ones(7), name='q"uoted\n')
            ht.broadcast(torch.ones(7), 0, name="weights")
            ht.stop_timeline()
            ht.stop_timeline()
            trace = json.loads((Path(folder) / f"rank-{ht.rank()}.json").read_text())
            # Without a place for the rank in its name the file is that of rank 0.
            ht.start_timeline(f"{folder}/alone.json")
            ht.stop_timeline()
            self.assertEqual((Path(folder) / "alone.json").exists(), ht.rank() == 0)
        self.assertEqual({event["pid"] for event in trace}, {ht.rank()})
        rows = {
            event["args"]["name"]: event["tid"]
            for event in trace
            if event.get("name") == "thread_name"
        }
        begun = {
            title: [one["name"] for one in trace if one.get("tid") == row and one["ph"] == "B"]
            for title, row in rows.items()
        }
        phases = ["NEGOTIATE_ALLREDUCE", "QUEUE", "ALLREDUCE"]
        self.assertEqual(begun['q"uoted\n'], ['q"uoted\n', *phases] * 2)
        phases = [phase.replace("ALLREDUCE", "BROADCAST") for phase in phases]
        self.assertEqual(begun["weights"], ["weights", *phases])
        self.assertEqual(trace[-1]["args"], {"requests": 3, "left_out": 0})
        self.assertEqual(sum(one.get("name", "").startswith("batch ") for one in trace), 3)
        times = [one["ts"] for one in trace if one["ph"] in "BE"]
        self.assertEqual(times, sorted(times))

    def test_says_why_there_is_no_file(self) -> None:
        with self.assertRaisesRegex(hvd.OperatingSystemError, "/no/such.*No such file"):
            hvd.start_timeline("/no/such/rank-{rank}.json")
        hvd.stop_timeline()


class Disagreements(unittest.TestCase):
    def refused(self, words: str, action) -> None:
        with self.assertRaisesRegex(hvd.MismatchError, words) as caught:
            action()
        self.assertIn("rank", str(caught.exception))
        self.assertEqual(ht.allreduce(torch.ones(1), op=ht.Sum).item(), ht.size())

    def test_each_is_one_error_on_every_rank(self) -> None:
        if ht.size() == 1:
            self.skipTest("one rank cannot disagree")
        odd = ht.rank() == ht.size() - 1
        self.refused("shape", lambda: ht.allreduce(torch.ones(3 if odd else 2), name="d.shape"))
        self.refused(
            "float", lambda: ht.allreduce(torch.ones(2).to(FLOATS[2 + odd]), name="d.dtype")
        )
        self.refused(
            "d.op", lambda: ht.allreduce(torch.ones(2), op=ht.Max if odd else ht.Sum, name="d.op")
        )
        self.refused(
            "d.scale",
            lambda: ht.allreduce(torch.ones(2), prescale_factor=1.0 + odd, name="d.scale"),
        )
        self.refused("root", lambda: ht.broadcast(torch.ones(2), 1 if odd else 0, name="d.root"))
        self.refused(
            "d.kind",
            lambda: (ht.allgather if odd else ht.allreduce)(torch.ones(2), name="d.kind"),
        )
        turned = torch.ones(2, 3, 4, 5)
        if odd:
            turned = turned.contiguous(memory_format=torch.channels_last)
        self.refused("d.layout", lambda: ht.allreduce_(turned, name="d.layout"))
        # A transposed square has the shape of the other, and the same elements in another order.
        square = torch.ones(3, 3).t() if odd else torch.ones(3, 3)
        self.refused("d.square.*layout", lambda: ht.allreduce_(square, name="d.square"))
        # A new tensor is row-major on every rank, whatever it is made from.
        mine = torch.arange(9.0).reshape(3, 3)
        given = mine.t().contiguous().t() if odd else mine
        expected = mine * ht.size()
        self.assertTrue(torch.equal(ht.allreduce(given, op=ht.Sum, name="orders"), expected))
        gaps = torch.zeros(3, 6)[:, ::2] if odd else mine
        gaps.copy_(mine)
        self.assertTrue(torch.equal(ht.allreduce(gaps, op=ht.Sum, name="gaps"), expected))


if __name__ == "__main__":
    unittest.main(verbosity=2)
