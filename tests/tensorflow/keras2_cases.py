# SPDX-License-Identifier: Apache-2.0
"""Training with Keras 2, as tf_keras: N ranks of B samples against one rank with all N * B."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf
import tf_keras as keras
from keras2_oracle import BATCH, NEW, OLD, SCALES, STEPS, Case, data, dense, embedding, fit

import hvd
import hvd.keras as hk
import hvd.tensorflow as ht
from hvd import replicas


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    tf.get_logger().setLevel("ERROR")
    hk.init()


def tearDownModule() -> None:  # noqa: N802
    hk.shutdown()


class Learning(Case):
    def test_fit(self) -> None:
        self.learns(lambda: NEW.SGD(0.5, momentum=0.9, clipnorm=0.05))
        self.assertEqual(self.exchanged, STEPS)  # all variables together, none of them twice
        self.learns(lambda: OLD.SGD(0.5, momentum=0.9, clipnorm=0.05))
        self.assertEqual(self.exchanged, STEPS)
        self.learns(lambda: NEW.AdamW(0.05, use_ema=True), run_eagerly=True)
        self.learns(lambda: OLD.Adam(0.05), run_eagerly=True)
        self.learns(lambda: NEW.Adam(0.05), steps_per_execution=2)

    def test_embeddings(self) -> None:
        for kinds in (NEW, OLD):
            for options in ({}, {"sparse_as_dense": True}):
                self.learns(
                    lambda kinds=kinds: kinds.SGD(0.5),
                    lambda kinds=kinds, options=options: hk.DistributedOptimizer(
                        kinds.SGD(0.5), **options
                    ),
                    embedding,
                )

    def test_sums_compressed(self) -> None:
        def wrap() -> Any:
            return ht.DistributedOptimizer(NEW.SGD(0.1), op=hk.Sum, compression=hk.Compression.fp16)

        self.learns(lambda: NEW.SGD(0.1 * self.size), wrap, tolerance=1e-3)

    def test_passes(self) -> None:
        for kinds in (NEW, OLD):
            for averages, rate, eager in (
                (True, 0.2, False),
                (False, 0.4, False),
                (True, 0.2, True),
            ):
                # Two batches of each rank are one of the whole.
                given = [
                    one.reshape(STEPS // 2, 2, self.size, BATCH, -1)
                    .transpose((0, 2, 1, 3, 4))
                    .reshape(STEPS, self.size, BATCH, -1)
                    for one in data()
                ]
                with self.subTest(kinds=kinds.__name__, averages=averages, eager=eager):
                    expected = dense()
                    expected.compile(kinds.SGD(rate, momentum=0.9), "mse")
                    fit(expected, given, batch_size=2 * BATCH * self.size)
                    mine = dense()
                    optimizer = hk.DistributedOptimizer(
                        kinds.SGD(0.2, momentum=0.9),
                        backward_passes_per_step=2,
                        average_aggregated_gradients=averages,
                    )
                    mine.compile(optimizer, "mse", run_eagerly=eager)
                    before = hvd.statistics().requests
                    with mock.patch("hvd.replicas.start", wraps=replicas.start) as compared:
                        fit(mine, data(), self.rank)
                    exchanged = hvd.statistics().requests - before - compared.call_count
                    self.assertEqual(exchanged, STEPS // 2)
                    self.assertEqual(int(optimizer.iterations), STEPS // 2)
                    self.near(mine.get_weights(), expected.get_weights())

    def test_loops(self) -> None:
        inputs, targets = data()
        for kinds in (NEW, OLD):
            for way in ("apply_gradients", "minimize"):
                whole, mine = dense(), dense()
                for model, optimizer, given in (
                    (
                        whole,
                        kinds.SGD(0.5),
                        [one[0].reshape(-1, one.shape[-1]) for one in (inputs, targets)],
                    ),
                    (
                        mine,
                        hk.DistributedOptimizer(kinds.SGD(0.5)),
                        [one[0, self.rank] for one in (inputs, targets)],
                    ),
                ):

                    @tf.function
                    def step(model=model, optimizer=optimizer, given=given, way=way) -> None:
                        with tf.GradientTape() as tape:
                            loss = tf.reduce_mean((model(given[0]) - given[1]) ** 2)
                        if way == "minimize":
                            optimizer.minimize(loss, model.trainable_variables, tape=tape)
                        else:
                            found = tape.gradient(loss, model.trainable_variables)
                            optimizer.apply_gradients(zip(found, model.trainable_variables))

                    step()
                with self.subTest(kinds=kinds.__name__, way=way):
                    self.near(mine.get_weights(), whole.get_weights())

    def test_an_optimizer_that_applies_by_itself(self) -> None:
        class Own(OLD.SGD):
            def apply_gradients(self, grads_and_vars: Any, name: Any = None, **kwargs: Any) -> Any:
                for gradient, variable in grads_and_vars:
                    variable.assign_sub(gradient * 0.5)

        self.learns(lambda: OLD.SGD(0.5), lambda: hk.DistributedOptimizer(Own(0.5)))

    def test_schedules(self) -> None:
        for kinds in (NEW, OLD):
            model = dense()
            optimizer = kinds.SGD(hk.schedules.WarmupSchedule(0.8, 4, factor=2))
            model.compile(hk.DistributedOptimizer(optimizer), "mse")
            fit(model, data(), self.rank)
            plain = dense()
            rates = iter([0.4, 0.5, 0.6, 0.7])
            plain.compile(kinds.SGD(0.1), "mse", run_eagerly=True)
            begin = keras.callbacks.LambdaCallback(
                on_batch_begin=lambda batch, logs, plain=plain, rates=rates: setattr(
                    plain.optimizer, "learning_rate", next(rates)
                )
            )
            fit(plain, data(), callbacks=[begin])
            self.near(model.get_weights(), plain.get_weights())

    def test_local_layers(self) -> None:
        inputs, targets = data()

        def change(model: Any, optimizer: Any, rank: int) -> list[np.ndarray]:
            before = model.get_weights()
            model.compile(optimizer, "mse")
            model.train_on_batch(inputs[0, rank], targets[0, rank])
            return [one - other for one, other in zip(model.get_weights(), before)]

        every = [change(dense(), NEW.SGD(0.5), rank) for rank in range(self.size)]
        means = [np.mean(one, 0) for one in zip(*every)]
        for kinds in (NEW, OLD):
            model = dense()
            optimizer = hk.PartialDistributedOptimizer(
                kinds.SGD(0.5), local_layers=model.layers[0], scale_local_gradients=False
            )
            got = change(model, optimizer, self.rank)
            self.near(got, [*every[self.rank][:2], *means[2:]])

    def test_what_is_refused(self) -> None:
        optimizer = hk.DistributedOptimizer(NEW.SGD(0.1))
        self.assertIsInstance(optimizer, NEW.SGD)
        for words, call in {
            "distributed already": lambda: hk.DistributedOptimizer(optimizer),
            "op is": lambda: hk.DistributedOptimizer(NEW.SGD(), op=hk.Max),
        }.items():
            with self.assertRaisesRegex(hvd.HvdError, words):
                call()
        self.assertIs(type(type(optimizer).from_config(optimizer.get_config())), NEW.SGD)

    def test_xla_is_switched_off(self) -> None:
        for wrap, expected in ((hk.DistributedOptimizer, False), (lambda one: one, True)):
            for dtype in (None, "mixed_float16"):
                model = dense(dtype)
                model.compile(wrap(NEW.SGD(0.1)), "mse", jit_compile=True)
                self.assertIs(model.jit_compile, expected)


class Precision(Case):
    def test_all_ranks_skip_together(self) -> None:
        inputs, targets = data()
        inputs[1, self.size - 1] = 1e30  # infinite in float16, in one step of the last rank
        for kinds in (NEW, OLD):
            for outside in (False, True):
                for passes in (1, 2):
                    with self.subTest(kinds=kinds.__name__, outside=outside, passes=passes):
                        optimizer: Any = kinds.SGD(0.1, momentum=0.9)
                        optimizer = SCALES(optimizer) if outside else optimizer
                        optimizer = hk.DistributedOptimizer(
                            optimizer, backward_passes_per_step=passes
                        )
                        model = dense("mixed_float16")
                        first = model.get_weights()
                        model.compile(optimizer, "mse")
                        self.assertIsInstance(model.optimizer, SCALES)
                        fit(model, [inputs, targets], self.rank, epochs=2)
                        self.assertEqual(float(model.optimizer.loss_scale), 2.0**13)
                        for one, other in zip(model.get_weights(), first):
                            self.assertTrue(np.isfinite(one).all())
                            self.assertFalse(np.array_equal(one, other))
                        self.assert_equal_on_ranks(model.get_weights())
                        self.assert_equal_on_ranks(model.optimizer.inner_optimizer.variables())

    def test_a_rank_with_a_local_variable_skips_with_the_others(self) -> None:
        inputs, targets = data()
        optimizer = hk.DistributedOptimizer(SCALES(NEW.SGD(0.1)))
        model = dense("mixed_float16")
        optimizer.register_local_var(model.layers[1].bias)
        for name in ("kernel", "bias"):
            optimizer.register_local_var(getattr(model.layers[0], name))
        optimizer.register_local_var(model.layers[1].kernel)
        model.compile(optimizer, "mse")
        inputs[0, 0] = 1e30
        fit(model, [inputs[:1], targets[:1]], self.rank)
        self.assertEqual(float(optimizer.loss_scale), 2.0**14)


if __name__ == "__main__":
    unittest.main(verbosity=2)
