# SPDX-License-Identifier: Apache-2.0
"""Where training with Keras meets its surroundings: new jobs, files, clones, mixed precision, broken broadcasts."""

from __future__ import annotations

import os
import re
import tempfile
import unittest
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

import hvd
import hvd.keras as hk
import hvd.tensorflow.keras
from hvd.keras import backends, callbacks, distributed

SGD = keras.optimizers.SGD


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    hk.init()


def tearDownModule() -> None:  # noqa: N802
    hk.shutdown()


def network(optimizer: Any, **options: Any) -> Any:
    """A linear model with weights of 0."""
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input([1]), dense])
    model.compile(optimizer, keras.losses.MeanSquaredError(), **options)
    return model


def ones(model: Any) -> float:
    """What the weight becomes in a step whose gradient is -2 on each rank."""
    model.train_on_batch(np.ones((4, 1)), np.ones((4, 1)))
    return weight(model)


def weight(model: Any) -> float:
    return float(keras.ops.convert_to_numpy(model.weights[0])[0, 0])


class WarmUp(unittest.TestCase):
    def rates(self, schedule: Any, passes: int, later: bool = False, scaled: bool = False) -> list:
        """The rate of each of seven updates, by what they change."""
        inner = SGD(0.5 if later else schedule)
        made = keras.optimizers.LossScaleOptimizer(inner, 1.0) if scaled else inner
        optimizer = hk.DistributedOptimizer(made, backward_passes_per_step=passes)
        if later:
            optimizer.learning_rate = schedule
        model, found = network(optimizer), []
        for _ in range(7):
            for _ in range(passes):
                before = weight(model)
                ones(model)
            found.append((weight(model) - before) / (2 * passes * (1 - before)))
        return found

    def test_counts_updates_whatever_adds_up(self) -> None:
        expected = [0.01 * (1 + 3 * min(step / 4, 1)) for step in range(7)]
        for passes, options in ((1, {}), (3, {}), (3, {"later": True}), (3, {"scaled": True})):
            schedule = hk.schedules.WarmupSchedule(0.04, 4, 4)
            found = self.rates(schedule, passes, **options)
            np.testing.assert_allclose(found, expected, 1e-4, err_msg=f"{passes} {options}")
            copy = type(schedule).from_config(schedule.get_config())
            self.assertAlmostEqual(float(copy(2 * passes)), 0.025, places=6)

    def test_of_an_optimizer_of_keras_is_told(self) -> None:
        schedule = hk.schedules.WarmupSchedule(0.04, 4, 4, backward_passes_per_step=5)
        self.assertAlmostEqual(float(schedule(14)), 0.025, places=6)
        with self.assertRaisesRegex(ValueError, "passes_per_step"):
            hk.schedules.WarmupSchedule(0.04, 4, backward_passes_per_step=0)


class OwnGpu(unittest.TestCase):
    """TensorFlow's functions stand in: there is no GPU here, where nothing is to be done."""

    def chosen(self, count: int, **variables: str) -> list[Any]:
        gpus = [f"GPU:{place}" for place in range(count)]
        config = mock.Mock()
        config.list_physical_devices.return_value = gpus
        config.get_visible_devices.return_value = gpus
        config.experimental.get_memory_growth.return_value = False
        with mock.patch.object(tf, "config", config), mock.patch.dict(os.environ, variables):
            hk.use_own_gpu()
        self.assertEqual(
            [call.args for call in config.experimental.set_memory_growth.call_args_list],
            [(*call.args[:1], True) for call in config.set_visible_devices.call_args_list],
        )
        return [call.args[0] for call in config.set_visible_devices.call_args_list]

    def test_is_hvdruns_or_that_of_the_local_rank(self) -> None:
        os.environ.pop("HVD_LOCAL_DEVICE", None)
        hk.use_own_gpu()
        self.assertEqual(self.chosen(0), [])
        self.assertEqual(self.chosen(4), [f"GPU:{hk.local_rank()}"])
        self.assertEqual(self.chosen(1), ["GPU:0"])  # srun gave each task its own
        self.assertEqual(self.chosen(4, HVD_LOCAL_DEVICE="3"), ["GPU:3"])
        with self.assertRaisesRegex(ValueError, "HVD_LOCAL_DEVICE is 4, .* sees 2 GPUs: start at"):
            self.chosen(2, HVD_LOCAL_DEVICE="4")

    def test_too_late_and_twice(self) -> None:
        with mock.patch.object(tf, "config") as config:
            config.list_physical_devices.return_value = ["GPU:0"]
            config.get_visible_devices.return_value = ["GPU:0"]
            config.experimental.get_memory_growth.return_value = False
            config.set_visible_devices.side_effect = RuntimeError("after being initialized")
            with self.assertRaisesRegex(hk.InvalidArgumentError, "call it right after hvd.init"):
                hk.use_own_gpu()
            config.experimental.get_memory_growth.return_value = True
            hk.use_own_gpu()


