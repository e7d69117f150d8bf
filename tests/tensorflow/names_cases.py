# SPDX-License-Identifier: Apache-2.0
"""The names that operations get in graphs: equal on all ranks, and of one operation at a time.

Operations of a graph overlap. Two that are in flight under one name are taken for each other where
ranks come to them in opposite orders: each test with a delay makes them do so.
"""

from __future__ import annotations

import unittest
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import hvd.tensorflow as ht

ROUNDS = 20000


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    tf.get_logger().setLevel("ERROR")
    tf.config.threading.set_inter_op_parallelism_threads(
        4
    )  # one would keep the order of the program
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


def late(x: tf.Tensor, rounds: Any) -> tf.Tensor:
    """The same after so many rounds of a loop that nothing else waits for."""
    _, done = tf.while_loop(
        lambda i, _: i < rounds, lambda i, y: (i + 1, tf.math.sin(y)), [0, tf.ones(64)]
    )
    return x + tf.reduce_sum(done) * 1e-30  # a product with 0 would be folded


def collectives(graph: Any) -> list[str]:
    """The names of the collectives in a graph, in its order."""
    return [
        one.get_attr("tensor_name").decode()
        for one in graph.get_operations()
        if one.type.startswith("Hvd") and one.type != "HvdQuery"
    ]


class Overlap(unittest.TestCase):
    def setUp(self) -> None:
        self.size = ht.size()
        self.rounds = [ROUNDS if (ht.rank() + place) % 2 else 1 for place in range(2)]

    def check(self, results: Any, *wanted: float) -> None:
        np.testing.assert_allclose([float(one) for one in results], wanted, atol=1e-20)

    def test_a_function_within_a_function(self) -> None:
        @tf.function
        def inner(x: tf.Tensor) -> tf.Tensor:
            return ht.allreduce(late(x * 10, self.rounds[1]), op=ht.Sum)

        @tf.function
        def outer(x: tf.Tensor) -> list[tf.Tensor]:
            return [ht.allreduce(late(x, self.rounds[0]), op=ht.Sum), inner(x)]

        for _ in range(3):
            self.check(outer(tf.constant(1.0)), self.size, 10 * self.size)

    def test_a_tape_in_each_of_two_functions(self) -> None:
        """A step that calls the step of its base class, which has the same name."""

        def gradient(x: tf.Tensor, factor: float, rounds: int) -> tf.Tensor:
            with ht.DistributedGradientTape(tf.GradientTape()) as tape:
                tape.watch(x)
                loss = x * factor
            return tape.gradient(loss, x, late(tf.constant(1.0), rounds))

        class Base(tf.Module):
            @tf.function
            def step(this, x: tf.Tensor) -> list[tf.Tensor]:  # noqa: N805
                return [gradient(x, 10.0, self.rounds[1])]

        class Derived(Base):
            @tf.function
            def step(this, x: tf.Tensor) -> list[tf.Tensor]:  # noqa: N805
                return [gradient(x, 1.0, self.rounds[0]), *Base.step(this, x)]

        for _ in range(3):
            self.check(Derived().step(tf.constant(1.0)), 1, 10)

    def test_one_name_twice(self) -> None:
        @tf.function
        def step(x: tf.Tensor) -> list[tf.Tensor]:
            return [
                ht.allreduce(late(x * factor, rounds), op=ht.Sum, name="metric")
                for factor, rounds in zip((1, 10), self.rounds)
            ]

        for _ in range(3):
            self.check(step(tf.constant(1.0)), self.size, 10 * self.size)
        names = collectives(step.get_concrete_function(tf.constant(1.0)).graph)
        self.assertEqual(names, ["metric", "metric_1"])

    def test_without_scopes(self) -> None:
        @tf.function
        def step(x: tf.Tensor) -> list[tf.Tensor]:
            results = []
            for scope, factor, rounds in zip("ab", (1, 10), self.rounds):
                with tf.name_scope(scope):
                    value = late(x * factor, rounds)
                    results.append(ht.allreduce(value, op=ht.Sum, ignore_name_scope=True))
            return results

        for _ in range(3):
            self.check(step(tf.constant(1.0)), self.size, 10 * self.size)

    def test_passes_of_a_loop(self) -> None:
        @tf.function
        def loop(count: tf.Tensor) -> tf.Tensor:
            def one(i: tf.Tensor) -> tf.Tensor:
                rounds = tf.where((i + ht.rank()) % 2 == 0, ROUNDS, 1)
                return ht.allreduce(late(tf.cast(i, tf.float32), rounds), op=ht.Sum)

            return tf.map_fn(one, tf.range(count), fn_output_signature=tf.float32)

        self.check(loop(6), *[i * self.size for i in range(6)])

    def test_batch_normalisation_beside_a_model_that_is_a_function(self) -> None:
        layers = [ht.SyncBatchNormalization(momentum=0.0) for _ in range(2)]

        @tf.function
        def inner(x: tf.Tensor) -> tf.Tensor:
            return layers[1](late(x, self.rounds[1]), training=True)

        @tf.function
        def outer(x: tf.Tensor) -> tf.Tensor:
            return layers[0](late(x, self.rounds[0]), training=True) + inner(x * 10)

        outer(tf.ones([4, 1]))
        self.check([one.moving_mean[0] for one in layers], 1, 10)


class Names(unittest.TestCase):
    def test_of_a_backward_pass_come_from_the_operation(self) -> None:
        """Keras counts its layers, of which one rank may have made more."""

        class Features(keras.layers.Layer):
            def call(self, x: Any) -> Any:
                return ht.allgather(x, name="features")

        def names() -> list[str]:
            model = keras.Sequential([keras.Input([1]), Features()])

            @tf.function
            def step(x: tf.Tensor) -> tf.Tensor:
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    loss = tf.reduce_sum(model(x))
                return tape.gradient(loss, x)

            return collectives(step.get_concrete_function(tf.ones([2, 1])).graph)

        first = names()
        self.assertEqual(first, ["features", "features.gradient"])
        self.assertEqual(names(), first)

    def test_say_where_they_are(self) -> None:
        @tf.function
        def step(x: tf.Tensor) -> tf.Tensor:
            with tf.name_scope("loss"):
                return ht.allreduce(x)

        names = collectives(step.get_concrete_function(tf.ones(1)).graph)
        self.assertEqual(names, ["step/loss/HvdAllreduce"])
        with tf.Graph().as_default() as graph:
            ht.allreduce(tf.ones(1))
            ht.allreduce(tf.ones(1))
            self.assertEqual(collectives(graph), ["HvdAllreduce", "HvdAllreduce_1"])

    def test_are_equal_when_only_one_rank_traces_anew(self) -> None:
        @tf.function
        def step(x: tf.Tensor) -> tf.Tensor:
            return tf.cond(x[0] > 0, lambda: ht.allreduce(x[0], op=ht.Sum), lambda: x[0])

        for count in (2, 3 if ht.rank() == 0 else 2):
            self.assertEqual(float(step(tf.ones(count))), ht.size())


class Placement(unittest.TestCase):
    def test_on_the_host_whatever_device_is_asked_for(self) -> None:
        with tf.Graph().as_default():
            x = tf.compat.v1.placeholder(tf.float32, [])
            with tf.device("/gpu:0"):
                total = ht.allreduce(x, op=ht.Sum)
            with tf.compat.v1.Session() as session:
                self.assertEqual(session.run(total, {x: 1.0}), ht.size())


if __name__ == "__main__":
    unittest.main()
