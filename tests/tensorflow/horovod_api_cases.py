# SPDX-License-Identifier: Apache-2.0
"""Horovod's names for TensorFlow and Keras: parameters, what is behind them, and what they refuse."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import horovod.keras
import horovod.tensorflow as hvd
import horovod.tensorflow.keras
import keras
import tensorflow as tf
from horovod import _dropped
from horovod_names_cases import Names, names_of, wrong_parameters

import hvd.keras as our_keras
import hvd.tensorflow as ours

__all__ = ["Names"]  # its cases run here, too
v1 = tf.compat.v1


def in_a_process(script: str, **variables: str) -> subprocess.CompletedProcess:
    """What a Python says that runs the script."""
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


class Objects(unittest.TestCase):
    def check(self, holder: object, lines: str) -> None:
        for line in lines.strip().splitlines():
            (name,) = names_of(line)
            wrong = wrong_parameters(name, getattr(holder, name.name), "horovod.tensorflow")
            self.assertEqual(wrong, "", line)

    def test_methods_of_a_tape(self) -> None:
        tape = hvd.DistributedGradientTape(tf.GradientTape(persistent=True))
        self.assertIsInstance(tape, tf.GradientTape)
        self.check(
            tape,
            """
register_local_source(source)
get_local_and_global_gradients(target, sources, output_gradients=None, use_generic_names=False)
gradient(target, sources, output_gradients=None)
""",
        )
        x = tf.Variable(3.0)
        with tape:
            y = x * x
        for gradient in (
            tape.gradient(y, x, None, True),  # Horovod's fourth is use_generic_names
            tape.gradient(y, x, use_generic_names=True),
        ):
            self.assertEqual(float(gradient), 6.0)

    def test_methods_of_optimizers(self) -> None:
        for op in (hvd.Average, hvd.Adasum):
            plain = v1.train.GradientDescentOptimizer(0.1)
            optimizer = hvd.DistributedOptimizer(plain, op=op)
            self.assertIsInstance(optimizer, v1.train.Optimizer)
            self.check(
                optimizer,
                """