class Clones(unittest.TestCase):
    def test_the_class_of_an_optimizer_makes_plain_ones(self) -> None:
        optimizer = hk.DistributedOptimizer(SGD(0.25, momentum=0.5))
        kind = type(optimizer)
        for made in (kind.from_config(optimizer.get_config()), kind(0.25, momentum=0.5)):
            self.assertIs(type(made), SGD)
            self.assertEqual(made.momentum, 0.5)
            self.assertEqual(ones(network(made)), 0.5)
            hk.DistributedOptimizer(made)
        inner = keras.optimizers.LossScaleOptimizer(SGD(0.25))
        scaled = hk.DistributedOptimizer(inner)
        made = type(scaled).from_config(scaled.get_config())
        self.assertIs(type(made), keras.optimizers.LossScaleOptimizer)


class Compilation(unittest.TestCase):
    def test_xla_is_off_under_mixed_precision(self) -> None:
        for policy in ("float32", "mixed_float16"):
            for wrap, expected in ((hk.DistributedOptimizer, False), (lambda one: one, True)):
                dense = keras.layers.Dense(1, dtype=policy)
                model = keras.Sequential([keras.Input([1]), dense])
                model.dtype_policy = keras.DTypePolicy(policy)  # by which compile() chooses
                model.compile(wrap(SGD(0.1)), "mse", jit_compile=True)
                self.assertEqual(hasattr(model.optimizer, "inner_optimizer"), "16" in policy)
                self.assertIs(model.jit_compile, expected, policy)


class Checkpoints(unittest.TestCase):
    def test_arguments_are_in_the_order_of_each_package_of_horovod(self) -> None:
        best = callbacks.BestModelCheckpoint("val_loss", 0, "min", "epoch", True)
        self.assertEqual((best.mode, best.save_weights_only), ("min", True))
        best = hvd.tensorflow.keras.callbacks.BestModelCheckpoint("val_loss", 0, True, "max")
        self.assertEqual((best.mode, best.save_weights_only), ("max", True))
        self.assertIsInstance(best, callbacks.BestModelCheckpoint)
        with self.assertRaisesRegex(hvd.errors.InvalidArgumentError, "mode is True.*its name"):
            callbacks.BestModelCheckpoint("val_loss", 0, True)


class Broadcasts(unittest.TestCase):
    def setUp(self) -> None:
        self.model = network(hk.DistributedOptimizer(SGD(0.5)))
        self.callback = callbacks.BroadcastGlobalVariablesCallback(0)
        self.callback.set_model(self.model)

    def begin(self, value: float) -> float:
        """The weight at the beginning of a fit whose ranks have it times their number."""
        self.model.weights[0].assign([[value * hvd.rank()]])
        self.callback.on_train_begin()
        return weight(self.model)

    def test_one_that_broke_on_one_rank_comes_again_on_all(self) -> None:
        backend = backends.chosen()
        whole = backend.broadcast

        def broken(*given: Any) -> None:
            whole(*given)
            if hvd.rank() == hvd.size() - 1:
                raise hvd.errors.PeerLostError("broken off")

        with mock.patch.object(backend, "broadcast", broken):
            try:
                self.begin(1.0)
            except hvd.errors.PeerLostError:
                self.assertEqual(hvd.rank(), hvd.size() - 1)
        self.assertEqual(self.begin(2.0), 0.0)
        self.assertEqual(self.begin(2.0), 2.0 * hvd.rank())  # once is enough

    def test_it_comes_again_in_a_new_job(self) -> None:
        self.assertEqual(self.begin(1.0), 0.0)
        hk.shutdown()
        hk.init()
        self.assertEqual(self.begin(2.0), 0.0)


