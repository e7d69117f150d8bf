# SPDX-License-Identifier: Apache-2.0
"""Callbacks, files and states of Keras 2, as tf_keras, and which Keras is chosen."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
import warnings

import tensorflow as tf
import tf_keras as keras
from keras2_oracle import NEW, OLD, STEPS, Case, data, dense, fit

import hvd.keras as hk
import hvd.tensorflow as ht
from hvd import objects
from hvd.keras.generations import keras2
from hvd.keras.rates import Rate


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    tf.get_logger().setLevel("ERROR")
    hk.init()


def tearDownModule() -> None:  # noqa: N802
    hk.shutdown()


class Callbacks(Case):
    def test_broadcast_rates_and_metrics(self) -> None:
        for kinds in (NEW, OLD):
            model = dense()
            rate = 0.1 * (self.rank + 1)
            model.compile(
                hk.DistributedOptimizer(kinds.SGD(rate, momentum=0.9)), "mse", metrics=["mae"]
            )
            for variable in model.weights:
                variable.assign(variable + float(self.rank))
            callbacks = [
                hk.callbacks.BroadcastGlobalVariablesCallback(0),
                hk.callbacks.MetricAverageCallback(),
                hk.callbacks.LearningRateWarmupCallback(0.4, warmup_epochs=2),
                hk.callbacks.StopInTimeCallback(),
            ]
            fit(model, data(), self.rank, epochs=3, callbacks=callbacks, validation_split=0.25)
            self.assert_equal_on_ranks(model.get_weights())
            found = model.history.history
            self.assertEqual(len(found["val_mae"]), 3)
            self.assertAlmostEqual(found["lr"][-1], 0.4, places=6)
            self.assertLess(found["lr"][0], 0.4)
            every = objects.allgather_object([found["loss"], found["val_loss"], found["mae"]])
            self.assertEqual(every, every[:1] * self.size)

    def test_the_state_that_is_broadcast(self) -> None:
        for kinds in (NEW, OLD):
            model = dense()
            optimizer = hk.DistributedOptimizer(kinds.SGD(0.1 * (self.rank + 1), momentum=0.9))
            model.compile(optimizer, "mse")
            local = model.layers[0].bias
            local.assign(local + float(self.rank))
            callback = hk.callbacks.BroadcastGlobalVariablesCallback(0)
            callback.register_local_var(local)
            callback.set_model(model)
            callback.on_train_begin()
            self.assertAlmostEqual(float(optimizer.learning_rate), 0.1, places=6)
            self.assertEqual(float(local[0]), float(self.rank))
            self.assertGreaterEqual(len(optimizer.variables()), 5)  # slots are there

    def test_the_velocity_follows_the_rate(self) -> None:
        for kinds in (NEW, OLD):
            for kind, options in ((kinds.SGD, {}), (kinds.RMSprop, {})):
                model = dense()
                optimizer = kind(0.5, momentum=0.9, **options)
                model.compile(hk.DistributedOptimizer(optimizer), "mse")
                fit(model, data(), self.rank)
                velocities = keras2.velocities(optimizer)
                self.assertEqual(len(velocities), 4)
                before = [one.numpy() for one in velocities]
                Rate(optimizer).set(0.25)
                self.near([one.numpy() for one in velocities], [one / 2 for one in before])
                self.assertEqual(float(optimizer.learning_rate), 0.25)

    def test_best_checkpoint(self) -> None:
        model = dense()
        model.compile(hk.DistributedOptimizer(NEW.SGD(0.1)), "mse")
        best = hk.callbacks.BestModelCheckpoint(monitor="loss")
        best.filepath = f"{self.folder}/best.h5"
        fit(model, data(), self.rank, epochs=2, callbacks=[best])
        self.assertEqual(os.path.exists(best.filepath), self.rank == 0)

    def test_elastic(self) -> None:
        for kinds in (NEW, OLD):
            model = dense()
            optimizer = hk.DistributedOptimizer(kinds.Adam(0.1 * (self.rank + 1)))
            model.compile(optimizer, "mse")
            for variable in model.weights:
                variable.assign(variable + float(self.rank))
            state = hk.elastic.KerasState(model, batch=0, epoch=0)
            state.sync()
            self.assert_equal_on_ranks(model.get_weights())
            self.assertAlmostEqual(float(optimizer.learning_rate), 0.1, places=6)
            kept = model.get_weights()
            fit(
                model,
                data(),
                self.rank,
                callbacks=[
                    hk.elastic.UpdateBatchStateCallback(state),
                    hk.elastic.UpdateEpochStateCallback(state),
                ],
            )
            self.assertEqual((state.batch, state.epoch), (0, 1))
            state.restore()
            self.near(model.get_weights(), kept, 0.0)
            self.assertEqual(int(optimizer.iterations), 0)
            ended = hk.elastic.CommitStateCallback(state)
            fit(model, data(), self.rank, callbacks=[ended])
            kept = model.get_weights()
            fit(model, data(), self.rank)
            state.restore()
            self.near(model.get_weights(), kept, 0.0)
            self.assertEqual(int(optimizer.iterations), STEPS)


class Files(Case):
    def test_a_file_is_that_of_the_plain_optimizer(self) -> None:
        for kinds in (NEW, OLD):
            for ending in (".keras", ".h5", "") if kinds is NEW else (".keras", ".h5"):
                with self.subTest(kinds=kinds.__name__, ending=ending):
                    path = f"{self.folder}/{kinds.__name__}{ending or '.tf'}"
                    model = dense()
                    model.compile(hk.DistributedOptimizer(kinds.Adam(0.01)), "mse")
                    fit(model, data(), self.rank)
                    if not ending:
                        model.save(path, save_format="tf")
                    else:
                        model.save(path)
                    plain = keras.models.load_model(path)
                    self.assertIs(type(plain.optimizer), kinds.Adam)
                    again = hk.load_model(path)
                    self.assertIsInstance(again.optimizer, kinds.Adam)
                    self.assertIsNot(type(again.optimizer), kinds.Adam)
                    for one in (plain, again):
                        self.near(one.get_weights(), model.get_weights(), 0.0)
                    # Keras 2 itself keeps no state of an optimizer in the other formats.
                    if ending == ".h5" or (ending == ".keras" and kinds is NEW):
                        self.assertEqual(int(again.optimizer.iterations), STEPS)
                        for one in (model, again):
                            fit(one, data(), self.rank)
                        self.near(again.get_weights(), model.get_weights())
                        self.assert_equal_on_ranks(again.get_weights())

    def test_it_reduces_as_it_did(self) -> None:
        path = f"{self.folder}/sums.keras"
        model = dense()
        optimizer = hk.DistributedOptimizer(NEW.SGD(0.01), op=hk.Sum, backward_passes_per_step=2)
        optimizer.register_local_var(model.layers[0].bias)
        model.compile(optimizer, "mse")
        fit(model, data(), self.rank)
        model.save(path)
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "load_model")
            again = hk.load_model(path)
        self.assertEqual(
            again.optimizer._hvd.arguments(again.trainable_variables),
            {"op": hk.Sum, "backward_passes_per_step": 2, "local": [1]},
        )
        for one in (model, again):
            fit(one, data(), self.rank)
        self.near(again.get_weights(), model.get_weights())


class Choice(unittest.TestCase):
    """Which Keras the classes of hvd.keras are derived from; optimizers of both work with either."""

    SCRIPT = """
