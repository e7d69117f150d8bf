# SPDX-License-Identifier: Apache-2.0
"""Passes that add up, sessions and Keras through resets of the job, run by each rank."""

from __future__ import annotations

import gc
import logging
import unittest
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import hvd
import hvd.elastic as plain
import hvd.keras as hk
import hvd.tensorflow as ht
from hvd._core import api
from hvd.tensorflow import elastic

v1 = tf.compat.v1
STEPS = 6
PASSES = 2


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    logging.getLogger("hvd.elastic").setLevel(logging.ERROR)
    tf.get_logger().setLevel("ERROR")
    hvd.init()


def tearDownModule() -> None:  # noqa: N802
    hvd.shutdown()


def fail() -> None:
    """Ends the job, and raises the error."""
    api.abort("on purpose")
    hvd.barrier()


def gradient_of(step: int, op: int = ht.Average) -> float:
    """That of this rank; for Adasum all are equal, and so is then their reduction."""
    return (step + 1.0) * (1.0 if op == ht.Adasum else hvd.rank() + 1.0)


def expected(op: int = ht.Average) -> float:
    """The weight after all steps, whose rate is 1."""
    mean = 1.0 if op == ht.Adasum else (hvd.size() + 1.0) / 2
    return -sum(range(1, STEPS + 1)) * mean


def passes_with_a_failure(
    kept: Any, one_pass: Callable[[int], Any], commit: int = PASSES, run: Any = elastic.run
) -> list[int]:
    """The steps at which the function was called; rank 0 has one more pass when the job fails."""
    begun = []

    @run
    def train(kept: Any) -> None:
        begun.append(kept.step)
        while kept.step < STEPS:
            if kept.step == 4 and len(begun) == 1 and hvd.rank() != 0:
                fail()
            one_pass(kept.step)
            hvd.barrier()
            kept.step += 1
            if kept.step == commit:
                kept.commit()

    train(kept)
    return begun


def summing(op: int = ht.Average) -> Any:
    return ht.DistributedOptimizer(
        v1.train.GradientDescentOptimizer(1.0), op=op, backward_passes_per_step=PASSES
    )


def minimizing(mode: Any, op: int) -> tuple[tf.Variable, Any]:
    """A variable, and a function that makes a pass with a gradient."""
    weights, optimizer = tf.Variable(0.0), summing(op)

    @mode
    def one_pass(factor: Any) -> None:
        optimizer.minimize(lambda: weights * factor, var_list=[weights])

    return weights, one_pass


class Passes(unittest.TestCase):
    def check(self, begun: list[int], weights: Any, op: int, what: Any) -> None:
        self.assertEqual(begun, [0, PASSES], (op, what))
        np.testing.assert_allclose(weights, expected(op), 1e-5, err_msg=str((op, what)))

    def test_ranks_update_in_the_same_step_after_a_reset(self) -> None:
        for op, run in (
            (ht.Average, elastic.run),
            (ht.Average, plain.run),
            (ht.Adasum, elastic.run),
        ):
            for mode in (lambda step: step, tf.function):
                weights, one_pass = minimizing(mode, op)
                begun = passes_with_a_failure(
                    elastic.TensorFlowState([weights], step=0),
                    lambda step, one_pass=one_pass, op=op: one_pass(
                        tf.constant(gradient_of(step, op))
                    ),
                    run=run,
                )
                self.check(begun, weights.numpy(), op, mode)

    def test_a_reset_where_a_graph_is_the_default(self) -> None:
        for mode in (lambda step: step, tf.function):
            weights, one_pass = minimizing(mode, ht.Average)
            one_pass(tf.constant(5.0))
            with tf.Graph().as_default() as graph:
                graph.finalize()
                passes_with_a_failure(elastic.ObjectState(step=0), lambda step: None)
            for factor in (1.0, 2.0):
                self.assertEqual(float(weights), 0.0)
                one_pass(tf.constant(factor))
            self.assertEqual(float(weights), -3.0)

    def test_in_a_session_that_goes_on(self) -> None:
        for op in (ht.Average, ht.Adasum):
            for session_of in (v1.Session, v1.train.MonitoredSession):
                with tf.Graph().as_default():
                    weights = v1.get_variable("weights", initializer=0.0)
                    factor = v1.placeholder(tf.float32, [])
                    start = v1.global_variables_initializer()
                    train = summing(op).minimize(weights * factor)
                    gc.collect()  # the optimizer may be gone
                    with session_of() as session:
                        if session_of is v1.Session:
                            session.run(start)
                        begun = passes_with_a_failure(
                            elastic.TensorFlowState([weights], session, step=0),
                            lambda step, run=session.run, train=train, factor=factor, op=op: run(
                                train, {factor: gradient_of(step, op)}
                            ),
                        )
                        self.check(begun, session.run(weights), op, session_of)


