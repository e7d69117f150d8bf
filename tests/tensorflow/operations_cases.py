# SPDX-License-Identifier: Apache-2.0
"""The collectives of hvd.tensorflow: in eager mode, in a tf.function and in graphs of TensorFlow 1.

The reference is numpy: each rank knows what all ranks give.
"""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import hvd
import hvd.tensorflow as ht
from hvd.tensorflow import errors

FLOATS = (tf.float16, tf.bfloat16, tf.float32, tf.float64)
WHOLE = (tf.uint8, tf.int8, tf.uint16, tf.int16, tf.int32, tf.int64, tf.uint32, tf.uint64)
COMPLEX = (tf.complex64, tf.complex128)
SHAPES = ((), (0,), (0, 3), (1,), (5,), (3, 4), (2, 1, 3), (1000,))


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    tf.get_logger().setLevel("ERROR")  # each case traces its functions anew, which it warns of
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


def eagerly(function: Callable[..., Any], *arguments: np.ndarray) -> Any:
    return function(*[tf.constant(one) for one in arguments])


def in_function(function: Callable[..., Any], *arguments: np.ndarray) -> Any:
    return tf.function(function)(*[tf.constant(one) for one in arguments])


def in_session(function: Callable[..., Any], *arguments: np.ndarray) -> Any:
    with tf.Graph().as_default():
        places = [tf.compat.v1.placeholder(one.dtype, one.shape) for one in arguments]
        results = function(*places)
        with tf.compat.v1.Session() as session:
            return session.run(results, dict(zip(places, arguments)))


MODES = (eagerly, in_function, in_session)


def given(rank: int, shape: tuple[int, ...], dtype: tf.DType) -> np.ndarray:
    count = int(np.prod(shape))
    return (np.arange(count).reshape(shape) % 4 + rank + 1).astype(dtype.as_numpy_dtype)


class Case(unittest.TestCase):
    def setUp(self) -> None:
        self.rank, self.size = ht.rank(), ht.size()

    def check(self, got: Any, expected: Any, *what: Any) -> None:
        got = got.numpy() if isinstance(got, (tf.Tensor, tf.Variable)) else np.asarray(got)
        expected = np.asarray(expected)
        self.assertEqual(got.shape, expected.shape, what)
        self.assertTrue(np.array_equal(got, expected), (what, got, expected))

    def all_given(self, shape: tuple[int, ...], dtype: tf.DType) -> list[np.ndarray]:
        return [given(rank, shape, dtype) for rank in range(self.size)]


