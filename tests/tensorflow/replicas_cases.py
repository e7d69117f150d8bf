# SPDX-License-Identifier: Apache-2.0
"""Replicas of TensorFlow and Keras that drift apart are found and named."""

from __future__ import annotations

import unittest
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import hvd.keras as hk
import hvd.numpy as hn
import hvd.tensorflow as hvd
from hvd.errors import MismatchError, ReplicasDifferError
from hvd.tensorflow import errors

STEPS = 12


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    tf.get_logger().setLevel("ERROR")
    hvd.init()


def tearDownModule() -> None:  # noqa: N802
    hvd.shutdown()


def network(seed: int = 0) -> Any:
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [keras.Input((5,)), keras.layers.Dense(4, name="first"), keras.layers.Dense(1, name="last")]
    )


def data() -> Any:
    """Other batches on each rank."""
    draw = np.random.default_rng(7 + hvd.rank())
    return draw.normal(size=(4 * STEPS, 5)).astype("f"), draw.normal(size=(4 * STEPS, 1)).astype(
        "f"
    )


def compiled(model: Any, optimizer: Any = None, **arguments: Any) -> Any:
    every = arguments.pop("check_replicas", 1)
    optimizer = optimizer or keras.optimizers.Adam(0.01)
    model.compile(hk.DistributedOptimizer(optimizer, check_replicas=every), "mse", **arguments)
    return model


class Drift(keras.callbacks.Callback):
    """Changes one variable on the last rank, after a batch."""

    def __init__(self, batch: int, find: Any) -> None:
        super().__init__()
        self.batch, self.find = batch, find

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == self.batch and hvd.rank() == hvd.size() - 1:
            variable = self.find(self.model)
            variable.assign(np.nextafter(np.asarray(variable), np.inf))


def other_intervals(told: str) -> Any:
    return unittest.TestCase().assertRaisesRegex(
        MismatchError, rf"rank {hvd.rank()}: check_replicas, or HVD_CHECK_REPLICAS, .*: {told};"
    )


class Keras(unittest.TestCase):
    def assert_found(self, what: str) -> Any:
        return self.assertRaisesRegex(
            ReplicasDifferError, rf"rank {hvd.rank()}: the replicas of the model differ.*{what}"
        )

    def fit(self, model: Any, **arguments: Any) -> None:
        with errors.translated():
            model.fit(*data(), batch_size=4, verbose=0, shuffle=False, **arguments)

    def odd(self) -> str:
        last = hvd.size() - 1
        if hvd.size() > 2:
            return f"on rank {last} .* of the other {last} ranks"
        return "on rank 0, .* on rank 1"

    def test_equal_ranks_train_on(self) -> None:
        for arguments in ({}, {"run_eagerly": True}, {"steps_per_execution": 3}):
            model = compiled(network(), **arguments)
            self.fit(model, epochs=2)

    def test_a_forgotten_broadcast(self) -> None:
        for arguments in ({}, {"run_eagerly": True}):
            model = compiled(network(hvd.rank()), check_replicas=100, **arguments)
            with self.subTest(arguments), self.assert_found("variable '.*first/kernel'"):
                self.fit(model)

    def test_drift_of_weights_and_of_state(self) -> None:
        cases = (
            ("variable '.*last/bias'", lambda model: model.layers[-1].bias),
            (
                "last_kernel_velocity' of the optimizer",
                lambda model: model.optimizer._velocities[2],
            ),
        )
        for arguments in ({}, {"run_eagerly": True}):
            for what, find in cases:
                model = compiled(network(), check_replicas=4, **arguments)
                with self.subTest(what), self.assert_found(f"{what}.*{self.odd()}"):
                    self.fit(model, callbacks=[Drift(4, find)], epochs=2)

    def test_a_broadcast_after_the_first_batches(self) -> None:
        for arguments in ({}, {"run_eagerly": True}, {"steps_per_execution": 4}):
            keras.utils.set_random_seed(hvd.rank())
            model = keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(1)])
            compiled(model, **arguments)
            self.fit(model, callbacks=[hk.callbacks.BroadcastGlobalVariablesCallback(0)])

    def test_loss_scale_and_accumulation(self) -> None:
        keras.mixed_precision.set_global_policy("mixed_float16")
        try:
            for optimizer in (
                keras.optimizers.SGD(0.01, momentum=0.9),
                keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01)),
                keras.optimizers.LossScaleOptimizer(
                    keras.optimizers.Adam(0.01, gradient_accumulation_steps=2)
                ),
            ):
                model = compiled(network(), optimizer)
                self.fit(model)
                with self.assert_found(f"first/kernel'.*{self.odd()}"):
                    self.fit(model, callbacks=[Drift(2, lambda one: one.layers[0].kernel)])
        finally:
            keras.mixed_precision.set_global_policy("float32")

    def test_local_layers_may_differ(self) -> None:
        model = network()
        layer = model.layers[-1]
        layer.bias.assign(np.full(1, hvd.rank()))
        optimizer = keras.optimizers.Adam(0.01)
        optimizer = hk.PartialDistributedOptimizer(
            optimizer, local_layers=[layer], check_replicas=1
        )
        model.compile(optimizer, "mse")
        self.fit(model)

    def test_off(self) -> None:
        self.fit(compiled(network(hvd.rank()), check_replicas=0))

    def test_intervals_that_differ_by_rank(self) -> None:
        for arguments in ({}, {"run_eagerly": True}):
            model = compiled(network(), check_replicas=2 - hvd.rank(), **arguments)
            with self.subTest(arguments), other_intervals("1 on rank 1, 2 on rank 0"):
                self.fit(model)
            model = compiled(network(), check_replicas=100 * hvd.rank(), **arguments)
            with self.subTest(arguments), other_intervals("0 on rank 0, 100 on rank 1"):
                self.fit(model)

    def test_two_optimizers_in_one_function(self) -> None:
        both = [network(seed) for seed in (1, 2)]
        optimizers = [
            hk.DistributedOptimizer(keras.optimizers.Adam(0.01), check_replicas=1) for _ in both
        ]

        @tf.function
        def step(inputs: Any) -> None:
            for model, optimizer in zip(both, optimizers):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(model(inputs) ** 2)
                optimizer.apply(
                    tape.gradient(loss, model.trainable_variables), model.trainable_variables
                )

        for model, optimizer in zip(both, optimizers):
            optimizer.build(model.trainable_variables)
        for batch in np.split(data()[0], STEPS):
            step(batch)