class Files(unittest.TestCase):
    """A model of a file trains on as the one that was saved."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = f"{folder.name}/model.keras"

    def steps(self, model: Any, count: int) -> list[float]:
        """The weight after each step; a step is larger on a rank with a larger number."""
        data = np.full((2, 1), 1.0), np.full((2, 1), 1.0 + hvd.rank())
        seen = []
        for _ in range(count):
            model.train_on_batch(*data)
            seen.append(weight(model))
        return seen

    def made(self, rate: float, **options: Any) -> Any:
        return network(hk.DistributedOptimizer(SGD(rate), **options), run_eagerly=True)

    def loaded(self, model: Any, path: str = "", **arguments: Any) -> Any:
        """A model from a file that leaves no question."""
        path = path or self.path
        model.save(path)
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "load_model")
            again = hk.load_model(path, **arguments)
        again.run_eagerly = True
        return again

    def assert_alike(self, one: Any, other: Any) -> None:
        self.assertEqual(self.steps(one, 4), self.steps(other, 4))

    def test_it_reduces_as_it_did(self) -> None:
        scaled = keras.optimizers.LossScaleOptimizer
        for kind, optimizer in {
            "sums of steps": hk.DistributedOptimizer(SGD(0.125), backward_passes_per_step=2),
            "their means": hk.DistributedOptimizer(
                SGD(0.125), backward_passes_per_step=2, average_aggregated_gradients=True
            ),
            "Keras' own": hk.DistributedOptimizer(SGD(0.125, gradient_accumulation_steps=2)),
            "scaled": hk.DistributedOptimizer(scaled(SGD(0.125)), backward_passes_per_step=2),
            "scaled around": scaled(
                hk.DistributedOptimizer(SGD(0.125), backward_passes_per_step=2)
            ),
            "sums of ranks": hk.DistributedOptimizer(SGD(0.03125), op=hk.Sum),
            "divided": hk.DistributedOptimizer(
                SGD(0.125), "own", gradient_predivide_factor=2.0, sparse_as_dense=True
            ),
        }.items():
            with self.subTest(kind):
                model = network(optimizer, run_eagerly=True, auto_scale_loss=False)
                self.steps(model, 1)
                again = self.loaded(model)
                had = optimizer.inner_optimizer if kind == "scaled around" else optimizer
                variables = optimizer.variables
                self.assertEqual(
                    again.optimizer._hvd.arguments(variables), had._hvd.arguments(variables)
                )
                self.assert_alike(model, again)
                plain = keras.models.load_model(self.path)
                self.assertNotIsInstance(plain.optimizer, distributed.Distributed)

    def test_what_is_given_wins(self) -> None:
        model = self.made(0.25, backward_passes_per_step=2)
        model.optimizer.build(model.trainable_variables)
        for arguments, factor in (
            ({}, 2.0),
            ({"average_aggregated_gradients": True}, 1.0),
            ({"backward_passes_per_step": 1}, 1.0),
            ({"op": hk.Sum}, 2.0 * hvd.size()),
        ):
            again = self.loaded(model, **arguments)
            self.assertEqual([ones(again), ones(again)], [0.0, 0.5 * factor], arguments)
        with self.assertRaisesRegex(hvd.HvdError, "is 3 and .*steps=2: give one"):
            self.loaded(model, backward_passes_per_step=3)

    def test_a_name_is_kept_if_it_was_given(self) -> None:
        hk.shutdown()
        hk.init()  # an optimizer of a later job adds to its name
        for name in (None, "own"):
            again = self.loaded(network(hk.DistributedOptimizer(SGD(0.1), name, op=hk.Sum)))
            found = again.optimizer._hvd.arguments([])
            self.assertEqual(found, {"op": hk.Sum, **({"name": name} if name else {})})

    def test_variables_that_stay(self) -> None:
        for scales in (True, False):
            optimizer = hk.DistributedOptimizer(SGD(0.125), scale_local_gradients=scales)
            model = network(optimizer, run_eagerly=True)
            optimizer.register_local_var(model.weights[0])
            with self.assertWarnsRegex(UserWarning, r"call optimizer.register_local_var\(\) again"):
                model.save(self.path)
                hk.load_model(self.path)
            self.steps(model, 1)
            self.assert_alike(model, self.loaded(model))

    # What the rank outside of the set learns is not what the others do.
    @mock.patch.dict(os.environ, HVD_CHECK_REPLICAS="0")
    def test_process_sets(self) -> None:
        ranks = list(range(hvd.size() - 1))
        group = hk.add_process_set(ranks)
        model = self.made(0.125, process_set=group)
        self.assert_alike(self.loaded(model), model)
        again = self.loaded(model, process_set=hk.global_process_set)
        everywhere = self.made(0.125)
        everywhere.set_weights(again.get_weights())
        self.assert_alike(everywhere, again)
        hk.remove_process_set(group)
        model.save(self.path)
        with self.assertRaisesRegex(hvd.HvdError, r"call hvd.add_process_set\(\[0, 1\]\) first"):
            hk.load_model(self.path)

    def test_a_file_without_room_for_it_is_asked_about(self) -> None:
        path = self.path.replace(".keras", ".h5")
        model = self.made(0.0625, backward_passes_per_step=2)
        self.assertEqual([ones(model), ones(model)], [0.0, 0.25])
        for arguments, expected in (
            ({"backward_passes_per_step": 2}, 0.4375),
            ({"average_aggregated_gradients": False}, 0.4375),
            ({"average_aggregated_gradients": True}, 0.34375),
            ({"backward_passes_per_step": 1}, 0.34375),
        ):
            again = self.loaded(model, path, **arguments)
            self.assertEqual([ones(again), ones(again)], [0.25, expected], arguments)
        with self.assertWarnsRegex(UserWarning, "of 2 steps.*backward_passes_per_step=2 if"):
            hk.load_model(path)
        self.loaded(self.made(0.1), path)


class Outside(unittest.TestCase):
    def test_a_step_of_a_rank_outside_the_set_is_local(self) -> None:
        members = list(range(hvd.size() - 1))
        group = hk.add_process_set(members)
        for scales in (True, False):
            optimizer = hk.DistributedOptimizer(
                SGD(0.25), process_set=group, scale_local_gradients=scales
            )
            model = network(optimizer)
            optimizer.register_local_var(model.weights[0])
            share = len(members) if scales and hvd.rank() in members else 1
            self.assertEqual(ones(model), 0.5 / share)
        hk.remove_process_set(group)


class Interface(unittest.TestCase):
    MODULES = (
        ("hvd.keras", hk),
        ("hvd.tensorflow", hvd.tensorflow),
        ("hvd.tensorflow.keras", hvd.tensorflow.keras),
    )

    def test_each_package_has_what_hvd_has(self) -> None:
        # Objects travel with a session in hvd.tensorflow, and join() is one that graphs have.
        own = {"run", "allgather_object", "broadcast_object", "join"}
        for title, module in self.MODULES:
            self.assertLessEqual(set(hvd.__all__) - {"run"}, set(module.__all__), title)
            for name in sorted(set(hvd.__all__) - own):
                self.assertIs(getattr(module, name), getattr(hvd, name), title)

    def test_the_reference_has_every_name(self) -> None:
        page = Path(__file__).resolve().parents[2] / "docs" / "reference" / "python.md"
        documented = set(re.findall(r"\w+", page.read_text()))
        parts = [module for _, module in self.MODULES]
        parts += [callbacks, hk.elastic, hvd.tensorflow.elastic, hk.schedules]
        for module in parts:
            self.assertEqual(sorted(set(module.__all__) - documented), [], module)


class Names(unittest.TestCase):
    """Of the operations of optimizers, which graphs keep."""

    def test_they_stay_in_a_new_job(self) -> None:
        made = [network(hk.DistributedOptimizer(SGD(0.25), "stays")) for _ in range(2)]
        for model in made:
            self.assertEqual(ones(model), 0.5)
        had = [model.optimizer._hvd.prefix() for model in made]
        hk.shutdown()
        hk.init()
        # In the other order; and then one rank alone traces the second anew.
        made.append(network(hk.DistributedOptimizer(SGD(0.25), "stays")))
        added, *names = [model.optimizer._hvd.prefix() for model in reversed(made)]
        self.assertEqual(names, had[::-1])
        self.assertEqual(len({added, *had}), 3)
        if hvd.rank() == 0:
            made[1].make_train_function(force=True)
        self.assertEqual([ones(made[at]) for at in (1, 0, 2)], [0.75, 0.75, 0.5])


if __name__ == "__main__":
    unittest.main(verbosity=2)
