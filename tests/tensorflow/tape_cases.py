# SPDX-License-Identifier: Apache-2.0
"""Gradient tapes, eager and in functions, against numpy: each rank knows what all ranks give."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import hvd
import hvd.tensorflow as ht
from hvd import objects

SHAPES = ((), (3,), (2, 4), (0, 2), (70, 1))


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    tf.get_logger().setLevel("ERROR")  # each case traces its functions anew, which it warns of
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


def eagerly(step: Callable[[], Any]) -> Any:
    return step()


def in_function(step: Callable[[], Any]) -> Any:
    return tf.function(step)()


MODES = (eagerly, in_function)


def given(rank: int, shape: tuple[int, ...] = (), number: int = 0) -> np.ndarray:
    """What a rank's gradient of variable `number` is."""
    count = int(np.prod(shape))
    return ((np.arange(count).reshape(shape) % 5 - 1.5) * (rank + 1) + number).astype("float32")


def taped(
    variables: Sequence[Any], gradients: Sequence[Any], wrap: Any = None, **options: Any
) -> Any:
    """The gradients that a tape gives for variables of which this rank's are known."""
    with tf.GradientTape() as tape:
        parts = [tf.reduce_sum(one * by) for one, by in zip(variables, gradients)]
        loss = tf.add_n(parts)
    return (wrap or ht.DistributedGradientTape)(tape, **options).gradient(loss, variables)


def sizes_of(step: Any) -> list[int]:
    """Of how many tensors each reduction in the graph is."""
    operations = step.get_concrete_function().graph.get_operations()
    return [len(one.inputs) for one in operations if one.type == "HvdAllreduce"]


class Twice:
    """A user's compression that shows in the result."""

    @staticmethod
    def compress(tensor: tf.Tensor) -> tuple[tf.Tensor, float]:
        return tensor * 2, 1.0

    @staticmethod
    def decompress(tensor: tf.Tensor, context: float) -> tf.Tensor:
        return tensor + context


class Case(unittest.TestCase):
    def setUp(self) -> None:
        self.rank, self.size = ht.rank(), ht.size()
        self.variables = [tf.Variable(tf.ones(shape)) for shape in SHAPES]
        self.own = [given(self.rank, shape, number) for number, shape in enumerate(SHAPES)]
        every = [
            [given(rank, shape, number) for rank in range(self.size)]
            for number, shape in enumerate(SHAPES)
        ]
        self.means = [np.mean(one, 0) for one in every]
        self.sums = [np.sum(one, 0) for one in every]

    def near(self, got: Any, expected: Any, what: Any = "", tolerance: float = 1e-6) -> None:
        got = [tf.convert_to_tensor(one).numpy() for one in got]
        self.assertEqual(len(got), len(expected), what)
        for one, other in zip(got, expected):
            self.assertEqual(one.shape, np.shape(other), what)
            np.testing.assert_allclose(one, other, tolerance, tolerance, err_msg=str(what))