compute_gradients(*args, **kwargs)
apply_gradients(grads_and_vars, global_step=None, name=None)
get_slot(*args, **kwargs)
get_slot_names(*args, **kwargs)
variables(*args, **kwargs)
""",
            )
        for module in (hvd, horovod.tensorflow.keras, horovod.keras):
            optimizer = module.DistributedOptimizer(keras.optimizers.Adam(0.1))
            self.assertIsInstance(optimizer, keras.optimizers.Adam)
            self.check(optimizer, "register_local_var(var)")

    def test_functions_are_those_of_hvd(self) -> None:
        for name in ("allreduce", "allgather", "broadcast", "alltoall", "DistributedGradientTape"):
            self.assertIs(getattr(hvd, name), getattr(ours, name))
        for name in ("allgather", "load_model", "DistributedOptimizer"):
            self.assertIs(getattr(horovod.keras, name), getattr(our_keras, name))
        for module in (horovod.keras, horovod.tensorflow.keras):
            for name in ("MetricAverageCallback", "BroadcastGlobalVariablesCallback"):
                self.assertIs(getattr(module.callbacks, name), getattr(our_keras.callbacks, name))
            self.assertIs(module.Compression, ours.Compression)

    def test_average_of_values_means_what_it_says(self) -> None:
        hvd.init()
        for given, expected in [
            ({}, 0),
            ({"average": False}, 1),
            ({"op": hvd.Sum}, 1),
            ({"average": None, "op": hvd.Average}, 0),
        ]:
            with unittest.mock.patch("hvd.numpy.allreduce") as allreduce:
                horovod.keras.allreduce([1.0], **given)
            self.assertEqual(allreduce.call_args.args[2], expected, given)
        with self.assertRaisesRegex(ValueError, "supersedes"):
            horovod.keras.allreduce([1.0], average=False, op=hvd.Sum)

    def test_halves_of_callbacks_make_whole_ones(self) -> None:
        halves = importlib.import_module("horovod._keras.callbacks")

        class Mine(halves.LearningRateWarmupCallbackImpl, keras.callbacks.Callback):
            def __init__(self, initial_lr, **kwargs):
                super().__init__(keras.backend, initial_lr, **kwargs)

        callback = Mine(0.5, warmup_epochs=2)
        self.assertEqual((callback.initial_lr, callback.warmup_epochs), (0.5, 2))
        self.assertIsInstance(callback, our_keras.callbacks.LearningRateWarmupCallback)
        half = halves.BroadcastGlobalVariablesCallbackImpl(keras.backend, 1)
        self.assertEqual(half.root_rank, 1)

    def test_best_model_checkpoint_has_the_order_of_each_package(self) -> None:
        theirs = horovod.keras.callbacks.BestModelCheckpoint("loss", 0, "max", "epoch")
        self.assertEqual((theirs.save_weights_only, theirs.mode), (False, "max"))
        theirs = horovod.tensorflow.keras.callbacks.BestModelCheckpoint("loss", 0, True, "max")
        self.assertEqual((theirs.save_weights_only, theirs.mode), (True, "max"))


class Accumulating(unittest.TestCase):
    """LocalGradientAggregationHelper, which an optimizer of the user's own may hold."""

    def helper(self, **kwargs):
        def reduced(gradients, variables):
            self.seen.append(len(variables))
            return [gradient * 10.0 for gradient in gradients]

        self.seen: list[int] = []
        return hvd.LocalGradientAggregationHelper(2, reduced, False, True, 0, "type", **kwargs)

    def steps(self, helper, weights: list, gradients: list):
        reduced = helper.compute_gradients(gradients, weights)
        return helper.apply_gradients(
            lambda: tf.group(*(w.assign_sub(g) for w, g in zip(weights, reduced))), None
        )

    def test_eager(self) -> None:
        helper, weights = self.helper(), [tf.Variable(0.0)]
        for gradient in (1.0, 3.0, 5.0):
            self.steps(helper, weights, [tf.constant(gradient)])
        self.assertEqual((float(weights[0]), self.seen), (-20.0, [1]))

    def test_in_a_graph(self) -> None:
        with tf.Graph().as_default(), v1.Session() as session:
            weights = [v1.get_variable("w", [], initializer=v1.zeros_initializer())]
            fed = v1.placeholder(tf.float32, [])
            train = self.steps(self.helper(), weights, [fed])
            session.run(v1.global_variables_initializer())
            for gradient in (1.0, 3.0, 5.0):
                session.run(train, {fed: gradient})
            self.assertEqual(session.run(weights[0]), -20.0)

    def test_local_variables_are_not_reduced(self) -> None:
        hvd.init()
        helper, weights = self.helper(), [tf.Variable(0.0), tf.Variable(0.0)]
        helper.register_local_var(weights[0])
        for _ in range(2):
            self.steps(helper, weights, [tf.constant(4.0), tf.constant(2.0)])
        self.assertEqual([float(one) for one in weights], [-4.0, -20.0])
        self.assertEqual(self.seen, [1])

    def test_one_for_eager_execution(self) -> None:
        module = importlib.import_module("horovod.tensorflow.gradient_aggregation_eager")
        kind = module.LocalGradientAggregationHelperEager
        helper, weights = kind(1, lambda given, vars: given, False, False), [tf.Variable(0.0)]
        self.steps(helper, weights, [tf.constant(1.0)])
        self.assertEqual(float(weights[0]), -1.0)
        with self.assertRaisesRegex(ValueError, "backward_passes_per_step"):
            kind(0, None, False, False)


class Refused(unittest.TestCase):
    """What cannot work says what can."""

    def test_each_says_what_to_use(self) -> None:
        hvd.init()
        adam = keras.optimizers.Adam
        legacy = v1.train.GradientDescentOptimizer
        for words, call in {
            "supersedes": lambda: hvd.allreduce(1.0, average=True, op=hvd.Sum),
            "keras.optimizers.Adam.*goes to hvd.tensorflow": lambda: (
                horovod.keras.DistributedOptimizer(legacy(0.1))
            ),
            "DistributedGradientTape.*op=hvd.Adasum": lambda: hvd.DistributedOptimizer(
                adam(), op=hvd.Adasum
            ),
            "Keras 3 has no legacy optimizers": lambda: horovod.keras.load_model(
                "none.keras", legacy_opts=True
            ),
            "use fused=False": lambda: hvd.SyncBatchNormalization(fused=True),
            "sparse_as_dense=True": lambda: hvd.LocalGradientAggregationHelper(
                2, None, False, False
            ).compute_gradients([tf.IndexedSlices(tf.ones([1, 1]), [0])], [tf.Variable([[1.0]])]),
            "give the variables": lambda: hvd.elastic.TensorFlowState(epoch=0),
            "initial_lr is None": lambda: horovod.keras.callbacks.LearningRateWarmupCallback(None),
        }.items():
            with self.subTest(words), self.assertRaisesRegex((ValueError, RuntimeError), words):
                call()

    def test_there_are_no_global_variables_where_tensorflow_is_eager(self) -> None:
        for module in (hvd, horovod.keras, horovod.tensorflow.keras):
            with self.assertRaisesRegex(RuntimeError, r"broadcast_variables\(|Callback"):
                module.broadcast_global_variables(0)

    def test_before_init(self) -> None:
        hvd.shutdown()
        for ask in (hvd.rank, hvd.size, horovod.keras.local_rank):
            with self.assertRaisesRegex(ValueError, "init"):
                ask()