class Table(Case):
    """Operation x type x shape, in each mode; every row one group, so that it stays quick."""

    def arguments(self, dtype: tf.DType) -> list[np.ndarray]:
        return [given(self.rank, shape, dtype) for shape in SHAPES]

    def test_sums(self) -> None:
        for mode in MODES:
            for dtype in (*FLOATS, *WHOLE, *COMPLEX):
                got = mode(
                    lambda *all_of: ht.grouped_allreduce(all_of, op=ht.Sum), *self.arguments(dtype)
                )
                for result, shape in zip(got, SHAPES):
                    self.check(result, sum(self.all_given(shape, dtype)), mode, dtype)

    def test_other_reductions(self) -> None:
        kinds = {ht.Max: np.maximum, ht.Min: np.minimum, ht.Product: np.multiply}
        for mode in MODES:
            for dtype in (tf.float32, tf.int32):
                for op, function in kinds.items():
                    got = mode(
                        lambda *all_of, op=op: ht.grouped_allreduce(all_of, op=op),
                        *self.arguments(dtype),
                    )
                    for result, shape in zip(got, SHAPES):
                        expected = self.all_given(shape, dtype)
                        total = expected[0]
                        for one in expected[1:]:
                            total = function(total, one)
                        self.check(result, total, mode, dtype, op)

    def test_broadcasts(self) -> None:
        root = self.size - 1
        for mode in MODES:
            for dtype in (*FLOATS, *WHOLE, *COMPLEX, tf.bool):
                for shape in ((), (0, 3), (3, 4)):
                    got = mode(lambda x: ht.broadcast(x, root), given(self.rank, shape, dtype))
                    self.check(got, given(root, shape, dtype), mode, dtype)

    def test_rows(self) -> None:
        for mode in MODES:
            for dtype in (*FLOATS, tf.int64, tf.bool):
                mine = given(self.rank, (self.rank + 1, 2), dtype)
                everyone = [given(r, (r + 1, 2), dtype) for r in range(self.size)]
                self.check(mode(ht.allgather, mine), np.concatenate(everyone), mode, dtype)
                at_root = mode(lambda x: ht.gather(x, 0), mine)
                rows = np.concatenate(everyone) if self.rank == 0 else mine[:0]
                self.check(at_root, rows, mode, dtype)

    def test_shares(self) -> None:
        total = np.arange(7.0, dtype=np.float32) * self.size
        bounds = np.cumsum([0] + [7 // self.size + (r < 7 % self.size) for r in range(self.size)])
        mine = slice(bounds[self.rank], bounds[self.rank + 1])
        for mode in MODES:
            got = mode(lambda x: ht.reducescatter(x, op=ht.Sum), np.arange(7.0, dtype=np.float32))
            self.check(got, total[mine], mode)
            got = mode(lambda x: ht.reduce(x, 0, op=ht.Sum), np.arange(7.0, dtype=np.float32))
            self.check(got, total if self.rank == 0 else total[:0], mode)
            got = mode(lambda x: ht.scatter(x, 0), np.arange(2.0 * self.size) + self.rank)
            self.check(got, np.arange(2.0) + 2 * self.rank, mode)

    def test_alltoall(self) -> None:
        size, rank = self.size, self.rank
        splits = np.array([r + 1 for r in range(size)], np.int32)
        rows = np.arange(splits.sum(), dtype=np.float32) + 100 * rank
        begin = splits[:rank].sum()
        expected = np.concatenate(
            [np.arange(begin, begin + rank + 1, dtype=np.float32) + 100 * r for r in range(size)]
        )
        for mode in MODES:
            got, counts = mode(ht.alltoall, rows, splits)
            self.check(got, expected, mode)
            self.check(counts, np.full(size, rank + 1), mode)
            self.check(
                mode(ht.alltoall, np.full(size, rank)), np.arange(size).astype(np.int64), mode
            )


class Arguments(Case):
    def test_averages_and_scales(self) -> None:
        mean = (self.size + 1) / 2
        ones = tf.ones(3) * (self.rank + 1)
        self.check(ht.allreduce(ones), np.full(3, mean))
        self.check(ht.allreduce(ones, average=False), np.full(3, mean * self.size))
        scaled = ht.allreduce(ones, prescale_factor=3.0, postscale_factor=1 / 3)
        np.testing.assert_allclose(scaled, np.full(3, mean), rtol=1e-6)
        third = ht.allreduce(tf.ones(1, tf.float64), op=ht.Sum, postscale_factor=1 / 3)
        self.check(third, [self.size / 3])  # all 53 bits of the factor arrive
        with self.assertRaisesRegex(ValueError, "supersedes"):
            ht.allreduce(ones, average=True, op=ht.Sum)
        with self.assertRaisesRegex(ValueError, "empty"):
            ht.grouped_allreduce([])

    def test_compression(self) -> None:
        values = tf.constant([1 / 3, 1e-3]) * (self.rank + 1)
        mean = np.array([1 / 3, 1e-3]) * (self.size + 1) / 2
        for compression, tolerance in ((ht.Compression.fp16, 2e-3), (ht.Compression.bf16, 2e-2)):
            for dtype in (tf.float32, tf.float64, tf.int32):
                got = ht.allreduce(tf.cast(values, dtype), compression=compression)
                self.assertEqual(got.dtype, dtype)
                if dtype.is_floating:
                    np.testing.assert_allclose(got, mean, rtol=tolerance)

    def test_process_sets(self) -> None:
        ranks = [0, self.size - 1] if self.size > 2 else [self.size - 1]
        if self.size == 1:
            self.skipTest("the one rank is all ranks")
        group = ht.add_process_set(ranks)
        if self.rank in ranks:
            got = ht.allreduce(tf.constant(self.rank), op=ht.Sum, process_set=group)
            self.assertEqual(int(got), sum(ranks))
        else:
            with self.assertRaises(ValueError):
                ht.allreduce(tf.constant(1), process_set=group)
        included = ht.process_set_included_op(group.process_set_id)
        self.assertEqual(int(included), int(self.rank in ranks))
        self.assertEqual(int(ht.size_op(group.process_set_id)), len(ranks))
        ht.barrier()
        ht.remove_process_set(group)
        self.assertEqual(int(ht.process_set_included_op(12345)), -1)

    def test_queries(self) -> None:
        @tf.function
        def ask() -> list[tf.Tensor]:
            return [ht.rank_op(), ht.size_op(), ht.local_rank_op(), ht.local_size_op()]

        here = [ht.rank(), ht.size(), ht.local_rank(), ht.local_size()]
        self.assertEqual([int(one) for one in ask()], here)
        with self.assertRaises(hvd.errors.InvalidArgumentError), errors.translated():
            ht.size_op(12345)

    def test_sparse_rows(self) -> None:
        rank, size = self.rank, self.size
        for mode in MODES:

            def rows(values: tf.Tensor) -> Any:
                mine = tf.IndexedSlices(
                    values, tf.range(rank, rank + 2), tf.constant([size + 1, 2])
                )
                return tf.convert_to_tensor(ht.allreduce(mine, op=ht.Sum))

            expected = np.zeros((size + 1, 2), np.float32)
            for one in range(size):
                expected[one : one + 2] += one + 1
            self.check(mode(rows, np.full((2, 2), rank + 1, np.float32)), expected, mode)
        slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]), tf.constant([1, 2]))
        with self.assertRaisesRegex(hvd.HvdError, "sparse_as_dense"):
            ht.allreduce(slices, op=ht.Max)

    def test_join(self) -> None:
        for _ in range(self.rank):
            got = ht.allreduce(tf.ones(1), op=ht.Sum, name="while some have joined")
            self.assertLessEqual(float(got[0]), self.size)
        self.assertIn(int(tf.function(ht.join)()), range(self.size))