def one_weight() -> keras.Model:
    layer = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    return keras.Sequential([keras.Input((1,)), layer])


class SumsOfKeras(unittest.TestCase):
    def steps(self, commit: int, wrap: Callable[[Any], Any] = lambda inner: inner) -> float:
        model = one_weight()
        inner = keras.optimizers.SGD(1.0)
        hk.DistributedOptimizer(inner, backward_passes_per_step=PASSES)
        model.compile(wrap(inner), "mse")

        @tf.function
        def one_pass(gradient: Any) -> None:
            model.optimizer.apply([gradient], model.trainable_variables)

        kept = elastic.TensorFlowKerasState(model, step=0)
        begun = passes_with_a_failure(
            kept, lambda step: one_pass(tf.fill([1, 1], gradient_of(step))), commit
        )
        self.assertEqual(begun, [0, commit])
        return float(model.weights[0].numpy()[0, 0])

    def test_a_commit_between_two_updates(self) -> None:
        for commit in (2, 3):
            self.assertAlmostEqual(self.steps(commit), expected(), 4, commit)

    def test_in_another_optimizer(self) -> None:
        def scaled(inner: Any) -> Any:
            return keras.optimizers.LossScaleOptimizer(inner, initial_scale=1.0)

        self.assertAlmostEqual(self.steps(3, scaled), expected(), 4)

    def test_ranks_at_different_steps_continue_as_rank_0(self) -> None:
        model, optimizer = one_weight(), keras.optimizers.SGD(1.0, gradient_accumulation_steps=3)
        kept = elastic.TensorFlowKerasState(model, optimizer)
        for step in range(2 if hvd.rank() == 0 else 1):
            optimizer.apply([tf.fill([1, 1], gradient_of(step))], model.trainable_variables)
        kept.sync()
        (added,) = optimizer._accumulated_gradients
        self.assertEqual((int(optimizer._iterations), float(added.numpy()[0, 0])), (2, 3.0))


class TwoOptimizers(unittest.TestCase):
    """Rank 0 has used both when the job fails, the others one."""

    def train(self, pair: Callable[[], list[Any]]) -> list[float]:
        """The weights of the pair that was used last."""
        tries = []

        @elastic.run(reset_limit=1)
        def run(kept: Any) -> list[Any]:
            tries.append(kept.step)
            both = pair()
            while kept.step < 3:
                for number, one_pass in enumerate(both):
                    if len(tries) == 1 and number == 1:
                        hvd.barrier()  # every rank has made the step of the first
                        if hvd.rank() != 0:
                            fail()
                    one_pass(tf.constant([[hvd.rank() + number + 1.0]]))
                kept.step += 1
            return both

        both = run(elastic.ObjectState(step=0))
        self.assertEqual(tries, [0, 0])
        return [one_pass.weight() for one_pass in both]

    def check(self, weights: list[float], steps: tuple[int, int]) -> None:
        mean = sum(range(hvd.size())) / hvd.size()
        self.assertEqual(weights, [-steps[0] * (mean + 1), -steps[1] * (mean + 2)])

    def test_they_outlive_the_reset(self) -> None:
        for mode in (lambda step: step, tf.function):
            both = [TrainedWeight(mode) for _ in range(2)]
            # Nothing restores the step that the first had made.
            self.check(self.train(lambda both=both: both), (4, 3))

    def test_they_are_made_anew_after_the_reset(self) -> None:
        for mode in (lambda step: step, tf.function):
            kept = TrainedWeight(mode)
            kept(tf.constant([[1.0]]))
            weights = self.train(lambda mode=mode: [TrainedWeight(mode) for _ in range(2)])
            self.check(weights, (3, 3))
            kept(tf.constant([[1.0]]))
            self.assertEqual(kept.weight(), -2.0)


