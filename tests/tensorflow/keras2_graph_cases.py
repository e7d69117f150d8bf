# SPDX-License-Identifier: Apache-2.0
"""Keras 2 in a graph of TensorFlow 1, where what is not run by a session does not happen."""

from __future__ import annotations

import unittest
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
from keras2_oracle import BATCH, NEW, OLD, STEPS, Case, data, dense, fit

import hvd
import hvd.keras as hk


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    tf.compat.v1.disable_eager_execution()
    hk.init()


def tearDownModule() -> None:  # noqa: N802
    hk.shutdown()


class Graphs(Case):
    def compiled(self, rate: float, **options: Any) -> Any:
        model = dense()
        model.compile(hk.DistributedOptimizer(OLD.SGD(rate, momentum=0.9), **options), "mse")
        return model

    def test_it_learns_as_one_rank_does(self) -> None:
        whole = dense()
        whole.compile(OLD.SGD(0.5, momentum=0.9), "mse")
        fit(whole, data())
        mine = fit(self.compiled(0.5), data(), self.rank)
        self.near(mine.get_weights(), whole.get_weights())

    def test_passes(self) -> None:
        # Two batches of each rank are one of the whole.
        given = [
            one.reshape(STEPS // 2, 2, self.size, BATCH, -1)
            .transpose((0, 2, 1, 3, 4))
            .reshape(STEPS, self.size, BATCH, -1)
            for one in data()
        ]
        whole = dense()
        whole.compile(OLD.SGD(0.4, momentum=0.9), "mse")
        fit(whole, given, batch_size=2 * BATCH * self.size)
        mine = fit(self.compiled(0.2, backward_passes_per_step=2), data(), self.rank)
        self.near(mine.get_weights(), whole.get_weights())

    def test_callbacks(self) -> None:
        model = self.compiled(0.1 * (self.rank + 1))
        model.set_weights([one + self.rank for one in model.get_weights()])
        callbacks = [
            hk.callbacks.BroadcastGlobalVariablesCallback(0),
            hk.callbacks.MetricAverageCallback(),
            hk.callbacks.LearningRateWarmupCallback(0.4, warmup_epochs=2, steps_per_epoch=STEPS),
        ]
        fit(model, data(), self.rank, epochs=3, callbacks=callbacks)
        self.assert_equal_on_ranks(model.get_weights())
        self.assertEqual(round(float(keras.backend.get_value(model.optimizer.lr)), 6), 0.4)
        self.assertTrue(np.isfinite(model.history.history["loss"]).all())

    def test_an_optimizer_that_would_be_copied_is_refused(self) -> None:
        with self.assertRaisesRegex(hvd.HvdError, r"give tf_keras.optimizers.legacy.Adam"):
            hk.DistributedOptimizer(NEW.Adam(0.1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