class Loops(unittest.TestCase):
    def test_explicit_calls(self) -> None:
        variables = [tf.Variable([1.0, 2.0], name="a"), tf.Variable([[3.0]], name="b")]
        hvd.check_replicas(variables)
        hvd.check_replicas({"x": variables[0], "y": tf.constant([1, 2])})
        hvd.check_replicas(network().trainable_variables)
        hn.check_replicas({"x": np.arange(3), "y": np.ones((2, 2), np.float16)})
        variables[1].assign_add([[float(hvd.rank() == 1)]])
        with self.assertRaisesRegex(ReplicasDifferError, "'b:0' .*rank 1"):
            hvd.check_replicas(variables)
        with self.assertRaisesRegex(ReplicasDifferError, "'y' .*rank 1"):
            hn.check_replicas([("x", np.arange(3)), ("y", np.arange(2) + (hvd.rank() == 1))])

    def test_optimizers_of_tensorflow_1(self) -> None:
        for in_graph in (False, True):
            weights = tf.Variable([1.0, 2.0], name="weights")
            plain = tf.compat.v1.train.MomentumOptimizer(0.1, 0.9)
            optimizer = hvd.DistributedOptimizer(plain, check_replicas=1)

            def step(weights: Any = weights, optimizer: Any = optimizer) -> None:
                optimizer.minimize(lambda: tf.reduce_sum(weights**2) * (1.0 + hvd.rank()))

            step = tf.function(step) if in_graph else step
            for _ in range(4):
                step()
            if hvd.rank() == 1:
                weights.assign_add([0.0, 1.0])
            with (
                self.subTest(in_graph),
                self.assertRaisesRegex(ReplicasDifferError, "variable 'weights:0' .*rank 1"),
                errors.translated(),
            ):
                for _ in range(3):
                    step()

    def test_sessions(self) -> None:
        self.run_session(0.0)
        with self.assertRaisesRegex(ReplicasDifferError, "variable 'weights:0'"):
            self.run_session(float(hvd.rank()))
        self.run_session(float(hvd.rank()), every=0)
        with other_intervals("0 on rank 0, 3 on rank 1"):
            self.run_session(0.0, every=3 * hvd.rank())

    def run_session(self, begin: float, every: int = 3) -> None:
        with tf.Graph().as_default():
            step = tf.compat.v1.train.get_or_create_global_step()
            weights = tf.compat.v1.get_variable("weights", initializer=[1.0, begin])
            optimizer = hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.1))
            train = optimizer.minimize(tf.reduce_sum(weights**2), global_step=step)
            hooks = [hvd.CheckReplicasHook(every)]
            with tf.compat.v1.train.MonitoredSession(hooks=hooks) as session:
                for _ in range(7):
                    session.run(train)
                    if hvd.rank() == 0:
                        session.run(weights)  # a run that is not a step


if __name__ == "__main__":
    unittest.main()
