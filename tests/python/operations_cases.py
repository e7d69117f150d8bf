# SPDX-License-Identifier: Apache-2.0
"""Every collective of hvd.numpy, run by each rank."""

from __future__ import annotations

import unittest

import numpy as np

import hvd
import hvd.numpy as hn


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    hvd.init()


def tearDownModule() -> None:  # noqa: N802
    hvd.shutdown()


def rows(rank: int, count: int, dtype: str = "float32") -> np.ndarray:
    return (np.arange(count * 2).reshape(count, 2) % 5 + rank + 1).astype(dtype)


def total(count: int, dtype: str = "float32") -> np.ndarray:
    return sum(rows(rank, count, "float64") for rank in range(hvd.size())).astype(dtype)


class Operations(unittest.TestCase):
    def test_reductions(self) -> None:
        size, rank = hvd.size(), hvd.rank()
        for dtype in ("float16", "float64", "int32", "complex64"):
            for count in (0, 1, 7, 30000):
                with self.subTest(dtype=dtype, count=count):
                    mine = rows(rank, count, dtype)
                    np.testing.assert_array_equal(
                        hn.allreduce(mine, op=hn.Sum), total(count, dtype)
                    )
                    reduced = hn.reduce(mine, size - 1, op=hn.Sum)
                    if rank == size - 1:
                        np.testing.assert_array_equal(reduced, total(count, dtype))
                    else:
                        self.assertIsNone(reduced)
                    begin = rank * (count // size) + min(rank, count % size)
                    end = begin + count // size + (rank < count % size)
                    np.testing.assert_array_equal(
                        hn.reducescatter(mine, op=hn.Sum), total(count, dtype)[begin:end]
                    )

    def test_given_memory(self) -> None:
        size, rank = hvd.size(), hvd.rank()
        mine = rows(rank, 2 * size)
        expected = np.concatenate([rows(one, 2 * size) for one in range(size)])
        room = np.zeros((2 * size * size + 1, 2), "float32")
        for out in (room, np.zeros(1, "float32")):
            gathered = hn.allgather(mine, out=out)
            np.testing.assert_array_equal(gathered, expected)
            self.assertEqual(np.shares_memory(gathered, out), out is room)
            got, counts = hn.alltoall(mine, out=out)
            np.testing.assert_array_equal(
                got, np.concatenate([rows(one, 2 * size)[2 * rank :][:2] for one in range(size)])
            )
            self.assertEqual(counts, (2,) * size)
            self.assertEqual(np.shares_memory(got, out), out is room)
        np.testing.assert_array_equal(
            hn.scatter(mine, 0, out=room), rows(0, 2 * size)[2 * rank :][:2]
        )
        self.assertEqual(len(hn.gather(mine, 0, out=room)), 0 if rank else 2 * size * size)
        with self.assertRaisesRegex(ValueError, "out must be"):
            hn.allgather(mine, out=np.zeros(4, "float64"))

    def test_average(self) -> None:
        mean = np.mean([rows(rank, 3, "float64") for rank in range(hvd.size())], axis=0)
        np.testing.assert_allclose(hn.allreduce(rows(hvd.rank(), 3, "float64")), mean)

    def test_travelling_as_a_half_type(self) -> None:
        for dtype in ("float32", "float64"):
            for count in (3, 30000):
                mine = rows(hvd.rank(), count, dtype)  # small whole numbers: exact as halves
                for wire in ("float16", "bfloat16"):
                    got = hn.allreduce(mine, op=hn.Sum, wire=wire)
                    np.testing.assert_array_equal(got, total(count, dtype))
        third = hn.allreduce(np.full(5, 1 / 3, "float32"), wire="float16")
        np.testing.assert_array_equal(third, np.full(5, np.float16(1 / 3), "float32"))
        with self.assertRaisesRegex(hvd.UnsupportedError, "as float16"):
            hn.allreduce(np.ones(3, "int32"), op=hn.Sum, wire="float16")
        with self.assertRaisesRegex(hvd.InvalidArgumentError, "wire is 'float8'; use 'float16'"):
            hn.allreduce(np.ones(3), wire="float8")

    def test_alltoall(self) -> None:
        size, rank = hvd.size(), hvd.rank()
        # rank r sends r + s rows to rank s
        sent = np.concatenate([rows(rank * size + to, rank + to) for to in range(size)])
        received, counts = hn.alltoall(sent, splits=[rank + to for to in range(size)])
        self.assertEqual(counts, tuple(source + rank for source in range(size)))
        expected = np.concatenate(
            [rows(source * size + rank, source + rank) for source in range(size)]
        )
        np.testing.assert_array_equal(received, expected)
        even, counts = hn.alltoall(np.full((size, 2), rank))
        self.assertEqual(counts, (1,) * size)
        np.testing.assert_array_equal(even[:, 0], np.arange(size))

    def test_rooted(self) -> None:
        size, rank = hvd.size(), hvd.rank()
        gathered = hn.gather(rows(rank, rank + 1), 0)
        every = np.concatenate([rows(source, source + 1) for source in range(size)])
        np.testing.assert_array_equal(gathered, every if rank == 0 else every[:0])
        np.testing.assert_array_equal(hn.allgather(rows(rank, rank + 1)), every)
        splits = list(range(size))
        scattered = hn.scatter(rows(0, sum(splits)) if rank == 0 else rows(0, 0), 0, splits=splits)
        begin = sum(splits[:rank])
        np.testing.assert_array_equal(scattered, rows(0, sum(splits))[begin : begin + rank])
        np.testing.assert_array_equal(hn.broadcast(rows(rank, 4), size - 1), rows(size - 1, 4))

    def test_transposed(self) -> None:
        mine = rows(hvd.rank(), 3).T
        np.testing.assert_array_equal(hn.allreduce(mine, op=hn.Sum), total(3).T)

    def test_memory_orders_may_differ(self) -> None:
        mine = rows(hvd.rank(), 6).reshape(2, 3, 2)
        turned = np.asfortranarray(mine) if hvd.rank() % 2 else mine
        expected = total(6).reshape(2, 3, 2)
        result = hn.allreduce(turned, op=hn.Sum, name="orders")
        self.assertTrue(result.flags.c_contiguous)
        np.testing.assert_array_equal(result, expected)
        np.testing.assert_array_equal(
            hn.allreduce(turned[:, ::2], op=hn.Sum, name="slices"), expected[:, ::2]
        )
        # A slice with gaps is no place for a result.
        gaps = np.empty((hvd.size() * 2, 4), "float32")[:, ::2]
        with self.assertRaisesRegex(ValueError, "C-contiguous"):
            hn.allgather(mine[:, :, 0], out=gaps)

    def test_groups_and_handles(self) -> None:
        size, rank = hvd.size(), hvd.rank()
        given = [rows(rank, 3), rows(rank, size, "int64")]
        sums = hn.grouped_allreduce(given, op=hn.Sum, name="group")
        np.testing.assert_array_equal(sums[0], total(3))
        np.testing.assert_array_equal(sums[1], total(size, "int64"))
        handles = {
            "gathers": hn.grouped_allgather(given, async_op=True),
            "shares": hn.grouped_reducescatter(given, op=hn.Sum, async_op=True),
            "sum": hn.allreduce(given[0], op=hn.Sum, async_op=True, priority=3),
            "rows": hn.alltoall(given[1], async_op=True),
            "root": hn.broadcast(given[0], 0, async_op=True),
        }
        results = {what: hn.synchronize(handle) for what, handle in handles.items()}
        self.assertEqual(len(results["gathers"][0]), 3 * size)
        np.testing.assert_array_equal(results["shares"][1][0], total(size, "int64")[rank])
        np.testing.assert_array_equal(results["sum"], total(3))
        self.assertEqual(results["rows"][1], (1,) * size)
        np.testing.assert_array_equal(results["root"], rows(0, 3))
        with self.assertRaisesRegex(ValueError, "cleared"):
            hn.poll(handles["sum"])
        with self.assertRaisesRegex(ValueError, "empty"):
            hn.grouped_allreduce([])

    def test_scales(self) -> None:
        got = hn.allreduce(np.ones(3), op=hn.Sum, prescale_factor=3.0, postscale_factor=0.5)
        np.testing.assert_array_equal(got, np.full(3, 1.5 * hvd.size()))

    def test_process_sets(self) -> None:
        size, rank = hvd.size(), hvd.rank()
        if size == 1:
            self.skipTest("one rank alone has no other sets")
        others = hvd.add_process_set(range(1, size))
        if rank == 0:
            with self.assertRaisesRegex(hvd.InvalidArgumentError, "not in process set"):
                hn.allgather(rows(rank, 1), process_set=others)
        else:
            root, at = size - 1, {"process_set": others}
            every = np.concatenate([rows(one, 2) for one in range(1, size)])
            np.testing.assert_array_equal(hn.allgather(rows(rank, 2), **at), every)
            mean = np.mean([rows(one, 2) for one in range(1, size)], axis=0)
            np.testing.assert_allclose(hn.allreduce(rows(rank, 2), **at), mean)
            np.testing.assert_array_equal(hn.broadcast(rows(rank, 2), root, **at), rows(root, 2))
            self.assertEqual(len(hn.gather(rows(rank, 2), root, **at)) > 0, rank == root)
            self.assertEqual(hn.alltoall(np.arange(size - 1), **at)[1], (1,) * (size - 1))
            self.assertEqual(hn.scatter(np.arange(size - 1), root, **at).tolist(), [rank - 1])
            self.assertEqual(hn.reducescatter(np.ones(size - 1), **at).tolist(), [1.0])
            self.assertEqual(hn.reduce(np.ones(2), root, **at) is None, rank != root)
        self.assertTrue(hvd.remove_process_set(others))

    def test_errors(self) -> None:
        with self.assertRaisesRegex(hvd.InvalidArgumentError, "splits"):
            hn.alltoall(rows(0, 4), splits=[0] * (hvd.size() + 1))
        with self.assertRaisesRegex(hvd.InvalidArgumentError, "rows are left"):
            hn.alltoall(rows(0, 4), splits=[5] + [0] * (hvd.size() - 1))
        with self.assertRaisesRegex(hvd.InvalidArgumentError, "root"):
            hn.reduce(rows(0, 4), hvd.size())
        with self.assertRaises(TypeError):
            hn.allreduce(np.array(["text"]))
        with self.assertRaisesRegex(hvd.UnsupportedError, "bitwise"):
            hn.allreduce(rows(0, 4), op=hn.BitXor)


if __name__ == "__main__":
    unittest.main()
