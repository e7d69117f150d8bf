# SPDX-License-Identifier: Apache-2.0
"""Averages of every type: of as many ranks as a cluster has, by a function; and of these ranks.

The reference is Python's whole numbers and fractions.
"""

from __future__ import annotations

import itertools
import unittest
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import tensorflow as tf

import hvd.tensorflow as ht
from hvd.tensorflow.averages import average_of_rows, quotient, times

WHOLE = (tf.uint8, tf.int8, tf.uint16, tf.int16, tf.int32, tf.int64, tf.uint32, tf.uint64)
HALVES = (tf.float16, tf.bfloat16)
FLOATS = (*HALVES, tf.float32, tf.float64)
RANKS = (1, 3, 4, 127, 128, 255, 256, 257, 300, 1000, 70000)


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    tf.get_logger().setLevel("ERROR")  # a function is traced for each type, which it warns of
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


def toward_zero(number: int, divisor: int) -> int:
    return abs(number) // divisor * (1 if number >= 0 else -1)


def exact(values: Any) -> list[Any]:
    """Numbers of any type as Python has them."""
    flat = np.asarray(values).reshape(-1)
    return [int(one) if flat.dtype.kind in "iu" else Fraction(float(one)) for one in flat]


def rounded(number: Fraction, dtype: tf.DType) -> float:
    return float(np.asarray(float(number), np.float64).astype(dtype.as_numpy_dtype))


class Case(unittest.TestCase):
    def check(self, got: tf.Tensor, expected: list[Any], dtype: tf.DType, *what: Any) -> None:
        self.assertEqual(got.dtype, dtype)
        found = [float(one) if not dtype.is_integer else int(one) for one in got.numpy().ravel()]
        self.assertEqual(found, expected, (dtype, *what))