class Dense(Case):
    def test_reductions(self) -> None:
        third = [tf.constant(one) / 3 for one in self.own]
        table: list[tuple[dict[str, Any], Any, float]] = [
            ({}, self.means, 1e-6),
            ({"op": ht.Sum}, self.sums, 1e-6),
            ({"compression": ht.Compression.fp16}, self.means, 0),  # they are exact in float16
            ({"compression": Twice, "op": ht.Sum}, [2 * one + 1 for one in self.sums], 1e-6),
        ]
        for mode in MODES:
            for options, expected, tolerance in table:
                got = mode(lambda options=options: taped(self.variables, self.own, **options))
                self.near(got, expected, (mode, options), tolerance)
            for compression, bits in ((ht.Compression.fp16, 10), (ht.Compression.bf16, 7)):
                got = mode(
                    lambda compression=compression: taped(
                        self.variables, third, compression=compression
                    )
                )
                wrong = np.abs(got[4].numpy() - self.means[4] / 3)
                self.assertTrue(0 < wrong.max() < 4 * self.size * 2.0**-bits, (bits, wrong.max()))

    def test_a_factor_keeps_sums_small(self) -> None:
        # In the middle of the range nobody sees it; here the sum would be infinite.
        some, large = [tf.Variable(tf.ones(2))], [tf.fill([2], 3e38)]
        for mode in MODES:
            got = mode(lambda: taped(some, large, gradient_predivide_factor=float(self.size)))
            self.near(got, [np.full(2, 3e38)], mode, 1e-5)

    def test_adasum(self) -> None:
        own = np.zeros((3, 2), "float32")
        own[self.rank % 3] = self.rank + 1
        every = np.zeros((3, 2))
        for rank in range(self.size):
            every[rank % 3] = rank + 1
        same = np.arange(4, dtype="float32")
        variables = [tf.Variable(tf.ones([3, 2])), tf.Variable(tf.ones(4))]
        for mode in MODES:
            for compression in (ht.Compression.none, ht.Compression.fp16):
                got = mode(
                    lambda compression=compression: taped(
                        variables, [own, same], op=ht.Adasum, compression=compression
                    )
                )
                # Orthogonal gradients add up, equal ones are averaged.
                self.near(got, [every, same], (mode, compression))

    def test_groups(self) -> None:
        some = self.variables[1], self.variables[3], self.variables[0]
        table = {0: 1, 1: 1, 2: 2, 5: 5, 9: 5}
        for groups, count in [*table.items(), ([some], 3), ([some[:2], some[2:]], 4)]:
            step = tf.function(lambda groups=groups: taped(self.variables, self.own, groups=groups))
            self.assertEqual(len(sizes_of(step)), count, groups)
            self.near(step(), self.means, groups)
        self.near(taped(self.variables, self.own, groups=[some]), self.means)
        # Without groups only those leave alone that are large, or of which nobody knows it.
        large = [tf.Variable(tf.ones(size)) for size in (9000, 8, 8000, 9000, 8, *[8000] * 8)]
        step = tf.function(lambda: taped(large, [self.rank + 1.0] * len(large)))
        self.assertEqual(sorted(sizes_of(step)), [1, 1, 1, 10])
        self.near(step(), [np.full(one.shape, (self.size + 1) / 2) for one in large])
        with self.assertWarnsRegex(DeprecationWarning, "groups=2"):
            self.near(taped(self.variables, self.own, num_groups=2), self.means)

    def test_ranks_outside_a_set_train_alone(self) -> None:
        members = list(range(1, self.size))
        group = ht.add_process_set(members)
        expected = self.own
        if self.rank in members:
            every = [[given(r, s, n) for r in members] for n, s in enumerate(SHAPES)]
            expected = [np.sum(one, 0) for one in every]
        for mode in MODES:
            got = mode(lambda: taped(self.variables, self.own, op=ht.Sum, process_set=group))
            self.near(got, expected, mode)
        ht.remove_process_set(group)