# What docs/how-to/migrate-from-horovod.md says that Keras and TensorFlow refuse, and what to write.
REFUSED_BY_KERAS = [
    ("keras.backend.get_value(opt.learning_rate)", AttributeError, "float(opt.learning_rate)"),
    (
        "hvk.callbacks.LearningRateWarmupCallback(warmup_epochs=5)",
        TypeError,
        "hvk.callbacks.LearningRateWarmupCallback(0.1 * hvd.size(), warmup_epochs=5)",
    ),
    ("model.fit_generator", AttributeError, "model.fit"),
    ("model.fit(x, x, workers=4, verbose=0)", TypeError, "model.fit(x, x, verbose=0)"),
    (
        "keras.callbacks.ModelCheckpoint('a.keras', period=1)",
        TypeError,
        "keras.callbacks.ModelCheckpoint('a.keras', save_freq='epoch')",
    ),
    ("model.save(folder + '/a')", ValueError, "model.save(folder + '/a.keras')"),
    (
        "model.save_weights(folder + '/w.h5')",
        ValueError,
        "model.save_weights(folder + '/w.weights.h5')",
    ),
    ("keras.utils.np_utils", AttributeError, "keras.utils.to_categorical"),
    ("tf.keras.optimizers.legacy.SGD(0.1)", ImportError, "tf.keras.optimizers.SGD(0.1)"),
    (
        "tf.keras.layers.experimental.SyncBatchNormalization()",
        AttributeError,
        "hvd.SyncBatchNormalization(axis=-1)",
    ),
    (
        "keras.mixed_precision.experimental",
        AttributeError,
        "keras.mixed_precision.set_global_policy",
    ),
    (
        "hvd.broadcast_global_variables(0)",
        RuntimeError,
        "hvd.broadcast_variables(model.variables, 0)",
    ),
    ("tf.estimator.Estimator", AttributeError, "v1.train.MonitoredTrainingSession"),
]


# What the modules named horovod take for scripts, and what is to be seen of it.
TAKEN = {
    "model.compile(..., experimental_run_tf_function=False)": (
        "model.compile(opt, 'mse', experimental_run_tf_function=False)",
        "model.optimizer is opt",
    ),
    "metric.reset_states()": (
        "metric.update_state(1.0); metric.reset_states()",
        "float(metric.result()) == 0",
    ),
    "optimizer.variables()": (
        "hvd.broadcast_variables(opt.variables(), root_rank=0)",
        "isinstance(opt.variables, list)",
    ),
    "Adadelta(lr=1.0)": (
        "opt = keras.optimizers.Adadelta(lr=0.25)",
        "float(opt.learning_rate) == 0.25",
    ),
    "optimizer.lr": ("opt.lr = 0.25", "float(opt.learning_rate) == float(opt.lr) == 0.25"),
    'ModelCheckpoint("w-{epoch}.h5", save_weights_only=True)': (
        "found = keras.callbacks.ModelCheckpoint('w-{epoch}.h5', save_weights_only=True)",
        "found.filepath == 'w-{epoch}.weights.h5'",
    ),
    "keras.backend.set_session(session)": ("keras.backend.set_session(None)", "True"),
    "tf.ConfigProto()": ("found = tf.ConfigProto()", "isinstance(found, v1.ConfigProto)"),
    "tf.Session(config=config)": (
        "found = tf.Session(config=v1.ConfigProto())",
        "isinstance(found, v1.Session)",
    ),
}
UNTOUCHED = """
import hvd.keras, hvd.tensorflow.keras, hvd.elastic, keras, tensorflow as tf
opt = keras.optimizers.SGD(0.1)
found = [hasattr(keras.metrics.Metric, "reset_states"), callable(opt.variables), hasattr(opt, "lr")]
found += [hasattr(tf, "Session"), hasattr(keras.backend, "set_session"), hasattr(hvd.keras, "AdaSum")]
print(found)
"""