class OfManyRanks(Case):
    def test_quotients_are_rounded_once(self) -> None:
        for dtype in WHOLE:
            values = tf.constant([dtype.max, dtype.min, 1, 100], dtype)
            for ranks in RANKS:
                expected = [toward_zero(one, ranks) for one in exact(values)]
                self.check(quotient(values, ranks), expected, dtype, ranks)
        for dtype in HALVES:
            values = tf.constant([6e-8, 1.0, -3.0, 60000.0], dtype)
            for ranks in RANKS:
                expected = [rounded(one / ranks, dtype) for one in exact(values)]
                self.check(quotient(values, ranks), expected, dtype, ranks)
                self.check(times(values, 1 / ranks), expected, dtype, ranks)

    def test_rows_that_all_ranks_gave(self) -> None:
        """A small and a large value, at index 5 of every rank and at index 2 of each other one."""
        average = tf.function(average_of_rows, reduce_retracing=True)
        for dtype, ranks in itertools.product((*WHOLE, *HALVES), (4, 128, 256, 300)):
            small = {tf.float16: 6e-8, tf.bfloat16: 1e-36}.get(dtype, 1)
            large = dtype.max // 1024 + 100 if dtype.is_integer else 30000.0
            given = [5, 5, 2] * (ranks // 2)
            rows = np.array([[small, large]] * len(given), dtype.as_numpy_dtype)
            values, indices = average(tf.constant(rows), tf.constant(given), ranks)
            self.assertEqual(indices.numpy().tolist(), [5, 2])
            for row, index in zip(values, (5, 2)):
                sums = [one * given.count(index) for one in exact(rows[0])]
                if dtype.is_integer:
                    self.check(row, [toward_zero(one, ranks) for one in sums], dtype, ranks)
                    continue
                self.assertEqual(row.dtype, dtype)
                expected = [rounded(one / ranks, dtype) for one in sums]
                np.testing.assert_allclose(row.numpy().astype(float), expected, 1e-2)

    def test_rows_of_wide_types_stay_apart(self) -> None:
        for dtype in (tf.float32, tf.float64, tf.complex64):
            rows = tf.cast([[3.0], [6.0]], dtype)
            values, indices = average_of_rows(rows, tf.constant([1, 1]), 300)
            self.assertEqual(indices.numpy().tolist(), [1, 1])
            np.testing.assert_allclose(values.numpy().real, [[0.01], [0.02]], 1e-6)


class OfTheseRanks(Case):
    def average(self, values: Any, dtype: tf.DType, **options: Any) -> tf.Tensor:
        slices = tf.IndexedSlices(
            tf.constant(values, dtype), tf.constant([1, 0, 1]), tf.constant([3, 1])
        )
        result = ht.allreduce(slices, **options)
        self.assertIsInstance(result, tf.IndexedSlices)
        self.assertEqual(result.dtype, dtype)
        return tf.math.unsorted_segment_sum(result.values, result.indices, 3)

    def test_sparse_is_dense(self) -> None:
        for dtype in (*WHOLE, *FLOATS, tf.complex64):
            mine = ht.rank() + 1
            dense = tf.cast([[mine], [3 * mine], [0]], dtype)
            rows = [[mine], [mine], [2 * mine]]
            for op in (ht.Sum, ht.Average):
                wide = tf.complex128 if dtype.is_complex else tf.float64
                got = tf.cast(self.average(rows, dtype, op=op), wide).numpy()
                expected = tf.cast(ht.allreduce(dense, op=op), wide).numpy()
                near = 1e-2 if dtype in HALVES else 1e-6
                np.testing.assert_allclose(got, expected, near, err_msg=f"{dtype.name} {op}")

    def test_small_halves_do_not_vanish(self) -> None:
        smallest = float(np.finfo(np.float16).smallest_subnormal)
        rows = [[smallest], [smallest], [0.0]]
        got = self.average(rows, tf.float16, op=ht.Average).numpy()
        np.testing.assert_array_equal(got.ravel(), np.float16([smallest, smallest, 0]))
        # float32 that travels as float16: its quotient is one of float32.
        got = self.average([[6e-8], [6e-8], [0.0]], tf.float32, compression=ht.Compression.fp16)
        np.testing.assert_allclose(got.numpy().ravel(), [smallest, smallest, 0], 1e-6)

    def test_passes_are_averaged_in_their_type(self) -> None:
        accumulator = ht.GradientAccumulator(2, average_aggregated_gradients=True)
        for _ in range(2):
            gradients, _ = accumulator.step([tf.constant([3], tf.int32)], [tf.Variable([1])])
        self.check(gradients[0], [3], tf.int32)

    def test_values_in_python_lists(self) -> None:
        for mode in (lambda act: act(), lambda act: tf.function(act)()):
            got = mode(lambda: ht.allreduce(tf.IndexedSlices([[3.0]], [2], [3, 1])).values)
            np.testing.assert_allclose(got.numpy(), [[3.0 / ht.size()]] * ht.size(), 1e-6)


class Refused(unittest.TestCase):
    def test_what_sparse_rows_have_not_is_horovods_error_too(self) -> None:
        eager = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]), tf.constant([1, 2]))
        made: dict[str, Callable[[], tf.IndexedSlices]] = {
            "eager tensors": lambda: eager,
            "tensors of the graph": lambda: tf.IndexedSlices(tf.ones([1, 2]) * 2, tf.range(1)),
            "lists": lambda: tf.IndexedSlices([[1.0, 2.0]], [0]),
        }
        options: list[dict[str, Any]] = [
            *({"op": op} for op in (ht.Min, ht.Max, ht.Product, ht.Adasum)),
            {"prescale_factor": 2.0},
            {"op": ht.Sum, "postscale_factor": 0.5},
            {"op": ht.Max, "name": "rows"},
        ]
        modes = {
            "eager": lambda act: act(),
            "function": lambda act: tf.function(act)(),
            "v1": in_v1,
        }
        for what, given, mode in itertools.product(made, options, modes):
            if mode == "v1" and what == "eager tensors":
                continue
            with self.subTest(what=what, given=given, mode=mode):
                with self.assertRaisesRegex(
                    ht.UnsupportedError, "allreduce.*give sparse_as"
                ) as seen:
                    modes[mode](lambda what=what, given=given: ht.allreduce(made[what](), **given))
                self.assertIsInstance(seen.exception, NotImplementedError)


def in_v1(act: Callable[[], Any]) -> None:
    with tf.Graph().as_default():
        act()


if __name__ == "__main__":
    unittest.main(verbosity=2)
