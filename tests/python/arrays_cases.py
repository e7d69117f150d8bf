# SPDX-License-Identifier: Apache-2.0
"""What hvd.numpy makes of arrays that are more, or other, than numbers in a row."""

from __future__ import annotations

import tempfile
import unittest
import warnings

import numpy as np

import hvd
import hvd.numpy as hn


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    hvd.init()


def tearDownModule() -> None:  # noqa: N802
    hvd.shutdown()


class Labelled(np.ndarray):
    """An array with a unit, say."""


FOREIGN = (">f4", "<f4", ">f8", ">i2", ">u8", ">c8", ">f2")


class ForeignOrders(unittest.TestCase):
    def both_ways(self, dtype: str) -> np.ndarray:
        """The same numbers on each rank; odd ranks have them in the other byte order."""
        array = np.arange(6, dtype=np.dtype(dtype)).reshape(3, 2)
        if hvd.rank() % 2:
            array = array.astype(array.dtype.newbyteorder("S"))
        return array

    def check(self, got: np.ndarray, wanted: np.ndarray, given: np.ndarray) -> None:
        self.assertEqual(got.dtype, given.dtype)
        np.testing.assert_array_equal(got, wanted)

    def test_are_reduced(self) -> None:
        size = hvd.size()
        for dtype in FOREIGN:
            with self.subTest(dtype=dtype):
                mine = self.both_ways(dtype)
                wanted = np.arange(6).reshape(3, 2) * size
                self.check(hn.allreduce(mine, op=hn.Sum), wanted, mine)
                later = hn.allreduce(mine, op=hn.Sum, async_op=True)
                self.check(hn.synchronize(later), wanted, mine)
                for one in hn.grouped_allreduce([mine, mine.T]):
                    self.assertEqual((one.dtype, one.sum()), (mine.dtype, 15))
                if hvd.rank() == 0:
                    self.check(hn.reduce(mine, 0, op=hn.Sum), wanted, mine)
                else:
                    hn.reduce(mine, 0, op=hn.Sum)
                begin = hvd.rank() * (3 // size) + min(hvd.rank(), 3 % size)
                share = hn.reducescatter(mine, op=hn.Sum)
                self.check(share, wanted[begin : begin + len(share)], mine)

    def test_are_moved(self) -> None:
        size = hvd.size()
        for dtype in FOREIGN:
            with self.subTest(dtype=dtype):
                mine = self.both_ways(dtype)
                every = np.concatenate([np.arange(6).reshape(3, 2)] * size)
                self.check(hn.broadcast(mine, size - 1), every[:3], mine)
                self.check(hn.allgather(mine), every, mine)
                self.check(hn.grouped_allgather([mine])[0], every, mine)
                for async_op in (False, True):
                    out = np.zeros(6 * size + 1, mine.dtype)
                    got = hn.allgather(mine, out=out, async_op=async_op)
                    got = hn.synchronize(got) if async_op else got
                    self.assertTrue(np.shares_memory(got, out))
                    self.check(got, every, mine)
                native = np.zeros(6 * size, mine.dtype.newbyteorder("S"))
                with self.assertRaisesRegex(hvd.InvalidArgumentError, "out must be"):
                    hn.allgather(mine, out=native)


class OtherClasses(unittest.TestCase):
    def test_masked_arrays_are_refused(self) -> None:
        hidden = np.ma.masked_array([1.0, 2.0], mask=[False, True])
        for array in (hidden, hidden[:1], np.ma.ones(3), np.ma.masked, [hidden, hidden]):
            with self.subTest(array=array):
                for call in (hn.allreduce, hn.allgather, hn.reducescatter, hn.alltoall):
                    with self.assertRaisesRegex(hvd.InvalidArgumentError, "filled"):
                        call(array)
                with self.assertRaisesRegex(hvd.InvalidArgumentError, "filled"):
                    hn.grouped_allreduce([np.ones(2), array])
                with self.assertRaisesRegex(hvd.InvalidArgumentError, "filled"):
                    hn.broadcast(array, 0)
        with self.assertRaisesRegex(hvd.InvalidArgumentError, "out is a MaskedArray"):
            hn.allgather(np.ones(2), out=np.ma.ones(2 * hvd.size()))

    def test_unknown_classes_are_refused(self) -> None:
        with self.assertRaisesRegex(hvd.InvalidArgumentError, r"Labelled.*numpy.asarray\(array\)"):
            hn.allreduce(np.ones(3).view(Labelled))
        self.assertEqual(hn.allreduce(np.ones(3).view(Labelled).view(np.ndarray)).sum(), 3)
        for out in ([0.0] * 99, np.ones(99).view(Labelled)):
            with self.assertRaisesRegex(hvd.InvalidArgumentError, "out is a"):
                hn.allgather(np.ones(2), out=out)

    def test_a_matrix_stays_one(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PendingDeprecationWarning)
            mine = np.matrix([[1.0, 2.0], [3.0, 4.0]])
            room = np.zeros(4 * hvd.size())
            results = [
                hn.allreduce(mine),
                hn.synchronize(hn.allreduce(mine, async_op=True)),
                hn.broadcast(mine, 0),
                hn.allgather(mine)[:2],
                hn.allgather(mine, out=room)[:2],
            ]
            for result in results:
                self.assertIsInstance(result, np.matrix)
                np.testing.assert_array_equal(result * result, [[7.0, 10.0], [15.0, 22.0]])

    def test_types_that_no_collective_moves_say_what_to_do(self) -> None:
        record = np.zeros(3, [("x", "f4"), ("y", ">i4")])
        for array, remedy in (
            (record, "fields"),
            (record.view(np.recarray), "asarray"),
            (np.array([{}, None]), "hvd.allgather_object"),
            (np.array(["2026-01-01"], "M8[D]"), r"view\('int64'\)"),
            (np.array([1], "m8[s]"), r"view\('int64'\)"),
            (np.array([b"text"]), "hvd.allgather_object"),
            (np.ones(3, np.longdouble), "float64"),
        ):
            with (
                self.subTest(dtype=array.dtype),
                self.assertRaisesRegex((TypeError, hvd.InvalidArgumentError), remedy),
            ):
                hn.allreduce(array)


class Memory(unittest.TestCase):
    def test_any_strides_and_flags(self) -> None:
        size = hvd.size()
        plain = np.arange(12.0).reshape(3, 4)
        fixed = plain.copy()
        fixed.flags.writeable = False
        for mine in (plain[::-1, ::-2], np.broadcast_to(plain[0], (5, 4)), fixed, plain[:0]):
            before = mine.copy()
            np.testing.assert_array_equal(hn.allreduce(mine, op=hn.Sum), before * size)
            handle = hn.allreduce(mine, op=hn.Sum, async_op=True)
            np.testing.assert_array_equal(hn.synchronize(handle), before * size)
            np.testing.assert_array_equal(mine, before)
        with self.assertRaisesRegex(hvd.InvalidArgumentError, "writeable"):
            hn.allgather(np.ones(1), out=fixed)
        room = np.zeros(4 * size)
        with self.assertRaisesRegex(hvd.InvalidArgumentError, "overlaps"):
            hn.allgather(room[:2], out=room)

    def test_an_operation_under_way_has_numbers_of_its_own(self) -> None:
        """Rank 0 comes last, so that the others spoil theirs while the operation waits for it."""
        count, size = 300_000, hvd.size()
        starts = {
            "sum": lambda given: hn.allreduce(given, op=hn.Sum, name="sum", async_op=True),
            "max": lambda given: hn.reduce(given, size - 1, op=hn.Max, name="max", async_op=True),
            "root": lambda given: hn.broadcast(given, size - 1, name="root", async_op=True),
            "rows": lambda given: hn.allgather(given, name="rows", async_op=True),
            "share": lambda given: hn.reducescatter(given, op=hn.Sum, name="share", async_op=True),
            "group": lambda given: hn.grouped_allreduce([given], name="group", async_op=True),
        }
        for spoil in (resized, exchanged, overwritten, unmapped):
            with self.subTest(spoil=spoil.__name__), tempfile.TemporaryFile() as file:
                arrays = [mapped(file, count) if spoil is unmapped else np.ones(count)]
                handles = {}
                if hvd.rank() == 0:
                    hvd.allgather_object("the others have spoilt theirs")
                handles = {what: start(arrays[0]) for what, start in starts.items()}
                spoil(arrays)
                if hvd.rank() != 0:
                    hvd.allgather_object("spoilt")
                results = {what: hn.synchronize(handle) for what, handle in handles.items()}
                self.assertEqual(set(results["sum"]), {float(size)})
                self.assertEqual(set(results["root"]), {1.0})
                self.assertEqual((len(results["rows"]), set(results["rows"])), (count * size, {1}))
                self.assertEqual(set(results["share"]), {float(size)})
                self.assertEqual(set(results["group"][0]), {1.0})
                if hvd.rank() == size - 1:
                    self.assertEqual(set(results["max"]), {1.0})

    def test_given_memory_is_filled_when_the_operation_is_awaited(self) -> None:
        size = hvd.size()
        out = np.zeros(2 * size)
        handle = hn.allgather(np.ones(2), out=out, async_op=True)
        with self.assertRaisesRegex(ValueError, "resize"):
            out.resize(100_000, refcheck=False)
        got = hn.synchronize(handle)
        self.assertTrue(np.shares_memory(got, out))
        self.assertEqual(out.tolist(), [1.0] * 2 * size)


def resized(arrays: list) -> None:
    arrays[0].resize(1_000_000, refcheck=False)
    arrays[0].fill(7)


def exchanged(arrays: list) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            arrays[0].data = np.full(arrays[0].shape, 7.0)
        except AttributeError:  # from NumPy 2.4 on
            arrays[0].__setstate__((1, (5,), np.dtype("f8"), False, b"\0" * 40))


def overwritten(arrays: list) -> None:
    arrays[0].fill(7)
    arrays.clear()


def unmapped(arrays: list) -> None:
    memory = arrays.pop()
    memory._mmap.close()


def mapped(file, count: int) -> np.ndarray:
    file.write(np.ones(count).tobytes())
    file.flush()
    return np.memmap(file, "f8", "r+")


if __name__ == "__main__":
    unittest.main()