import sys
import tensorflow as tf
import hvd.keras.schedules
import hvd.tensorflow.keras as hvt
assert issubclass(hvt.callbacks.BestModelCheckpoint, tf.keras.callbacks.ModelCheckpoint)
assert issubclass(hvt.elastic.CommitStateCallback, tf.keras.callbacks.Callback)
assert issubclass(hvd.keras.schedules.WarmupSchedule, tf.keras.optimizers.schedules.LearningRateSchedule)
hvt.DistributedOptimizer(tf.keras.optimizers.legacy.SGD())
import keras
assert isinstance(hvt.DistributedOptimizer(keras.optimizers.SGD()), keras.optimizers.Optimizer)
print(tf.keras.optimizers.SGD.__module__.partition(".")[0])
"""

    def run_with(self, script: str, **variables: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def test_the_variable(self) -> None:
        found = self.run_with(self.SCRIPT, TF_USE_LEGACY_KERAS="1")
        self.assertEqual(found.stdout.strip(), "tf_keras", found.stderr)

    def test_what_is_missing_is_named(self) -> None:
        script = "import sys; sys.modules['tf_keras'] = None; import hvd.tensorflow.keras"
        found = self.run_with(script, TF_USE_LEGACY_KERAS="1")
        self.assertRegex(
            found.stderr, "TF_USE_LEGACY_KERAS.* has no tf_keras: pip install tf_keras"
        )


class Tapes(Case):
    def test_a_tape_and_variables(self) -> None:
        inputs, targets = data()
        model = dense()
        for variable in model.weights:
            variable.assign(variable + float(self.rank))
        ht.broadcast_variables(model.variables, root_rank=0)
        optimizer = NEW.SGD(0.5)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(inputs[0, self.rank]) - targets[0, self.rank]) ** 2)
        tape = ht.PartialDistributedGradientTape(tape, local_layers=model.layers[1])
        found = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(found, model.trainable_variables))
        ht.broadcast_variables(optimizer.variables(), root_rank=0)
        self.assert_equal_on_ranks(model.layers[0].get_weights())

    def test_values(self) -> None:
        metric = keras.metrics.Mean()
        metric.update_state(float(self.rank))
        self.assertAlmostEqual(float(hk.allreduce(metric.result())), (self.size - 1) / 2)
        metric.reset_states()


if __name__ == "__main__":
    unittest.main(verbosity=2)