class Missing(Case):
    """Gradients that are None, and sources of any structure."""

    def test_none_and_structures(self) -> None:
        unused = tf.Variable(1.0)

        def step(**options: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(self.variables[1] * self.own[1])
            sources = {"one": self.variables[1], "rest": [unused, (self.variables[0],)]}
            return ht.DistributedGradientTape(tape).gradient(loss, sources, **options)

        for mode in MODES:
            got = mode(step)
            self.near([got["one"]], [self.means[1]], mode)
            self.assertEqual(got["rest"], [None, (None,)])
            zeros = mode(lambda: step(unconnected_gradients=tf.UnconnectedGradients.ZERO))
            self.near(zeros["rest"][1], [0.0], mode)
            tripled = mode(lambda: step(output_gradients=tf.constant(3.0)))
            self.near([tripled["one"]], [3 * self.means[1]], mode)

    def test_one_source_and_none_at_all(self) -> None:
        variable = tf.Variable(tf.ones(3))
        for mode in MODES:

            def step() -> Any:
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(variable * self.own[1])
                tape = ht.DistributedGradientTape(tape)
                return tape.gradient(loss, variable)

            self.near([mode(step)], [self.means[1]], mode)
        with tf.GradientTape() as tape:
            loss = tf.constant(1.0)
        distributed = ht.DistributedGradientTape(tape)
        self.assertEqual(distributed.gradient(loss, [variable, variable]), [None, None])


class Tapes(Case):
    def test_it_is_the_tape_that_it_was_made_of(self) -> None:
        x, y = tf.Variable([1.0, 2.0]), tf.constant(3.0)
        for mode in MODES:

            def step() -> list[Any]:
                tape = ht.DistributedGradientTape(
                    tf.GradientTape(persistent=True, watch_accessed_variables=False)
                )
                self.assertIsInstance(tape, tf.GradientTape)
                with tape:
                    tape.watch([x.value(), y])
                    tape.reset()
                    tape.watch(y)
                    tape.watch(x)
                    square = x * x * (self.rank + 1.0)
                    with tape.stop_recording():
                        hidden = y * 100
                    total = tf.reduce_sum(square) * y + hidden
                self.assertIs(tape.watched_variables()[0], x)
                first = tape.gradient(total, [x, y])
                second = tape.gradient(square, x)
                return [*first, second, tape.jacobian(square, x)]

            mean = (self.size + 1) / 2
            expected = [
                [6 * mean, 12 * mean],
                5 * mean,
                [2 * mean, 4 * mean],
                np.diag([2.0, 4.0]) * (self.rank + 1),  # which is not reduced
            ]
            self.near(mode(step), expected, mode)

    def test_each_tape_has_names_of_its_own(self) -> None:
        # Ranks come to three of a graph in opposite orders; the first is in a function.
        def reduced(scale: tf.Tensor) -> Any:
            variable = tf.ones(3)
            with tf.GradientTape() as tape:
                tape.watch(variable)
                loss = tf.reduce_sum(variable) * scale
            return ht.DistributedGradientTape(tape).gradient(loss, variable)

        def late(value: tf.Tensor, loops: int) -> tf.Tensor:
            def body(index: Any, kept: Any) -> Any:
                return index + 1, kept + 1

            return tf.while_loop(lambda index, _: index < loops, body, (0, value - loops))[1]

        inner = tf.function(reduced)

        @tf.function(autograph=False)
        def step(own: tf.Tensor) -> list[tf.Tensor]:
            loops = (0, 300, 600) if self.rank == 0 else (600, 300, 0)
            steps = (inner, reduced, reduced)
            return [one(late(own * 10**n, loops[n])) for n, one in enumerate(steps)]

        mean = (self.size + 1) / 2
        for _ in range(3):
            got = step(tf.constant(self.rank + 1.0))
            self.near(got, [np.full(3, mean * scale) for scale in (1, 10, 100)])

    def test_an_error_names_the_gradient_and_life_goes_on(self) -> None:
        wrong = [tf.Variable(tf.ones(3)), tf.Variable(tf.ones(2 + self.rank))]
        for mode in MODES:
            with self.assertRaises(tf.errors.FailedPreconditionError) as caught:
                mode(lambda: taped(wrong, [1.0, 1.0]))
            self.assertRegex(str(caught.exception), r"gradient\.[01]'")
            self.near(mode(lambda: taped(self.variables, self.own)), self.means, mode)


class Local(Case):
    def test_variables_that_stay(self) -> None:
        for mode in MODES:
            for scales, share in ((True, self.size), (False, 1)):

                def step(scales: bool = scales) -> Any:
                    with tf.GradientTape(persistent=True) as tape:
                        one, two = (
                            variable * own
                            for variable, own in zip(self.variables[1:3], self.own[1:3])
                        )
                        loss = tf.reduce_sum(one) + tf.reduce_sum(two)
                    tape = ht.DistributedGradientTape(tape, scale_local_gradients=scales)
                    tape.register_local_source(self.variables[2])
                    own, every = tape.get_local_and_global_gradients(loss, self.variables[1:3])
                    return [*tape.gradient(loss, self.variables[1:3]), *own, *every]

                expected = [self.means[1], self.own[2] / share] * 2
                got = mode(step)
                self.near([got[0], got[1], got[3], got[2]], expected, (mode, scales))

    def test_layers_that_stay(self) -> None:
        own = tf.constant([[self.rank + 1.0]])
        for mode in MODES:
            mine, shared = keras.layers.Dense(2, use_bias=False), keras.layers.Dense(1)
            layers = [mine] if mode is eagerly else mine
            mine.build((None, 1))
            shared.build((None, 2))

            def step(mine: Any = mine, shared: Any = shared, layers: Any = layers) -> Any:
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum(shared(mine(own)))
                tape = ht.PartialDistributedGradientTape(tape, local_layers=layers)
                sources = [*mine.trainable_variables, *shared.trainable_variables]
                return [*tape.gradient(loss, sources), *map(tf.convert_to_tensor, sources)]

            of_mine, kernel, bias, own_kernel, next_kernel, _ = mode(step)
            self.near([of_mine], [(self.rank + 1) * next_kernel.numpy().T / self.size], mode)
            every = [
                (rank + 1) * one.T
                for rank, one in enumerate(objects.allgather_object(own_kernel.numpy()))
            ]
            self.near([kernel, bias], [np.mean(every, 0), [1.0]], mode)


class Sparse(Case):
    """An embedding whose rows differ in number and place."""

    def setUp(self) -> None:
        super().setUp()
        self.table = tf.Variable(tf.ones([self.size + 2, 2]))
        self.every = []
        for rank in range(self.size):
            dense = np.zeros((self.size + 2, 2))
            for row in self.rows(rank):
                dense[row] += rank + 1
            self.every.append(dense)

    @staticmethod
    def rows(rank: int) -> list[int]:
        return [rank, rank, rank + 1, *range(rank)]

    def step(self, **options: Any) -> Any:
        with tf.GradientTape() as tape:
            chosen = tf.gather(self.table, self.rows(self.rank)) * (self.rank + 1.0)
            loss = tf.reduce_sum(chosen) + tf.reduce_sum(self.variables[1] * self.own[1])
        tape = ht.DistributedGradientTape(tape, **options)
        return tape.gradient(loss, [self.table, self.variables[1]])

    def test_rows_of_all_ranks(self) -> None:
        table: list[tuple[dict[str, Any], Any]] = [
            ({}, np.mean),
            ({"op": ht.Sum}, np.sum),
            ({"op": ht.Sum, "compression": ht.Compression.fp16, "groups": 1}, np.sum),
        ]
        for mode in MODES:
            for options, function in table:
                rows, other = mode(lambda options=options: self.step(**options))
                self.assertIsInstance(rows, tf.IndexedSlices)
                count = sum(len(self.rows(rank)) for rank in range(self.size))
                self.assertEqual(rows.values.shape[0], count)
                self.near([rows], [function(self.every, 0)], (mode, options))
                self.near([other], [self.means[1] if function is np.mean else self.sums[1]])
            made_dense = mode(lambda: self.step(sparse_as_dense=True))[0]
            self.assertIsInstance(made_dense, tf.Tensor)
            self.near([made_dense], [np.mean(self.every, 0)], mode)

    def test_adasum_needs_dense_ones(self) -> None:
        with self.assertRaisesRegex(hvd.errors.UnsupportedError, "sparse_as_dense=True"):
            self.step(op=ht.Adasum)
        self.assertEqual(self.step(op=ht.Adasum, sparse_as_dense=True)[0].shape, self.table.shape)


class Refusals(Case):
    """A wrong argument is named with its value, and with what to do."""

    def test_arguments(self) -> None:
        with tf.GradientTape() as tape:
            pass
        wrap = ht.DistributedGradientTape
        variable = self.variables[1]
        table: dict[str, Callable[[], Any]] = {
            "a tf.GradientTape is needed, not None": lambda: wrap(None),
            "already: wrap once": lambda: wrap(wrap(tape)),
            "compression is 'fp16'.*hvd.Compression.fp16": lambda: wrap(tape, compression="fp16"),
            "op is 'sum'.*hvd.Average": lambda: wrap(tape, op="sum"),
            "factor=2 not supported": lambda: wrap(tape, op=ht.Sum, gradient_predivide_factor=2),
            "factor is 0.0: it must be": lambda: wrap(tape, gradient_predivide_factor=0.0),
            "list of list of tf.Variable: it is 'x'": lambda: wrap(tape, groups="x"),
            "only appear once": lambda: wrap(tape, groups=[[variable], [variable]]),
            "lists of tf.Variable": lambda: wrap(tape, groups=[["name"]]),
            "local source is .*not 'kernel'": lambda: wrap(tape).register_local_source("kernel"),
            "local_layers has 3": lambda: ht.PartialDistributedGradientTape(tape, local_layers=3),
        }
        for pattern, act in table.items():
            said = f"rank {self.rank}.*{pattern}"
            with self.assertRaisesRegex(hvd.errors.InvalidArgumentError, said):
                act()


if __name__ == "__main__":
    unittest.main(verbosity=2)
