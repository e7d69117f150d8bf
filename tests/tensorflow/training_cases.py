# SPDX-License-Identifier: Apache-2.0
"""Training in loops and sessions: N ranks of B samples against one with all N * B."""

from __future__ import annotations

import tempfile
import unittest
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import hvd
import hvd.tensorflow as ht
from hvd import objects
from hvd.tensorflow import aggregation

v1 = tf.compat.v1
SAMPLES = 4  # of each rank in each pass
FIRST = np.array([[1.0], [2.0], [-1.0]], "float32")  # the weights before training


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    tf.get_logger().setLevel("ERROR")  # each case traces its functions anew, which it warns of
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


def batches(passes: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets: [passes, ranks, samples, columns]."""
    inputs = np.random.default_rng(1).normal(size=(passes, ht.size(), SAMPLES, 3))
    return inputs.astype("float32"), inputs.sum(-1, keepdims=True).astype("float32") ** 2


def loss_of(weights: Any, inputs: Any, targets: Any) -> tf.Tensor:
    return tf.reduce_mean((tf.matmul(inputs, weights) - targets) ** 2)


def linear(weights: Any, inputs: Any, targets: Any) -> tf.Tensor:
    return tf.reduce_sum(tf.matmul(inputs, weights) + targets)


def eagerly(optimizer: Any, loss: Any, inputs: Any, targets: Any, resource: bool = True) -> Any:
    return called(optimizer, loss, inputs, targets, lambda step: step)


def in_function(optimizer: Any, loss: Any, inputs: Any, targets: Any, resource: bool = True) -> Any:
    return called(optimizer, loss, inputs, targets, tf.function)


def called(optimizer: Any, loss: Any, inputs: Any, targets: Any, mode: Any) -> Any:
    """The weights after each pass, and the steps that were counted."""
    weights, count = tf.Variable(FIRST), tf.Variable(0, dtype=tf.int64)

    def step(batch: Any, wanted: Any) -> None:
        optimizer.minimize(
            lambda: loss(weights, batch, wanted), global_step=count, var_list=[weights]
        )

    stepping, seen = mode(step), []
    for batch, wanted in zip(inputs, targets):
        stepping(tf.constant(batch), tf.constant(wanted))
        seen.append(weights.numpy())
    return seen, int(count)


def in_session(optimizer: Any, loss: Any, inputs: Any, targets: Any, resource: bool = True) -> Any:
    with tf.Graph().as_default():
        weights = v1.get_variable("weights", initializer=FIRST, use_resource=resource)
        batch = v1.placeholder(tf.float32, inputs.shape[1:])
        wanted = v1.placeholder(tf.float32, targets.shape[1:])
        count = v1.train.get_or_create_global_step()
        # As scripts do that clip; nothing is clipped here.
        pairs = optimizer.compute_gradients(loss(weights, batch, wanted))
        pairs = [(tf.clip_by_value(gradient, -1e3, 1e3), one) for gradient, one in pairs]
        train, seen = optimizer.apply_gradients(pairs, global_step=count), []
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for feed in zip(inputs, targets):
                session.run(train, dict(zip((batch, wanted), feed)))
                seen.append(session.run(weights))
            return seen, session.run(count)


MODES = (eagerly, in_function, in_session)


def momentum(rate: float = 0.02) -> Any:
    return v1.train.MomentumOptimizer(rate, 0.9)


class Case(unittest.TestCase):
    def setUp(self) -> None:
        self.rank, self.size = ht.rank(), ht.size()

    def near(self, got: Any, expected: Any, what: Any = "", tolerance: float = 1e-5) -> None:
        self.assertEqual(len(got), len(expected))
        for one, other in zip(got, expected):
            np.testing.assert_allclose(one, other, tolerance, tolerance, err_msg=str(what))


class Loops(Case):
    def train(self, optimizer: Any, inputs: Any, labels: Any, wrap: Any, mode: Any) -> list[Any]:
        keras.utils.set_random_seed(3)
        layers = [keras.layers.Dense(7, "tanh"), keras.layers.Dense(3)]
        for layer, width in zip(layers, (4, 7)):
            layer.build((None, width))
        variables = [one for layer in layers for one in layer.trainable_variables]
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

        def step(batch: tf.Tensor, wanted: tf.Tensor) -> None:
            with tf.GradientTape() as tape:
                loss = loss_of(wanted, layers[1](layers[0](batch)))
            optimizer.apply_gradients(zip(wrap(tape).gradient(loss, variables), variables))

        stepping = mode(step)
        for batch, wanted in zip(inputs, labels):
            stepping(tf.constant(batch), tf.constant(wanted))
        return [variable.numpy() for variable in variables]

    def test_a_loop_learns_as_one_rank_does(self) -> None:
        steps, samples = 6, 5
        generator = np.random.default_rng(5)
        inputs = generator.normal(size=(steps, self.size, samples, 4)).astype("float32")
        labels = generator.integers(0, 3, (steps, self.size, samples))
        kinds: dict[str, tuple[Callable[[], Any], tuple[Any, ...]]] = {
            "clipped": (
                lambda: keras.optimizers.SGD(0.5, momentum=0.9, global_clipnorm=0.5),
                (tf.function, lambda step: step),
            ),
            "adam": (lambda: keras.optimizers.Adam(0.05), (tf.function,)),
        }
        for kind, (optimizer, modes) in kinds.items():
            whole = self.train(
                optimizer(),
                inputs.reshape(steps, -1, 4),
                labels.reshape(steps, -1),
                lambda tape: tape,
                tf.function,
            )
            for mode in modes:
                mine = self.train(
                    optimizer(),
                    inputs[:, self.rank],
                    labels[:, self.rank],
                    ht.DistributedGradientTape,
                    mode,
                )
                self.near(mine, whole, (kind, mode))
                every = objects.allgather_object([one.tobytes() for one in mine])
                self.assertEqual(every, every[:1] * self.size)


class Sessions(Case):
    """Optimizers of TensorFlow 1."""

    def expected(self, inputs: Any, targets: Any, passes: int, averages: bool) -> Any:
        """Weights after each pass of one rank that has all data of a step."""
        whole = [one.reshape(len(one) // passes, -1, one.shape[-1]) for one in (inputs, targets)]
        rate = 0.02 * (1 if averages else passes)  # the sum of means of batches
        seen, _ = in_session(momentum(rate), loss_of, *whole)
        before = [FIRST, *seen]
        return [before[(index + 1) // passes] for index in range(len(inputs))]

    def test_they_learn_as_one_rank_does(self) -> None:
        inputs, targets = batches(6)
        for passes, averages in ((1, False), (2, False), (3, True)):
            expected = self.expected(inputs, targets, passes, averages)
            for mode in MODES:
                for resource in (True, False) if passes == 1 and mode is in_session else (True,):
                    optimizer = ht.DistributedOptimizer(
                        momentum(),
                        backward_passes_per_step=passes,
                        average_aggregated_gradients=averages,
                    )
                    seen, count = mode(
                        optimizer, loss_of, inputs[:, self.rank], targets[:, self.rank], resource
                    )
                    self.near(seen, expected, (passes, mode, resource))
                    self.assertEqual(count, 6 // passes)

    def test_variables_without_a_resource(self) -> None:
        inputs, targets = batches(4)
        mine = loss_of, inputs[:, self.rank], targets[:, self.rank], False

        def two_passes() -> Any:
            return ht.DistributedOptimizer(momentum(), backward_passes_per_step=2)

        with self.assertRaisesRegex(hvd.errors.InvalidArgumentError, "use_resource=True"):
            in_session(two_passes(), *mine)
        v1.disable_control_flow_v2()  # as disable_v2_behavior() does
        try:
            seen, _ = in_session(two_passes(), *mine)
        finally:
            v1.enable_control_flow_v2()
        self.near(seen, self.expected(inputs, targets, 2, False))

    def test_it_shows_what_the_optimizer_has(self) -> None:
        with tf.Graph().as_default():
            weights = v1.get_variable("weights", initializer=FIRST)
            plain = momentum()
            optimizer = ht.DistributedOptimizer(
                plain, name="mine", backward_passes_per_step=2, sparse_as_dense=True
            )
            loss = tf.reduce_sum(tf.gather(weights, [0, 0]))
            optimizer.minimize(loss)
            self.assertIsInstance(optimizer, v1.train.Optimizer)
            self.assertEqual(optimizer.get_name(), "mine")
            self.assertEqual(optimizer.get_slot_names(), ["momentum"])
            slot = optimizer.get_slot(weights, "momentum")
            self.assertIs(slot, plain.get_slot(weights, "momentum"))
            # Sums of passes are in no checkpoint, nor are they initialized.
            self.assertEqual({one.name for one in v1.global_variables()}, {weights.name, slot.name})

    def test_a_hook_and_a_session_that_saves(self) -> None:
        inputs, targets = batches(6)
        expected = self.expected(inputs, targets, 2, True)
        feeds = list(zip(inputs[:, self.rank], targets[:, self.rank]))
        folder = tempfile.TemporaryDirectory()
        for begin, end in ((0, 4), (4, 6)):  # the second goes on from the file of rank 0
            with tf.Graph().as_default():
                weights = v1.get_variable("weights", initializer=FIRST + self.rank)
                places = [v1.placeholder(tf.float32, one.shape) for one in feeds[0]]
                count = v1.train.get_or_create_global_step()
                optimizer = ht.DistributedOptimizer(
                    momentum(), backward_passes_per_step=2, average_aggregated_gradients=True
                )
                train = optimizer.minimize(loss_of(weights, *places), global_step=count)
                hooks = [
                    ht.BroadcastGlobalVariablesHook(0),
                    v1.train.StopAtStepHook(last_step=end // 2),
                ]
                with v1.train.MonitoredTrainingSession(
                    checkpoint_dir=folder.name if self.rank == 0 else None,
                    hooks=hooks,
                    save_summaries_steps=None,
                    log_step_count_steps=None,
                ) as session:
                    for index in range(begin, end):
                        self.assertFalse(session.should_stop())
                        self.near([session.run(weights)], [[FIRST, *expected][index]], index)
                        session.run(train, dict(zip(places, feeds[index])))
                    self.assertTrue(session.should_stop())
        folder.cleanup()

    def test_variables_that_stay(self) -> None:
        with tf.Graph().as_default():
            mine, shared = (v1.get_variable(one, initializer=0.0) for one in ("mine", "shared"))
            optimizer = ht.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0))
            optimizer.register_local_var(mine)
            train = optimizer.minimize((mine + shared) * (self.rank + 1.0))
            with v1.Session() as session:
                session.run(v1.global_variables_initializer())
                session.run(train)
                got = session.run([mine, shared])
        self.near(got, [-(self.rank + 1) / self.size, -(self.size + 1) / 2])

    def test_an_error_in_a_session_and_life_after_it(self) -> None:
        with tf.Graph().as_default():
            weights = v1.get_variable("weights", initializer=FIRST)
            rows = v1.placeholder(tf.float32, [None])
            optimizer = ht.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0))
            gradient = optimizer.compute_gradients(tf.reduce_sum(rows**2), [rows])[0][0]
            with v1.Session() as session:
                for _ in range(2):
                    with self.assertRaisesRegex(tf.errors.OpError, r"gradient\.0'.*rank 0 has"):
                        session.run(gradient, {rows: np.ones(2 + self.rank)})
                    self.near(session.run([gradient], {rows: np.ones(2)}), [np.full(2, 2.0)])
            del weights


class Adasum(Case):
    """Each rank steps by itself, with a momentum of its own; orthogonal changes add up."""

    def test_what_changed_is_reduced(self) -> None:
        inputs = np.zeros((4, 1, 3), "float32")
        inputs[:, 0, self.rank] = self.rank + 1  # the gradient
        targets = np.zeros((4, 1, 1), "float32")
        moved = np.cumsum(np.cumsum(0.9 ** np.arange(4)))
        for passes, mode, resource in (
            (1, eagerly, True),
            (1, in_session, False),
            (2, eagerly, True),
            (2, in_function, True),
            (2, in_session, True),
        ):
            optimizer = ht.DistributedOptimizer(
                momentum(0.1), op=ht.Adasum, backward_passes_per_step=passes
            )
            seen, _ = mode(optimizer, linear, inputs, targets, resource)
            for index in range(passes - 1, 4, passes):
                expected = FIRST.copy()
                for rank in range(self.size):
                    expected[rank] -= 0.1 * (rank + 1) * moved[index]
                self.near([seen[index]], [expected], (passes, mode, index))

    def test_variables_that_come_and_go(self) -> None:
        optimizer = ht.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0), op=ht.Adasum)
        for rows in range(1, 40):  # else one of them soon has the id of another
            weights = tf.Variable(tf.zeros([rows]))
            optimizer.apply_gradients([(tf.ones([rows]), weights)])
            self.near([weights.numpy()], [np.full(rows, -1.0)])


class Accumulator(Case):
    def passes(self, accumulator: Any, mode: Any, inputs: Any, targets: Any) -> list[Any]:
        """The weights after each pass."""
        weights, unused = tf.Variable(FIRST), tf.Variable([1.0])
        optimizer = keras.optimizers.SGD(0.02, momentum=0.9)
        optimizer.build([weights])

        def one_pass(batch: Any, wanted: Any) -> None:
            with tf.GradientTape() as tape:
                loss = loss_of(weights, batch, wanted)
            gradients = tape.gradient(loss, [weights, unused])
            gradients, is_last = accumulator.step(gradients, [weights, unused])
            if is_last:
                optimizer.apply([gradients[0]], [weights])

        passing, seen = mode(one_pass), []
        for batch, wanted in zip(inputs, targets):
            passing(tf.constant(batch), tf.constant(wanted))
            seen.append(weights.numpy())
        return seen

    def test_a_loop_with_a_plain_tape_learns_as_one_rank_does(self) -> None:
        inputs, targets = batches(6)
        mine = inputs[:, self.rank], targets[:, self.rank]
        for passes, averages in ((1, False), (2, False), (3, True)):
            expected = Sessions.expected(self, inputs, targets, passes, averages)
            for mode in (tf.function, lambda step: step):
                accumulator = ht.GradientAccumulator(passes, average_aggregated_gradients=averages)
                self.near(self.passes(accumulator, mode, *mine), expected, (passes, mode))

    def test_settings(self) -> None:
        accumulator = ht.GradientAccumulator(2, ht.Compression.fp16, True, ht.Sum)
        mine, shared = tf.Variable(tf.zeros([3])), tf.Variable(tf.zeros([3]))
        accumulator.register_local_source(mine)
        rows = tf.IndexedSlices(tf.fill([1], self.rank + 1.0), tf.constant([1]), tf.constant([3]))
        for is_last in (False, True):
            got, last = accumulator.step([rows, rows], [mine, shared])
            self.assertEqual(last, is_last)
        ranks = self.size * (self.size + 1)
        self.near(got, [[0, 2 * (self.rank + 1) / self.size, 0], [0, ranks, 0]])


class Sums(Case):
    def test_ranks_begin_anew_together(self) -> None:
        for mode in (lambda step: step, tf.function):
            sums = aggregation.Accumulation(3)

            def step(gradient: Any, sums: Any = sums) -> Any:
                (total,), last = sums.step([gradient], lambda them: [2 * one for one in them])
                return total, last

            stepping = mode(step)
            stepping(tf.constant(5.0))
            aggregation.restart()
            got = [stepping(tf.constant(value)) for value in (1.0, 2.0, 4.0, 8.0)]
            self.assertEqual([bool(last) for _, last in got], [False, False, True, False])
            self.assertEqual(float(got[2][0]), 14.0)


class Refusals(Case):
    def refuses(self, pattern: str, act: Callable[[], Any]) -> None:
        with (
            self.subTest(pattern),
            self.assertRaisesRegex(hvd.errors.InvalidArgumentError, f"rank {self.rank}.*{pattern}"),
        ):
            act()

    def test_arguments(self) -> None:
        wrap, plain = ht.DistributedOptimizer, momentum()
        self.refuses("got 'sgd': an optimizer of Keras or a", lambda: wrap("sgd"))
        self.refuses("already: wrap once", lambda: wrap(wrap(plain)))
        self.refuses(
            "per_step is 0: it must be > 0", lambda: wrap(plain, backward_passes_per_step=0)
        )
        self.refuses(
            "average_aggregated_gradients == True: leave it out",
            lambda: wrap(plain, op=ht.Adasum, average_aggregated_gradients=True),
        )
        self.refuses("factor=2 not", lambda: wrap(plain, op=ht.Sum, gradient_predivide_factor=2))

    def test_passes(self) -> None:
        one, other = tf.Variable(1.0), tf.Variable([1.0, 2.0])
        optimizer = ht.DistributedOptimizer(momentum(), backward_passes_per_step=2)
        self.refuses("from compute_gradients()", lambda: optimizer.apply_gradients([(one, one)]))
        self.refuses(
            "gradient 0 is sparse.*sparse_as_dense=True",
            lambda: optimizer.minimize(lambda: tf.reduce_sum(tf.gather(other, [0])), None, [other]),
        )
        optimizer.minimize(lambda: one * one, None, [one, other])
        self.refuses(
            "other variables than the first",
            lambda: optimizer.minimize(lambda: one * other[0], None, [one, other]),
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
