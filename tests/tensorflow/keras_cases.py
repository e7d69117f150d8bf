# SPDX-License-Identifier: Apache-2.0
"""Training by fit() of Keras: N ranks of B samples against one rank with all N * B."""

from __future__ import annotations

import unittest
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras_oracle import (
    BATCH,
    STEPS,
    Case,
    comparisons,
    data,
    dense,
    embedding,
    fit,
    values,
    words,
)

import hvd
import hvd.keras as hk
from hvd import objects
from hvd.tensorflow.sync_batch_norm import SyncBatchNormalization

SGD = keras.optimizers.SGD


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    tf.get_logger().setLevel("ERROR")
    hk.init()


def tearDownModule() -> None:  # noqa: N802
    hk.shutdown()


class Learning(Case):
    def test_fit(self) -> None:
        self.learns(lambda: SGD(0.5, momentum=0.9, clipnorm=0.05))
        self.assertEqual(self.exchanged, STEPS)  # all variables together, none of them twice
        self.learns(lambda: keras.optimizers.AdamW(0.05, use_ema=True), run_eagerly=True)

    def test_several_steps_in_one_call_and_a_schedule(self) -> None:
        schedule = keras.optimizers.schedules.ExponentialDecay(0.8, 1, 0.5)
        model = self.learns(lambda: SGD(schedule), steps_per_execution=2)
        self.assertEqual(int(model.optimizer.iterations), STEPS)
        self.assertAlmostEqual(float(model.optimizer.learning_rate), 0.8 * 0.5**STEPS, places=6)

    def test_accumulated_steps(self) -> None:
        def plain() -> Any:
            return keras.optimizers.Adam(0.1, global_clipnorm=0.02, gradient_accumulation_steps=2)

        self.learns(plain)
        self.assertEqual(self.exchanged, STEPS // 2)

    def test_passes_of_horovod(self) -> None:
        for averages, rate in ((True, 0.2), (False, 0.4)):
            # Two batches of each rank are one of the whole.
            steps, size = STEPS // 2, self.size
            inputs, targets = data()
            order = (0, 2, 1, 3, 4)
            whole = [
                one.reshape(steps, 2, size, BATCH, -1)
                .transpose(order)
                .reshape(STEPS, size, BATCH, -1)
                for one in (inputs, targets)
            ]
            with self.subTest(averages=averages):
                expected = dense()
                expected.compile(SGD(rate, momentum=0.9), "mse", run_eagerly=True)
                fit(expected, whole, batch=2 * BATCH * size)
                mine = dense()
                optimizer = hk.DistributedOptimizer(
                    SGD(0.2, momentum=0.9),
                    backward_passes_per_step=2,
                    average_aggregated_gradients=averages,
                )
                mine.compile(optimizer, "mse")
                fit(mine, data(), self.rank)
                self.near(values(mine.weights), values(expected.weights))

    def test_embeddings(self) -> None:
        for options in ({}, {"sparse_as_dense": True}, {"groups": 1}):
            self.learns(
                lambda: SGD(0.5),
                lambda options=options: hk.DistributedOptimizer(SGD(0.5), **options),
                embedding,
                words(),
            )

    def test_sums_compressed_and_divided_before(self) -> None:
        def wrap() -> Any:
            return hk.DistributedOptimizer(SGD(0.1), op=hk.Sum, compression=hk.Compression.fp16)

        self.learns(lambda: SGD(0.1 * self.size), wrap, tolerance=1e-3)
        self.learns(
            lambda: SGD(0.1),
            lambda: hk.DistributedOptimizer(SGD(0.1), gradient_predivide_factor=2.0),
        )

    def test_batch_normalization(self) -> None:
        def build(kind: Any) -> Any:
            keras.utils.set_random_seed(11)
            layers = [keras.layers.Dense(5), kind(), keras.layers.Dense(2)]
            return keras.Sequential([keras.Input([4]), *layers])

        kinds = iter((keras.layers.BatchNormalization, SyncBatchNormalization))
        self.learns(lambda: SGD(0.1), build=lambda: build(next(kinds)), tolerance=1e-4)


class Precision(Case):
    """Keras scales the loss of mixed_float16, and skips steps that are not finite."""

    def given(self) -> Any:
        inputs, targets = data()
        inputs[1, self.size - 1] = 1e30  # infinite in float16, in one step of the last rank
        return inputs, targets

    def test_all_ranks_skip_together(self) -> None:
        def inside(**options: Any) -> Any:  # compile() scales outside of it
            return hk.DistributedOptimizer(SGD(0.1, momentum=0.9, **options))

        def outside(**options: Any) -> Any:
            inner = SGD(0.1, momentum=0.9, **options)
            return hk.DistributedOptimizer(keras.optimizers.LossScaleOptimizer(inner))

        for kind in (inside, outside):
            for options in ({}, {"gradient_accumulation_steps": 2}):
                with self.subTest(kind=kind.__name__, **options):
                    model = dense("mixed_float16")
                    first = values(model.weights)
                    model.compile(kind(**options), "mse")
                    optimizer = model.optimizer
                    self.assertIsInstance(optimizer, keras.optimizers.LossScaleOptimizer)
                    before = hvd.statistics().requests
                    with comparisons() as compared:
                        fit(model, self.given(), self.rank, epochs=2)
                    exchanged = hvd.statistics().requests - before - compared.call_count
                    # Of eight steps two were skipped, each of which halves the scale.
                    self.assertEqual(float(optimizer.dynamic_scale), 2.0**13)
                    updates = 6 // options.get("gradient_accumulation_steps", 1)
                    self.assertEqual(int(optimizer.inner_optimizer.iterations), updates)
                    # All variables in an update and a flag in a step; or variables in each step.
                    reduces_first = kind is outside and not options
                    self.assertEqual(exchanged, 8 if reduces_first else updates + 8)
                    for one, other in zip(values(model.weights), first):
                        self.assertTrue(np.isfinite(one).all())
                        self.assertFalse(np.array_equal(one, other))
                    state = [*model.weights, *optimizer.variables]
                    self.assert_equal_on_ranks(values(state))

    def test_it_learns_as_one_rank_does(self) -> None:
        def wrap() -> Any:
            inner = SGD(0.1)
            return hk.DistributedOptimizer(keras.optimizers.LossScaleOptimizer(inner))

        for kind in (None, wrap):
            self.learns(lambda: SGD(0.1), kind, lambda: dense("mixed_float16"), tolerance=2e-3)


class Some(Case):
    """Not all ranks, and not all variables."""

    def change(self, model: Any, optimizer: Any, rank: int) -> list[np.ndarray]:
        before = values(model.weights)
        model.compile(optimizer, "mse", run_eagerly=True)
        inputs, targets = data()
        model.train_on_batch(inputs[0, rank], targets[0, rank])
        return [one - other for one, other in zip(values(model.weights), before)]

    def test_layers_that_stay(self) -> None:
        every = [self.change(dense(), SGD(0.5), rank) for rank in range(self.size)]
        means = [np.mean(one, 0) for one in zip(*every)]
        for scales, share in ((True, self.size), (False, 1)):
            model = dense()
            optimizer = hk.PartialDistributedOptimizer(
                SGD(0.5), local_layers=model.layers[0], scale_local_gradients=scales
            )
            got = self.change(model, optimizer, self.rank)
            own = [one / share for one in every[self.rank]]
            self.near(got, [*own[:2], *means[2:]])
        model = dense()
        optimizer = hk.DistributedOptimizer(SGD(0.5), scale_local_gradients=False)
        optimizer.register_local_var(model.layers[1].bias)
        got = self.change(model, optimizer, self.rank)
        self.near(got, [*means[:3], every[self.rank][3]])

    def test_ranks_outside_a_set_train_alone(self) -> None:
        members = list(range(1, self.size))
        group = hk.add_process_set(members)
        every = [self.change(dense(), SGD(0.5), rank) for rank in range(self.size)]
        expected = every[0] if self.rank == 0 else [np.mean(one, 0) for one in zip(*every[1:])]
        optimizer = hk.DistributedOptimizer(SGD(0.5), process_set=group)
        self.near(self.change(dense(), optimizer, self.rank), expected)
        hk.remove_process_set(group)

    def test_ranks_name_their_layers_as_they_like(self) -> None:
        for _ in range(3 * self.rank):
            keras.layers.Dense(1)
        keras.utils.set_random_seed(11)
        layers = [keras.layers.Dense(5, "tanh"), keras.layers.Dense(2, name=f"of_{self.rank}")]
        model = keras.Sequential([keras.Input([4]), *layers])
        names = objects.allgather_object(model.layers[0].name)
        self.assertEqual(len(set(names)), self.size, names)
        model.compile(hk.DistributedOptimizer(SGD(0.5)), "mse")
        fit(model, data(), self.rank)
        self.assert_equal_on_ranks(values(model.weights))

    def test_two_optimizers_of_one_step(self) -> None:
        pairs = [(dense(), hk.DistributedOptimizer(SGD(rate))) for rate in (0.1, 0.2)]
        inputs, targets = data()

        @tf.function
        def step(batch: Any, wanted: Any) -> None:
            with tf.GradientTape(persistent=True) as tape:
                losses = [tf.reduce_mean((model(batch) - wanted) ** 2) for model, _ in pairs]
            for (model, optimizer), loss in zip(pairs, losses):
                optimizer.apply(tape.gradient(loss, model.weights), model.weights)

        own = inputs[0, self.rank], targets[0, self.rank]
        step(*own)
        operations = step.get_concrete_function(*own).graph.get_operations()
        names = [one.get_attr("tensor_name") for one in operations if one.type == "HvdAllreduce"]
        self.assertEqual(len(set(names)), 2, names)
        self.assertEqual(objects.allgather_object(names), [names] * self.size)
        for (model, _), rate in zip(pairs, (0.1, 0.2)):
            every = [self.change(dense(), SGD(rate), rank) for rank in range(self.size)]
            before = values(dense().weights)
            got = [one - other for one, other in zip(values(model.weights), before)]
            self.near(got, [np.mean(one, 0) for one in zip(*every)])


class Compilation(Case):
    def test_xla_is_switched_off(self) -> None:
        for jit in ("auto", True):
            for wrap in (hk.DistributedOptimizer, lambda one: one):
                model = dense()
                model.compile(wrap(SGD(0.1)), "mse", jit_compile=jit)
                if wrap is hk.DistributedOptimizer:
                    self.assertIs(model.jit_compile, False, jit)
                elif jit is True:
                    self.assertIs(model.jit_compile, True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
