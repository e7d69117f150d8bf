# SPDX-License-Identifier: Apache-2.0
"""Making ranks equal, hooks, objects and elastic training with TensorFlow, run by each rank."""

from __future__ import annotations

import logging
import tempfile
import unittest

import keras
import numpy as np
import tensorflow as tf

import hvd
from hvd import objects
from hvd._core import _lib, api
from hvd._core.work import Average, Work
from hvd.process_sets import add_process_set, barrier, remove_process_set
from hvd.tensorflow import broadcasts, elastic
from hvd.tensorflow import objects as ours
from hvd.tensorflow.hooks import BroadcastGlobalVariablesHook
from hvd.tensorflow.ops import submission

v1 = tf.compat.v1


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    logging.getLogger("hvd.elastic").setLevel(logging.ERROR)
    hvd.init()


def tearDownModule() -> None:  # noqa: N802
    hvd.shutdown()


def last_rank() -> int:
    return hvd.size() - 1


def many(rank: int) -> list:
    """Variables of several types, some of them Keras', with values of this rank."""
    made = [
        tf.Variable(tf.cast(tf.fill(shape, rank + 1), dtype), name=f"rank{rank}")
        for shape, dtype in [
            ([3, 2], tf.float32),
            ([], tf.int64),
            ([0, 4], tf.float32),
            ([5], tf.bfloat16),
            ([2], tf.float64),
            ([1], tf.uint8),
        ]
    ]
    made.append(tf.Variable([rank == 0, True]))
    made.insert(1, keras.Variable(np.full((2, 3), rank + 1.0), name=f"keras{rank}"))
    return made


def both_kinds(shape) -> list:
    """A resource variable and one of references."""
    return [
        v1.Variable(tf.fill(shape, 1.0 + hvd.rank()), use_resource=use) for use in (True, False)
    ]


class Broadcast(unittest.TestCase):
    def check(self, variables, root) -> None:
        for mine, expected in zip(variables, many(root)):
            np.testing.assert_array_equal(mine.numpy(), expected.numpy())
            self.assertEqual(mine.dtype, expected.dtype)

    def test_eager(self) -> None:
        for inplace in (False, True):
            for root in (0, last_rank()):
                variables = many(hvd.rank())
                self.assertIsNone(
                    broadcasts.broadcast_variables(iter(variables), root, inplace=inplace)
                )
                self.check(variables, root)
        values = broadcasts.broadcast_(many(hvd.rank()), 0, name="mine")
        self.check(values, 0)
        self.assertIsNone(broadcasts.broadcast_variables([], 0))

    def test_in_a_function(self) -> None:
        variables, others = many(hvd.rank()), many(hvd.rank())

        @tf.function
        def equal():
            broadcasts.broadcast_variables(variables, 0)
            return broadcasts.broadcast_(others, last_rank())

        for _ in range(2):
            values = equal()
            self.check(variables, 0)
            self.check(others, last_rank())
            self.check(values, last_rank())
            for variable, own in zip(variables + others, many(hvd.rank()) * 2):
                variable.assign(own)

    def test_variables_of_tensorflow_1(self) -> None:
        with tf.Graph().as_default(), v1.Session() as session:
            made = both_kinds([2])
            done = broadcasts.broadcast_variables(made, last_rank())
            values = broadcasts.broadcast_([made[0]], 0)
            session.run(v1.global_variables_initializer())
            self.assertEqual(session.run(values[0]).tolist(), [1.0, 1.0])
            session.run(v1.global_variables_initializer())
            session.run(done)
            for value in session.run(made):
                self.assertEqual(value.tolist(), [hvd.size()] * 2)

    def test_ranks_that_differ_get_an_error_that_names_the_variable(self) -> None:
        rank = hvd.rank()
        first = tf.Variable([1.0], name="first")
        cases = {
            r"the shape.* number 1 is 'second:0' on": tf.ones([2 + rank]),
            r"the type.* number 1 is 'second:0' on": tf.ones([2], "int32" if rank else "float32"),
        }
        for words, value in cases.items():
            variables = [first, tf.Variable(value, name="second")]
            with self.assertRaisesRegex(hvd.MismatchError, words):
                broadcasts.broadcast_variables(variables, 0)
            with self.assertRaisesRegex(tf.errors.OpError, "status=MISMATCH.*number 1"):
                tf.function(lambda: broadcasts.broadcast_(variables, 0))()  # noqa: B023
        own = [first] * (rank + 1) if rank < 2 else []
        words = f"gives {rank + 1} variables: first:0" if own else "gives no variables: build"
        with self.assertRaisesRegex(hvd.MismatchError, words):
            broadcasts.broadcast_variables(own, 0)
        broadcasts.broadcast_variables([first], 0)

    def test_among_some_ranks(self) -> None:
        if hvd.size() == 2:
            self.skipTest("two ranks have no smaller set")
        some = add_process_set([0, last_rank()])
        if some.included():
            variables = many(hvd.rank())
            broadcasts.broadcast_variables(variables, last_rank(), some)
            self.check(variables, last_rank())
        barrier()
        remove_process_set(some)

    def test_what_is_no_variable(self) -> None:
        for wrong in (1.0, tf.ones(2)):
            with self.assertRaisesRegex(ValueError, "is not a variable of TensorFlow"):
                broadcasts.broadcast_variables([wrong], 0)
        with self.assertRaisesRegex(RuntimeError, r"broadcast_variables\(model.variables"):
            broadcasts.broadcast_global_variables(0)
        with self.assertRaisesRegex(RuntimeError, "is eager"):
            tf.function(lambda: broadcasts.broadcast_global_variables(0))()