class Taken(unittest.TestCase):
    def test_each_is_taken_and_told_once(self) -> None:
        hvd.init()
        table = {one.line: one.sentence for one in (*_dropped.KERAS, *_dropped.TENSORFLOW)}
        self.assertEqual(set(TAKEN), set(table))
        for line, (script, seen) in TAKEN.items():
            model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1)])
            known = {
                "model": model,
                "opt": keras.optimizers.SGD(0.5),
                "metric": keras.metrics.Mean(),
            }
            known |= globals()
            said = io.StringIO()
            with self.subTest(line), contextlib.redirect_stderr(said):
                _dropped._told.clear()
                for _ in range(2):
                    exec(script, known)  # noqa: S102 (our own table)
                self.assertTrue(eval(seen, known), seen)  # noqa: S307
                self.assertEqual(said.getvalue().splitlines(), [f"horovod: {table[line]}"])

    def test_names_of_the_pages(self) -> None:
        hvd.init()
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            _dropped._told.clear()
            for module in (hvd, horovod.keras, horovod.tensorflow.keras):
                self.assertEqual(module.AdaSum, hvd.Adasum)
            self.assertEqual((horovod.size(), horovod.rank()), (1, 0))
            self.assertIs(horovod.callbacks, horovod.keras.callbacks)
        self.assertEqual(len(said.getvalue().splitlines()), 2, said.getvalue())
        with self.assertRaisesRegex(AttributeError, "horovod.*has no attribute 'nothing'"):
            horovod.nothing  # noqa: B018 (asking is the test)

    def test_hvd_touches_nothing(self) -> None:
        found = in_a_process(UNTOUCHED)
        self.assertEqual(found.stdout.strip(), str([False] * 6), found.stderr)

    def test_the_page_has_each(self) -> None:
        page = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "migrate-from-horovod.md"
        text = page.read_text()
        for line in TAKEN:
            self.assertIn(f"| `{line}` |", text)

    def test_gpus_of_a_session_become_those_of_the_process(self) -> None:
        config = v1.ConfigProto()
        config.gpu_options.visible_device_list = "1"
        config.gpu_options.allow_growth = True
        double = unittest.mock.Mock()
        double.config.list_physical_devices.return_value = ["first", "second"]
        rest = _dropped._gpus_chosen(double, config)
        double.config.set_visible_devices.assert_called_once_with(["second"], "GPU")
        double.config.experimental.set_memory_growth.assert_called_once_with("second", True)
        self.assertEqual(rest.gpu_options.visible_device_list, "")
        self.assertTrue(rest.gpu_options.allow_growth)


class MigrationPage(unittest.TestCase):
    """The page says what is to be changed; a newer Keras may take it, or refuse the replacement."""

    def test_each_change_is_needed_and_enough(self) -> None:
        hvd.init()
        for old, error, new in REFUSED_BY_KERAS:
            model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1)])
            opt = keras.optimizers.SGD(0.1)
            model.compile(keras.optimizers.SGD(0.1), "mse")
            with tempfile.TemporaryDirectory() as folder, self.subTest(old):
                known = {"folder": folder, "model": model, "opt": opt, "x": tf.ones([2, 1])}
                known |= {"hvk": horovod.keras, "metric": keras.metrics.Mean()}
                with self.assertRaises(error):
                    eval(old, {**globals(), **known})  # noqa: S307 (our own table)
                eval(new, {**globals(), **known})  # noqa: S307

    def test_an_estimator_becomes_a_session(self) -> None:
        hvd.init()

        def input_fn():
            return tf.data.Dataset.from_tensors((tf.ones([4, 1]), tf.zeros([4, 1]))).repeat()

        def model_fn(features, labels):
            weights = v1.get_variable("weights", [1, 1], initializer=v1.ones_initializer())
            loss = v1.losses.mean_squared_error(labels, features @ weights)
            opt = hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(0.1))
            return loss, opt.minimize(loss, global_step=v1.train.get_or_create_global_step())

        with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default():
            loss, train_op = model_fn(*v1.data.make_one_shot_iterator(input_fn()).get_next())
            hooks = [
                hvd.BroadcastGlobalVariablesHook(0),
                v1.train.StopAtStepHook(last_step=4 // hvd.size()),
            ]
            losses = []
            with v1.train.MonitoredTrainingSession(
                checkpoint_dir=folder if hvd.rank() == 0 else None, hooks=hooks
            ) as session:
                while not session.should_stop():
                    losses.append(session.run([loss, train_op])[0])
            self.assertTrue(list(Path(folder).glob("model.ckpt-4*")))
        self.assertEqual(len(losses), 4)
        self.assertLess(losses[-1], losses[0])


class Imports(unittest.TestCase):
    def test_keras_brings_no_torch(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "torch").mkdir()
            Path(folder, "torch", "__init__.py").write_text(
                "raise SystemExit('torch was imported')"
            )
            done = in_a_process(
                "import horovod.keras, horovod.tensorflow.keras, horovod._keras.elastic",
                PYTHONPATH=os.pathsep.join([folder, os.environ["PYTHONPATH"]]),
            )
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_without_the_framework_the_error_is_a_sentence(self) -> None:
        for missing, module in (
            ("tensorflow", "horovod.tensorflow"),
            ("tensorflow", "horovod.tensorflow.keras"),
            ("keras", "horovod.keras"),
        ):
            done = in_a_process(f"import sys; sys.modules['{missing}'] = None; import {module}")
            last = done.stderr.splitlines()[-1]
            words = rf"ModuleNotFoundError: horovod\.{missing}: .* has no {missing}: pip install"
            self.assertRegex(last, words)


if __name__ == "__main__":
    unittest.main(verbosity=2)
