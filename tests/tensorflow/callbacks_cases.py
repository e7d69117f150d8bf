# SPDX-License-Identifier: Apache-2.0
"""Callbacks and elastic states of Keras on any backend, run by each rank."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

import hvd
import hvd.keras as hk
from hvd import objects
from hvd.keras import callbacks, elastic, schedules

SAMPLES = 12  # of each rank
RATE = 0.3


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    # Most models here differ by rank, and nothing makes them equal.
    os.environ["HVD_CHECK_REPLICAS"] = "0"
    logging.getLogger("hvd.elastic").setLevel(logging.ERROR)
    hk.init()


def tearDownModule() -> None:  # noqa: N802
    hk.shutdown()


class At(keras.callbacks.Callback):
    """Calls a function before each batch."""

    def __init__(self, act: Callable[[int], Any]) -> None:
        super().__init__()
        self.act = act

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.act(batch)


def data(rank: int, count: int = SAMPLES) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(rank)
    inputs = generator.normal(size=(count, 3)).astype("float32")
    return inputs, inputs.sum(1, keepdims=True) + 0.1 * rank


def network(optimizer: Any = None, *layers: Any, **options: Any) -> Any:
    """A linear model that differs from rank to rank."""
    keras.utils.set_random_seed(7 + hvd.rank())
    model = keras.Sequential([keras.Input([3]), *layers, keras.layers.Dense(1, use_bias=False)])
    optimizer = optimizer or keras.optimizers.SGD(0.1)
    model.compile(hk.DistributedOptimizer(optimizer), "mse", **options)
    return model


def fit(model: Any, *given: Any, epochs: int = 1, **options: Any) -> dict[str, list[float]]:
    inputs, targets = data(hvd.rank())
    options = {"batch_size": 4, "shuffle": False, "verbose": 0, **options}
    return model.fit(inputs, targets, epochs=epochs, callbacks=list(given), **options).history


def values(variables: list[Any]) -> list[np.ndarray]:
    return [np.array(keras.ops.convert_to_numpy(one)) for one in variables]


def same(ours: list[np.ndarray], theirs: list[np.ndarray]) -> bool:
    return len(ours) == len(theirs) and all(map(np.array_equal, ours, theirs))


class Case(unittest.TestCase):
    def assert_equal_on_ranks(self, mine: list[np.ndarray]) -> None:
        for other in objects.allgather_object(mine):
            self.assertTrue(same(mine, other), (mine, other))


class Broadcasts(Case):
    def test_a_resumed_model_is_everybodys_and_masks_differ(self) -> None:
        optimizer = keras.optimizers.SGD(0.1 + 0.1 * hvd.rank(), momentum=0.9)
        model = network(optimizer, keras.layers.Dropout(0.5), run_eagerly=True)
        last = hvd.size() - 1
        if hvd.rank() == last:
            model.optimizer.build(model.trainable_variables)
            model.optimizer.iterations.assign(41)
            model.optimizer.momentums[0].assign(np.full((3, 1), 2.0, "float32"))
        begin = []
        before = values(model.weights)
        probe = At(lambda batch: begin.append(values([*model.weights, *model.optimizer.variables])))
        fit(model, callbacks.BroadcastGlobalVariablesCallback(last), probe)
        theirs = objects.broadcast_object([before, 41, 0.1 + 0.1 * last], last)
        self.assertTrue(same(begin[0][: len(before)], theirs[0]))
        self.assertEqual(begin[0][len(before)], 41)
        self.assertAlmostEqual(float(begin[0][len(before) + 1]), theirs[2], places=6)
        self.assertTrue(np.array_equal(begin[0][-1], np.full((3, 1), 2.0)))
        self.assert_equal_on_ranks(values([*model.weights, *model.optimizer.variables]))
        seeds = objects.allgather_object(values(model.layers[0].variables)[0].tolist())
        self.assertEqual(len({tuple(seed) for seed in seeds}), hvd.size(), seeds)

    def test_models_that_some_ranks_have_not_built_wait_for_the_first_batch(self) -> None:
        keras.utils.set_random_seed(hvd.rank())
        first = [keras.Input([3])] if hvd.rank() == 0 else []
        model = keras.Sequential([*first, keras.layers.Dense(2), keras.layers.Dense(1)])
        model.compile(hk.DistributedOptimizer(keras.optimizers.Adam()), "mse", run_eagerly=True)
        callback = callbacks.BroadcastGlobalVariablesCallback(0)
        fit(model, callback, steps_per_epoch=2)
        self.assert_equal_on_ranks(values([*model.weights, *model.optimizer.variables]))
        # Once is enough, unless there is another optimizer.
        model.layers[0].bias.assign(np.full(2, float(hvd.rank()), "float32"))
        callback.on_train_begin()
        self.assertEqual(values([model.layers[0].bias])[0].tolist(), [float(hvd.rank())] * 2)
        model.compile(hk.DistributedOptimizer(keras.optimizers.Adam()), "mse")
        callback.on_train_begin()
        self.assertEqual(values([model.layers[0].bias])[0].tolist(), [0.0] * 2)

    def test_local_variables_stay_with_what_the_optimizer_has_for_them(self) -> None:
        model = network(keras.optimizers.SGD(0.1, momentum=0.9), keras.layers.Dense(2))
        optimizer = model.optimizer
        optimizer.build(model.trainable_variables)
        for one in [*model.weights, *optimizer.momentums]:
            one.assign(np.full(one.shape, float(hvd.rank()), "float32"))
        kernel, bias, head = model.weights
        callback = callbacks.BroadcastGlobalVariablesCallback(0, local_variables=[kernel])
        callback.register_local_var(bias.value)
        callback.set_model(model)
        callback.on_train_begin()
        found = [float(one.flat[0]) for one in values([*model.weights, *optimizer.momentums])]
        mine = float(hvd.rank())
        self.assertEqual(found, [mine, mine, 0.0, mine, mine, 0.0])

    def test_other_numbers_of_variables_are_an_error_of_all(self) -> None:
        model = network(None, *[keras.layers.Dense(2)] * hvd.rank())
        callback = callbacks.BroadcastGlobalVariablesCallback(0)
        callback.set_model(model)
        with self.assertRaisesRegex(ValueError, r"rank \d: .* have \d variables here"):
            callback.on_train_begin()


class Checkpoints(Case):
    def test_the_first_rank_saves_the_best(self) -> None:
        model = network(run_eagerly=True)
        folder = tempfile.mkdtemp()
        best = callbacks.BestModelCheckpoint("loss", save_weights_only=True, mode="max")
        self.assertIsNone(best.filepath)
        self.assertTrue(best.save_best_only)
        best.set_model(model)
        for path in (None, f"{folder}/best.keras"):
            best.filepath = path
            if hvd.rank() == 0:
                with self.assertRaisesRegex(ValueError, r"callback.filepath .* \.weights\.h5"):
                    best.on_train_begin()
            else:
                best.on_train_begin()
        best.filepath = Path(f"{folder}/best.weights.h5")
        seen: list[list[np.ndarray]] = []
        end = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: seen.append(values(model.weights))
        )
        loss = fit(model, best, end, epochs=2)["loss"]
        self.assertEqual(len(list(Path(folder).iterdir())), int(hvd.rank() == 0))
        if hvd.rank() == 0:
            model.load_weights(best.filepath)
            self.assertTrue(same(values(model.weights), seen[int(np.argmax(loss))]))


class Metrics(Case):
    def uneven_fit(self, *given: Any, **options: Any) -> tuple[Any, dict[str, list[float]]]:
        """Of a model that is the same everywhere and stays so; ranks have 4, 8, ... samples."""
        keras.utils.set_random_seed(3)
        model = keras.Sequential([keras.Input([3]), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.0), "mse", metrics=["mae"], run_eagerly=True)
        inputs, targets = data(hvd.rank(), 4 * hvd.rank() + 4)
        options = {"batch_size": 4, "verbose": 0, **options}
        return model, model.fit(inputs, targets, callbacks=list(given), **options).history

    def test_they_are_those_of_all_samples(self) -> None:
        seen: list[dict[str, float]] = []
        behind = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda _, logs: seen.append(dict(logs))
        )
        held_out = data(10 + hvd.rank(), 3 + hvd.rank())
        average = callbacks.MetricAverageCallback()
        for options in ({}, {"validation_data": held_out}):
            model, history = self.uneven_fit(average, behind, **options)
            ranks = range(hvd.size())
            for prefix, parts in (
                ("", [data(rank, 4 * rank + 4) for rank in ranks]),
                ("val_", [data(10 + rank, 3 + rank) for rank in ranks]),
            ):
                if prefix and not options:
                    continue
                inputs, targets = (np.concatenate(part) for part in zip(*parts))
                loss, mae = model.evaluate(inputs, targets, verbose=0)
                self.assertAlmostEqual(history[f"{prefix}loss"][-1], loss, places=5)
                self.assertAlmostEqual(seen[-1][f"{prefix}mae"], mae, places=5)

    def test_one_that_only_some_ranks_have_becomes_everybodys(self) -> None:
        held_out = data(10, 5) if hvd.rank() == 0 else None
        stop = keras.callbacks.EarlyStopping("val_loss", patience=1)
        given = callbacks.MetricAverageCallback(), stop
        model, history = self.uneven_fit(*given, validation_data=held_out, epochs=5)
        inputs, targets = data(10, 5)
        loss = model.evaluate(inputs, targets, verbose=0)[0]
        self.assertAlmostEqual(history["val_loss"][0], loss, places=5)
        self.assertEqual(len(history["loss"]), 2)

    def test_what_is_no_number_is_left_alone(self) -> None:
        callback = callbacks.MetricAverageCallback()
        callback.set_model(keras.Sequential([keras.layers.Dense(1)]))
        logs = {"text": "same", "rank": float(hvd.rank()), "whole": hvd.rank()}
        callback.on_epoch_end(0, logs)
        mean = (hvd.size() - 1) / 2
        self.assertEqual(logs, {"text": "same", "rank": mean, "whole": mean})
        callback.on_epoch_end(0, {})
        callback.on_epoch_end(0, None)


class Oracle:
    """SGD and RMSprop in NumPy, on the data of all ranks; momentum as Goyal et al. 2017 mean it."""

    def __init__(self, weights: np.ndarray, optimizer: Any, corrected: bool) -> None:
        self.weights = weights.astype("float64")
        self.optimizer = optimizer
        self.corrected = corrected
        self.sum = np.zeros_like(self.weights)
        self.squares = np.zeros_like(self.weights)

    def step(self, batch: int, rate: float) -> None:
        rows = slice(4 * batch, 4 * batch + 4)
        gradient = np.zeros_like(self.weights)
        for rank in range(hvd.size()):
            inputs, targets = (part[rows].astype("float64") for part in data(rank))
            gradient += 2 * inputs.T @ (inputs @ self.weights - targets) / len(inputs) / hvd.size()
        if isinstance(self.optimizer, keras.optimizers.RMSprop):
            self.squares = 0.9 * self.squares + 0.1 * gradient**2
            gradient /= np.sqrt(self.squares + 1e-7)
        momentum = self.optimizer.momentum
        # Either the sum of gradients, or, not corrected, that of gradients with the rates they had.
        inner, outer = (1.0, rate) if self.corrected else (rate, 1.0)
        self.sum = momentum * self.sum + inner * gradient
        ahead = getattr(self.optimizer, "nesterov", False)
        move = momentum * self.sum + inner * gradient if ahead else self.sum
        self.weights = self.weights - outer * move


class Rates(Case):
    def test_momentum_follows_the_rate(self) -> None:
        kinds = {
            "SGD": lambda: keras.optimizers.SGD(RATE, momentum=0.9),
            "Nesterov": lambda: keras.optimizers.SGD(RATE, momentum=0.9, nesterov=True),
            "RMSprop": lambda: keras.optimizers.RMSprop(RATE, momentum=0.9),
        }
        size, steps = hvd.size(), SAMPLES // 4
        for corrected in (True, False):
            for name, make in kinds.items():
                if name != "SGD" and not corrected:
                    continue
                with self.subTest(name, corrected=corrected):
                    model, rates = network(make()), []
                    start = values(model.weights)[0]
                    start = objects.broadcast_object(start, 0)
                    read = At(lambda _, model=model, rates=rates: rates.append(rate_of(model)))
                    history = fit(
                        model,
                        callbacks.BroadcastGlobalVariablesCallback(0),
                        callbacks.LearningRateWarmupCallback(
                            RATE, warmup_epochs=2, momentum_correction=corrected
                        ),
                        callbacks.LearningRateScheduleCallback(
                            RATE, 0.5, start_epoch=2, momentum_correction=corrected
                        ),
                        read,
                        epochs=4,
                    )
                    grow = [
                        RATE / size * (1 + (size - 1) * (step + 1) / (2 * steps))
                        for step in range(2 * steps)
                    ]
                    expected = grow + [RATE / 4] * steps + [RATE / 8] * steps
                    np.testing.assert_allclose(rates, expected, rtol=1e-6)
                    np.testing.assert_allclose(
                        history["lr"], expected[steps - 1 :: steps], rtol=1e-6
                    )
                    right = Oracle(start, model.optimizer, corrected)
                    wrong = Oracle(start, model.optimizer, not corrected)
                    for step, rate in enumerate(expected):
                        right.step(step % steps, rate)
                        wrong.step(step % steps, rate)
                    found = values(model.weights)[0]
                    np.testing.assert_allclose(found, right.weights, rtol=1e-4, atol=1e-5)
                    self.assertGreater(np.abs(right.weights - wrong.weights).max(), 1e-3)

    def test_rates_between_epochs_and_where_nobody_sets_them(self) -> None:
        model, rates = network(run_eagerly=True), []
        schedule = callbacks.LearningRateScheduleCallback(
            1.0,
            lambda epoch: 1 / (1 + epoch),
            start_epoch=1,
            end_epoch=2,
            staircase=False,
            steps_per_epoch=3,
        )
        fit(model, schedule, At(lambda _: rates.append(rate_of(model))), epochs=3)
        middle = [1 / 2, 1 / (2 + 1 / 3), 1 / (2 + 2 / 3)]
        np.testing.assert_allclose(rates, [0.1] * 3 + middle + [middle[-1]] * 3, rtol=1e-6)

    def test_what_cannot_be_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "initial_lr is None"):
            callbacks.LearningRateScheduleCallback(None, 1.0)  # type: ignore[arg-type]
        fixed = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
        model = network(keras.optimizers.SGD(fixed))
        for callback in (
            callbacks.LearningRateWarmupCallback(0.1),
            callbacks.LearningRateScheduleCallback(0.1, 0.5),
        ):
            callback.set_model(model)
            callback.set_params({"steps": 3})
            with self.assertRaisesRegex(ValueError, "is a schedule .*WarmupSchedule"):
                callback.on_train_begin()
        callback = callbacks.LearningRateWarmupCallback(0.1)
        callback.set_model(network())
        callback.set_params({"steps": None})
        with self.assertRaisesRegex(ValueError, f"rank {hvd.rank()}: .*give steps_per_epoch"):
            callback.on_train_begin()

    def test_a_warm_up_goes_before_any_schedule_and_into_files(self) -> None:
        inner = keras.optimizers.schedules.ExponentialDecay(0.8, 10, 0.5)
        for rate in (0.8, inner):
            schedule = schedules.WarmupSchedule(rate, 4)
            copy = schedules.WarmupSchedule.from_config(schedule.get_config())
            factor = hvd.size()
            for step in (0, 2, 4, 20):
                plain = 0.8 if rate == 0.8 else 0.8 * 0.5 ** (step / 10)
                expected = plain * (1 + (factor - 1) * min(step / 4, 1)) / factor
                self.assertAlmostEqual(float(schedule(step)), expected, places=6)
                self.assertAlmostEqual(float(copy(step)), expected, places=6)
        self.assertAlmostEqual(float(schedules.WarmupSchedule(0.5, 0)(0)), 0.5)
        with self.assertRaisesRegex(ValueError, "warmup_steps is -1"):
            schedules.WarmupSchedule(0.5, -1)
        model = network(keras.optimizers.SGD(schedules.WarmupSchedule(inner, 4)))
        fit(model, callbacks.BroadcastGlobalVariablesCallback(0), steps_per_epoch=1)
        path = f"{tempfile.mkdtemp()}/model.keras"
        model.save(path)
        loaded = keras.models.load_model(path)
        self.assertAlmostEqual(float(loaded.optimizer.learning_rate), rate_of(model), places=6)


def rate_of(model: Any) -> float:
    return float(keras.ops.convert_to_numpy(model.optimizer.learning_rate))


class Elastic(Case):
    def train(self, fails_at: int, *, goes_by: str = "initial_epoch") -> list[np.ndarray]:
        """What two epochs make of a model; with a failure in batch `fails_at`, counted from 1."""
        model = network(keras.optimizers.SGD(0.1, momentum=0.9), run_eagerly=True)
        inputs, targets = data(hvd.rank())
        state = elastic.KerasState(model, batch=0, epoch=0)
        batches: list[tuple[int, int]] = []

        def fail(batch: int) -> None:
            batches.append((state.epoch, state.batch))
            if len(batches) == fails_at and hvd.rank() == hvd.size() - 1:
                model.weights[0].assign(np.full((3, 1), 9.0, "float32"))
                raise hvd.HvdError("in the middle of a step")

        @elastic.run
        def train(state: Any) -> None:
            while state.epoch < 2:
                left = slice(4 * state.batch, None)
                relative = goes_by != "initial_epoch"
                model.fit(
                    inputs[left],
                    targets[left],
                    batch_size=4,
                    shuffle=False,
                    verbose=0,
                    initial_epoch=0 if relative else state.epoch,
                    epochs=1 if relative else state.epoch + 1,
                    callbacks=[
                        elastic.CommitStateCallback(state),
                        elastic.UpdateBatchStateCallback(state),
                        elastic.UpdateEpochStateCallback(state),
                        At(fail),
                    ],
                )

        train(state)
        whole = [(epoch, batch) for epoch in range(2) for batch in range(3)]
        # A rank may have been a batch behind when it learnt of the failure.
        self.assertEqual(sorted(set(batches)), whole)
        self.assertLessEqual(len(batches), 6 + 2 * bool(fails_at))
        self.assertEqual((state.epoch, state.batch), (2, 0))
        return values([*model.weights, *model.optimizer.variables])

    def test_a_failure_leaves_no_trace_in_the_training(self) -> None:
        undisturbed = self.train(0)
        self.assert_equal_on_ranks(undisturbed)
        for fails_at, goes_by in ((3, "initial_epoch"), (4, "epochs")):
            disturbed = self.train(fails_at, goes_by=goes_by)
            for before, after in zip(undisturbed, disturbed):
                np.testing.assert_array_equal(before, after)

    def test_commits_come_every_so_many_batches(self) -> None:
        commits: list[tuple[int, int]] = []

        class Noted(elastic.ObjectState):
            def commit(self) -> None:
                commits.append((self.epoch, self.batch))

        state = Noted(epoch=0, batch=0)
        model = network(run_eagerly=True)
        commit = elastic.CommitStateCallback(state, batches_per_commit=2)
        counts = elastic.UpdateBatchStateCallback(state), elastic.UpdateEpochStateCallback(state)
        for given in ((commit, *counts), (*counts, commit)):
            state.epoch = state.batch = 0
            fit(model, *given, epochs=2)
            self.assertEqual(commits, [(0, 2), (1, 0), (1, 2), (2, 0)])
            commits.clear()

    def test_states_without_what_is_counted_are_refused(self) -> None:
        state = elastic.ObjectState()
        with self.assertRaisesRegex(ValueError, "no 'batch': make it with batch=0"):
            elastic.UpdateBatchStateCallback(state)
        with self.assertRaisesRegex(ValueError, "no 'epoch': make it with epoch=0"):
            elastic.UpdateEpochStateCallback(state)
        with self.assertRaisesRegex(ValueError, "batches_per_commit is 0"):
            elastic.CommitStateCallback(state, 0)


class Names(Case):
    def test_scripts_of_tensorflow_find_the_same(self) -> None:
        if keras.backend.backend() != "tensorflow":
            # Where there is no TensorFlow, that is the answer.
            answers = (hvd.UnsupportedError, ModuleNotFoundError)
            with self.assertRaisesRegex(answers, "computes with torch|has no tensorflow"):
                importlib.import_module("hvd.tensorflow.keras")
            return
        theirs = importlib.import_module("hvd.tensorflow.keras")
        for name in hk.__all__:
            if name != "DistributedOptimizer":
                self.assertIs(getattr(theirs, name), getattr(hk, name))
        self.assertIs(theirs.callbacks.MetricAverageCallback, callbacks.MetricAverageCallback)
        self.assertIs(theirs.elastic.KerasState, elastic.KerasState)
        # The ninth argument is another one than in hvd.keras.
        plain, none = keras.optimizers.SGD(0.1), hk.Compression.none
        made = theirs.DistributedOptimizer(plain, None, "", "", none, False, 1.0, hk.Average, 2)
        self.assertIs(made, plain)
        self.assertEqual(made.gradient_accumulation_steps, 2)


class Stopping(Case):
    def test_all_stop_after_the_same_batch(self) -> None:
        model, seen = network(run_eagerly=True), []

        def tell(batch: int) -> None:
            seen.append(batch)
            if batch == 1 and hvd.rank() == hvd.size() - 1:
                os.kill(os.getpid(), signal.SIGTERM)

        fit(model, callbacks.StopInTimeCallback(), At(tell), epochs=3)
        self.assertEqual(objects.allgather_object(seen), [[0, 1]] * hvd.size())
        with self.assertRaisesRegex(ValueError, "batches_per_check is 0"):
            callbacks.StopInTimeCallback(batches_per_check=0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