class Hook(unittest.TestCase):
    def train(self, hook, steps: int, folder: str | None) -> tuple[int, np.ndarray]:
        """Step and weights when the session has begun; then trains."""
        with tf.Graph().as_default():
            weights = v1.get_variable(
                "weights", [2], initializer=v1.constant_initializer(hvd.rank())
            )
            step = v1.train.get_or_create_global_step()
            loss = tf.reduce_sum((weights - 10.0) ** 2)
            train = v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss, global_step=step)
            with v1.train.MonitoredTrainingSession(
                hooks=[hook],
                checkpoint_dir=folder,
                save_checkpoint_steps=1,
                save_checkpoint_secs=None,
                save_summaries_steps=None,
                log_step_count_steps=None,
            ) as session:
                found = session.run([step, weights])
                for _ in range(steps):
                    session.run(train)
        return found

    def test_ranks_begin_as_the_root(self) -> None:
        hook = BroadcastGlobalVariablesHook(last_rank(), device="/cpu:0")
        for _ in range(2):
            step, weights = self.train(hook, 1, None)
            self.assertEqual((step, weights.tolist()), (0, [last_rank()] * 2))

    def test_a_checkpoint_of_rank_0_is_restored_everywhere(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            mine = folder if hvd.rank() == 0 else None
            self.train(BroadcastGlobalVariablesHook(0), 3, mine)
            step, weights = self.train(BroadcastGlobalVariablesHook(0), 0, mine)
        self.assertEqual(step, 3)
        every = objects.allgather_object(weights.tolist())
        self.assertEqual(every, every[:1] * hvd.size())
        self.assertGreater(weights[0], 1)


class Objects(unittest.TestCase):
    def test_they_travel(self) -> None:
        mine = {"rank": hvd.rank()}
        last = {"rank": last_rank()}
        self.assertEqual(ours.broadcast_object(mine, last_rank(), session=object()), last)
        self.assertEqual(ours.broadcast_object_fn(last_rank(), name="it")(mine), last)
        every = [{"rank": rank} for rank in range(hvd.size())]
        self.assertEqual(ours.allgather_object(mine, None, "them"), every)


class Variables(unittest.TestCase):
    def test_eager(self) -> None:
        variables = many(hvd.rank())
        kept = elastic.TensorFlowState(variables, seen=[hvd.rank()])
        clear(variables)
        kept.seen.append(7)
        kept.restore()
        Broadcast.check(self, variables, hvd.rank())
        self.assertEqual(kept.seen, [hvd.rank()])
        clear(variables)
        kept.restore()
        kept.sync()
        clear(variables)
        kept.restore()
        Broadcast.check(self, variables, 0)
        self.assertEqual(kept.seen, [0])
        with self.assertRaisesRegex(ValueError, "TensorFlowState: give the variables"):
            elastic.TensorFlowState(epoch=0)

    def test_session(self) -> None:
        with tf.Graph().as_default():
            made = both_kinds([2])
            cleared = [one.assign([0.0, 0.0]) for one in made]
            wrong = v1.Variable(tf.ones([1 + hvd.rank()]), name="wrong")
            with v1.train.MonitoredSession() as session:
                kept = elastic.TensorFlowState(made, session, step=hvd.rank())
                for expected in (hvd.rank(), 0):
                    session.run(cleared)
                    kept.restore()
                    self.assertEqual(kept.step, expected)
                    for value in session.run(made):
                        self.assertEqual(value.tolist(), [1.0 + expected] * 2)
                    kept.sync()
                self.check_others(session, [wrong], "variable 0, 'wrong:0' here, has the shape")
                self.check_others(session, made[: 1 + hvd.rank()], "2 variables here, 1 on rank 0")

    def test_variables_that_one_tensor_initializes(self) -> None:
        with tf.Graph().as_default():
            first = tf.zeros([1])
            made = [v1.Variable(first, use_resource=use) for use in (True, False, True)]
            changed = [one.assign([place + 1.0]) for place, one in enumerate(made)]
            cleared = [one.assign([0.0]) for one in made]
            with v1.train.MonitoredSession() as session:
                session.run(changed)
                kept = elastic.TensorFlowState(made, session)
                for act in (kept.restore, kept.sync):
                    if hvd.rank() != 0 or act == kept.restore:
                        session.run(cleared)
                    act()
                    self.assertEqual([one.tolist() for one in session.run(made)], [[1], [2], [3]])

    def check_others(self, session, others, words) -> None:
        kept = elastic.TensorFlowState(others, session)
        if hvd.rank() == 0:
            kept.sync()
            return
        with self.assertRaisesRegex(hvd.MismatchError, words):
            kept.sync()


def clear(variables) -> None:
    for variable in variables:
        variable.assign(tf.zeros_like(variable))


class Averaging(keras.Sequential):
    """A model that averages its gradients over all ranks itself."""

    def train_step(self, data):
        given, target = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(given, target, self(given, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        mean = [
            submission.submit(Work(_lib.ALLREDUCE, f"gradient.{place}", Average), [gradient])[0]
            for place, gradient in enumerate(gradients)
        ]
        self.optimizer.apply(mean, self.trainable_variables)
        return {"loss": loss}


def averaging(seed: int) -> Averaging:
    keras.utils.set_random_seed(seed)
    return Averaging(
        [keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dropout(0.5), keras.layers.Dense(1)]
    )


class Keras(unittest.TestCase):
    def values(self, model, optimizer) -> list[np.ndarray]:
        return [one.numpy() for one in [*model.variables, *optimizer.variables]]

    def test_save_restore_and_sync(self) -> None:
        model, optimizer = averaging(hvd.rank()), keras.optimizers.Adam(0.1 * (hvd.rank() + 1))
        kept = elastic.TensorFlowKerasState(model, optimizer, backend=None, epoch=hvd.rank())
        self.assertTrue(optimizer.built)
        before = self.values(model, optimizer)
        for place, variable in enumerate([*model.variables, *optimizer.variables]):
            variable.assign(variable + place)
        kept.epoch += 1
        kept.restore()
        for one, other in zip(before, self.values(model, optimizer)):
            np.testing.assert_array_equal(one, other)
        kept.sync()
        self.assertEqual(kept.epoch, 0)
        self.assertAlmostEqual(float(optimizer.learning_rate), 0.1)
        every = objects.allgather_object([one.numpy() for one in model.weights])
        for one, other in zip(every[0], every[-1]):
            np.testing.assert_array_equal(one, other)
        (seed,) = [one for one in model.variables if "seed" in one.path]
        seeds = objects.allgather_object(int(seed.numpy()[0]))
        self.assertEqual(len(set(seeds)), hvd.size())

    def test_a_scaled_optimizer_of_compile(self) -> None:
        model, inner = averaging(0), keras.optimizers.SGD(0.1, momentum=0.9)
        scaled = keras.optimizers.LossScaleOptimizer(inner, initial_scale=8.0)
        model.compile(scaled, "mse")
        kept = elastic.TensorFlowKerasState(model, inner)
        scaled.dynamic_scale.assign(2.0)
        inner.iterations.assign(5)
        kept.restore()
        self.assertEqual((float(scaled.dynamic_scale), int(inner.iterations)), (8.0, 0))

    def test_one_that_is_not_built(self) -> None:
        with self.assertRaisesRegex(ValueError, "has no variables yet: call it on a batch"):
            elastic.TensorFlowKerasState(keras.Sequential([keras.layers.Dense(1)]))


class Fails(keras.callbacks.Callback):
    """Ends the job on the last rank, once, after some steps of it."""

    def __init__(self, until: int) -> None:
        super().__init__()
        self.until = until

    def on_train_batch_begin(self, batch, logs=None) -> None:
        self.until -= 1
        if self.until == 0 and hvd.rank() == last_rank():
            api.abort("on purpose")


class Run(unittest.TestCase):
    def fit(self, fails: int) -> tuple[list, list[int]]:
        model = averaging(1)
        model.pop()
        model.pop()  # no dropout: what is gone back from draws other masks
        model.compile(keras.optimizers.Adam(0.05), "mse", jit_compile=False)
        given = np.random.default_rng(hvd.rank()).random((8, 3)).astype("float32")
        callback, epochs = Fails(fails), []

        @elastic.run
        def train(kept):
            while kept.epoch < 3:
                epochs.append(kept.epoch)
                model.fit(given, given[:, :1], batch_size=2, verbose=0, callbacks=[callback])
                kept.epoch += 1
                kept.commit()
            return [one.numpy() for one in kept.model.variables + model.optimizer.variables]

        return train(elastic.TensorFlowKerasState(model, epoch=0)), epochs

    def test_a_failure_in_fit_leaves_no_trace(self) -> None:
        undisturbed, epochs = self.fit(0)
        self.assertEqual(epochs, [0, 1, 2])
        disturbed, epochs = self.fit(7)
        self.assertEqual(epochs, [0, 1, 1, 2])
        for one, other in zip(undisturbed, disturbed):
            np.testing.assert_array_equal(one, other)

    def test_a_failure_in_a_function_and_in_a_session(self) -> None:
        with tf.Graph().as_default(), v1.Session() as session:
            weights = v1.get_variable("weights", [2], initializer=v1.zeros_initializer())
            work = Work(_lib.ALLREDUCE, "of.session", Average)
            step = weights.assign_add(submission.submit(work, [tf.ones(2)])[0])
            session.run(weights.initializer)
            kept = elastic.TensorFlowState(session=session, step=0)
            self.check_steps(kept, lambda: session.run(step))
            self.assertEqual(session.run(weights).tolist(), [6.0, 6.0])
        variable = tf.Variable(tf.zeros(2))

        @tf.function
        def add():
            work = Work(_lib.ALLREDUCE, "of.function", Average)
            variable.assign_add(submission.submit(work, [tf.ones(2)])[0])

        self.check_steps(elastic.TensorFlowState([variable], step=0), add)
        self.assertEqual(variable.numpy().tolist(), [6.0, 6.0])

    def check_steps(self, kept, step) -> None:
        tries = []

        @elastic.run(reset_limit=1)
        def train(kept):
            tries.append(kept.step)
            while kept.step < 6:
                if kept.step == 4 and len(tries) == 1 and hvd.rank() == last_rank():
                    api.abort("on purpose")
                step()
                kept.step += 1
                if kept.step == 3:
                    kept.commit()

        train(kept)
        self.assertEqual(tries, [0, 3])

    def test_a_wrong_program_is_no_failure_of_the_job(self) -> None:
        @elastic.run
        def train(kept):
            tf.function(
                lambda: submission.submit(
                    Work(_lib.ALLREDUCE, "wrong", Average), [tf.ones([1 + hvd.rank()])]
                )
            )()

        with self.assertRaisesRegex(hvd.MismatchError, "'wrong': ranks disagree") as caught:
            train(elastic.ObjectState())
        self.assertIsInstance(caught.exception.__cause__, tf.errors.OpError)
        barrier()


if __name__ == "__main__":
    unittest.main(verbosity=2)