class Order(Case):
    """Ranks need not agree on the order of a graph, nor have a thread for each operation."""

    def test_different_orders(self) -> None:
        for mode in (in_function, in_session):

            def many(x: tf.Tensor) -> list[tf.Tensor]:
                order = list(range(50)) if self.rank % 2 else list(range(49, -1, -1))
                results = {i: ht.allreduce(x * i, op=ht.Sum, name=f"order.{i}") for i in order}
                return [results[i] for i in range(50)]

            got = mode(many, np.ones(3, np.float32))
            for i, result in enumerate(got):
                self.check(result, np.full(3, i * self.size), mode, i)

    def test_nothing_is_folded_merged_or_dropped(self) -> None:
        before = ht.statistics().requests

        @tf.function
        def step() -> tf.Tensor:
            ht.allreduce(tf.ones(2), name="unused")
            same = [ht.allreduce(tf.ones(2), op=ht.Sum) for _ in range(2)]
            return same[0] + same[1]

        for _ in range(3):
            self.check(step(), np.full(2, 2 * self.size))
        self.assertEqual(ht.statistics().requests - before, 9)

    def test_loops_and_branches(self) -> None:
        @tf.function
        def loop(x: tf.Tensor) -> tf.Tensor:
            for step in tf.range(5):
                if step % 2 == 0:
                    x = ht.allreduce(x, op=ht.Sum)
            return x

        self.check(loop(tf.ones(2)), np.full(2, float(self.size**3)))

    def test_inputs_stay(self) -> None:
        variable = tf.Variable(tf.ones(100000) * (self.rank + 1))
        constant = tf.ones(100000) * (self.rank + 1)

        @tf.function
        def step(x: tf.Tensor) -> list[tf.Tensor]:
            product = x * 2  # the memory of this one may be reused
            return [ht.allreduce(variable), ht.allreduce(x), ht.allreduce(product)]

        for _ in range(2):
            mean = (self.size + 1) / 2
            for result, factor in zip(step(constant), (1, 1, 2)):
                self.check(result, np.full(100000, mean * factor))
        self.check(variable, np.full(100000, self.rank + 1.0))
        self.check(constant, np.full(100000, self.rank + 1.0))