class TrainedWeight:
    """A weight and its optimizer; a call is a step with a gradient."""

    def __init__(self, mode: Any) -> None:
        weight = keras.Variable([[0.0]])
        optimizer = hk.DistributedOptimizer(keras.optimizers.SGD(1.0))
        optimizer.build([weight])
        self._weight = weight
        self._step = mode(lambda gradient: optimizer.apply([gradient], [weight]))

    def __call__(self, gradient: Any) -> None:
        self._step(gradient)

    def weight(self) -> float:
        return float(self._weight.numpy()[0, 0])


class Fit(unittest.TestCase):
    def train(self, fails_at: int, rate: Any, batches_per_commit: int, *more: Any) -> Any:
        """The weights, and the logs of the last epoch; with a failure before that batch, from 1."""
        keras.utils.set_random_seed(hvd.rank())
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        optimizer = keras.optimizers.SGD(rate, momentum=0.9)
        model.compile(hk.DistributedOptimizer(optimizer, backward_passes_per_step=2), "mse")
        given = np.random.default_rng(hvd.rank()).random((16, 3)).astype("float32")
        kept = hk.elastic.KerasState(model, batch=0, epoch=0)
        batches: list[int] = []
        noted: dict[str, float] = {}

        def begin(batch: int, logs: Any) -> None:
            batches.append(batch)
            if len(batches) == fails_at and hvd.rank() != 0:
                fail()

        callbacks = [
            hk.callbacks.MetricAverageCallback(),
            *more,
            hk.elastic.CommitStateCallback(kept, batches_per_commit),
            hk.elastic.UpdateBatchStateCallback(kept),
            hk.elastic.UpdateEpochStateCallback(kept),
            keras.callbacks.LambdaCallback(
                on_train_batch_begin=begin, on_epoch_end=lambda epoch, logs: noted.update(logs)
            ),
        ]

        @hk.elastic.run
        def train(kept: Any) -> None:
            while kept.epoch < 3:
                left = given[2 * kept.batch :]
                model.fit(
                    left,
                    left[:, :1],
                    batch_size=2,
                    initial_epoch=kept.epoch,
                    epochs=kept.epoch + 1 if kept.batch else 3,
                    shuffle=False,
                    verbose=0,
                    callbacks=callbacks,
                )

        train(kept)
        self.assertEqual((kept.epoch, kept.batch), (3, 0))
        # A rank may have been a batch behind when it learnt of the failure.
        self.assertEqual(len(batches) > 24, fails_at > 0)
        values = [one.numpy() for one in [*model.variables, *model.optimizer.variables]]
        return [*values, *(noted[name] for name in sorted(noted))]

    def check(self, *arguments: Any) -> None:
        expected = self.train(0, *arguments)
        for fails_at in (5, 13):
            got = self.train(fails_at, *arguments)
            for one, other in zip(got, expected, strict=True):
                np.testing.assert_allclose(one, other, 1e-5, 1e-6, err_msg=str(fails_at))

    def test_a_failure_between_commits_within_an_epoch(self) -> None:
        broadcast = hk.callbacks.BroadcastGlobalVariablesCallback(0)
        for batches_per_commit in (
            4,
            3,
        ):  # 3: between two updates, of which a rank has its own sums
            self.check(hk.schedules.WarmupSchedule(0.02, 16), batches_per_commit, broadcast)

    def test_a_failure_between_commits_after_epochs(self) -> None:
        warmup = hk.callbacks.LearningRateWarmupCallback(0.02, warmup_epochs=2)
        self.check(0.02, 100, hk.callbacks.BroadcastGlobalVariablesCallback(0), warmup)


if __name__ == "__main__":
    unittest.main(verbosity=2)