class Gradients(Case):
    """The loss is the sum over ranks of w * f(x)**2, so that a rank's part shows."""

    def gradient(self, mode: Any, function: Any, x: np.ndarray) -> np.ndarray:
        def both(value: tf.Tensor) -> tf.Tensor:
            loss = tf.reduce_sum(function(value) ** 2) * (self.rank + 1)
            return tf.gradients(loss, value)[0]

        if mode is eagerly:
            variable = tf.Variable(x)
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(function(variable) ** 2) * (self.rank + 1)
            return tape.gradient(loss, variable)
        return mode(both, x)

    def test_each(self) -> None:
        rank, size = self.rank, self.size
        x = np.full((2 * size, 2), rank + 1.0)
        ranks = np.arange(size) + 1.0
        weights = ranks.sum()  # of the losses
        mean = ranks.mean()
        rows = slice(2 * rank, 2 * rank + 2)
        own = np.full_like(x, 2 * (rank + 1))
        back = np.repeat(2 * (rank + 1) * ranks, 2)[:, None] * np.ones((1, 2))
        zeros = np.zeros_like(x)
        scattered = zeros.copy()
        for r in range(size):
            scattered[2 * r : 2 * r + 2] = 2 * (r + 1)
        table = {
            "average": (ht.allreduce, np.full_like(x, 2 * mean * weights / size)),
            "sum": (
                lambda v: ht.allreduce(v, op=ht.Sum),
                np.full_like(x, 2 * ranks.sum() * weights),
            ),
            "max": (
                lambda v: ht.allreduce(v, op=ht.Max),
                np.full_like(x, 2 * size * weights) if rank == size - 1 else zeros,
            ),
            "allgather": (ht.allgather, own * weights / size),
            "broadcast": (
                lambda v: ht.broadcast(v, 0),
                2 * weights / size + zeros if rank == 0 else zeros,
            ),
            "alltoall": (ht.alltoall, back),
            "gather": (lambda v: ht.gather(v, 0), own),
            "scatter": (lambda v: ht.scatter(v, 0), scattered if rank == 0 else zeros),
            "reduce": (lambda v: ht.reduce(v, 0, op=ht.Sum), np.full_like(x, 2 * ranks.sum())),
        }
        for mode in MODES:
            for what, (function, expected) in table.items():
                got = np.asarray(self.gradient(mode, function, x))
                np.testing.assert_allclose(got, expected, err_msg=f"{what} {mode}")
            got = np.asarray(self.gradient(mode, lambda v: ht.reducescatter(v), x))
            full = np.concatenate([np.full((2, 2), 2 * mean * (r + 1)) for r in range(size)])
            np.testing.assert_allclose(got, full, err_msg=f"reducescatter {mode}")
        self.assertEqual(got[rows].shape, (2, 2))

    def test_of_groups_with_labels(self) -> None:
        """Whole numbers have no gradient; what travels with them has."""
        groups = {
            "allgather": lambda v, n: ht.grouped_allgather([v, n])[0],
            "allreduce": lambda v, n: ht.grouped_allreduce([n, v], op=ht.Sum)[1],
            "max": lambda v, n: ht.grouped_allreduce([n, v], op=ht.Max)[1],
            "reducescatter": lambda v, n: ht.grouped_reducescatter([n, v], op=ht.Sum)[1],
        }
        x = np.full((self.size, 1), self.rank + 1.0)
        for what, group in groups.items():
            for mode in MODES:

                def function(v: tf.Tensor, group: Any = group) -> tf.Tensor:
                    return group(v, tf.ones([self.size], tf.int64))

                alone = getattr(ht, what, lambda v, **_: ht.allreduce(v, op=ht.Max))
                arguments = {} if what == "allgather" else {"op": ht.Sum}
                wanted = self.gradient(mode, lambda v: alone(v, **arguments), x)  # noqa: B023
                got = self.gradient(mode, function, x)
                np.testing.assert_allclose(got, wanted, err_msg=f"{what} {mode}")

    def test_of_extremes_that_travel_as_halves(self) -> None:
        for compression in (ht.Compression.fp16, ht.Compression.bf16):
            x = np.array([(self.rank + 1) / 3, np.nan], np.float32)

            def first(v: tf.Tensor, compression: Any = compression) -> tf.Tensor:
                return ht.allreduce(v, op=ht.Max, compression=compression)[:1]

            got = self.gradient(eagerly, first, x)
            is_last = self.rank == self.size - 1
            losses = sum(range(1, self.size + 1))
            wanted = 2 * self.size / 3 * losses if is_last else 0
            np.testing.assert_allclose(got, [wanted, 0], rtol=1e-2)

    def test_none(self) -> None:
        with tf.GradientTape() as tape:
            x = tf.Variable(tf.ones(2))
            loss = tf.reduce_sum(ht.allreduce(x, op=ht.Product))
        with self.assertRaisesRegex(hvd.HvdError, "stop_gradient"):
            tape.gradient(loss, x)


class Errors(Case):
    def test_ranks_disagree(self) -> None:
        if self.size == 1:
            self.skipTest("one rank agrees with itself")
        wrong = tf.ones(2 + self.rank)
        for index in range(2):  # and life goes on
            with self.assertRaisesRegex(hvd.errors.MismatchError, "'odd'.*rank 0 has") as caught:
                ht.allreduce(wrong, name="odd")
            self.assertIsInstance(caught.exception, tf.errors.FailedPreconditionError)
            self.assertEqual(
                caught.exception.experimental_payloads, {b"type.hvd/status": b"MISMATCH"}
            )
            self.check(ht.allreduce(tf.ones(1) * index), [index])

        @tf.function
        def step(x: tf.Tensor) -> list[tf.Tensor]:
            return [ht.allreduce(x, name="odd"), ht.allreduce(tf.ones(2), name="even")]

        with self.assertRaises(tf.errors.FailedPreconditionError) as caught:
            step(wrong)
        self.assertEqual(caught.exception.experimental_payloads, {b"type.hvd/status": b"MISMATCH"})
        self.assertIn("HvdError status=MISMATCH: tensor 'odd'", caught.exception.message)
        with self.assertRaises(hvd.errors.MismatchError) as translated, errors.translated():
            step(wrong)
        self.assertTrue(str(translated.exception).startswith("tensor 'odd': ranks disagree"))
        self.assertNotIn("node", str(translated.exception))
        self.check(step(tf.ones(3))[0], np.ones(3))

    def test_wrong_arguments(self) -> None:
        with self.assertRaises(hvd.errors.InvalidArgumentError) as caught:
            ht.broadcast(tf.ones(1), root_rank=self.size)
        self.assertIsInstance(caught.exception, tf.errors.InvalidArgumentError)
        with self.assertRaises(ValueError):
            ht.alltoall(tf.ones([self.size]), splits=[1] * (self.size + 1))
        with self.assertRaises(hvd.HvdError):
            ht.allreduce(tf.constant([True]), op=ht.Average)
        with self.assertRaises((TypeError, tf.errors.OpError)):
            ht.allreduce(tf.constant(["text"]))

    def test_compiled_by_xla(self) -> None:
        compiled = tf.function(lambda x: ht.allreduce(x), jit_compile=True)
        with self.assertRaisesRegex(tf.errors.OpError, "jit_compile=False"):
            compiled(tf.ones(2))
        inside = tf.function(lambda x: tf.sin(x), jit_compile=True)
        self.check(tf.function(lambda x: ht.allreduce(inside(x)))(tf.zeros(2)), np.zeros(2))

    def test_other_errors_stay(self) -> None:
        with self.assertRaises(tf.errors.InvalidArgumentError) as caught, errors.translated():
            tf.reshape(tf.ones(3), [2])
        self.assertNotIsInstance(caught.exception, hvd.HvdError)

    def test_forgotten_init(self) -> None:
        ht.shutdown()
        try:
            with self.assertRaises(hvd.errors.AbortedError) as caught:
                ht.allreduce(tf.ones(1))
            self.assertRegex(str(caught.exception), "init")
            for question in (ht.rank_op, ht.size_op, ht.process_set_included_op, ht.join):
                with self.assertRaises(hvd.errors.AbortedError) as caught, errors.translated():
                    tf.function(question)()
                self.assertNotIn("Traceback", str(caught.exception))
        finally:
            ht.init()


if __name__ == "__main__":
    unittest.main(verbosity=2)
