# SPDX-License-Identifier: Apache-2.0
"""Ranks that disagree, and life after an error, in every way that TensorFlow runs, by each rank."""

from __future__ import annotations

import logging
import threading
import time
import unittest
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import hvd
import hvd.keras as hk
import hvd.tensorflow as ht
from hvd._core import _lib, api
from hvd.tensorflow import errors, library
from hvd.tensorflow.elastic import TensorFlowState

v1 = tf.compat.v1
CALLS = _lib.PluginCalls(library.plugin_path())


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    logging.getLogger("hvd.elastic").setLevel(logging.ERROR)
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


def differing(rank: int) -> dict[str, tuple[Callable[[], Any], str]]:
    """What each rank does, by what is wrong with it; and what the sentence has of it."""
    odd = rank == ht.size() - 1
    wide = tf.ones([2, 3 if odd else 2])
    return {
        "shape": (
            lambda: ht.allreduce(wide, name="shape"),
            r"the shape: .*\[2, [23]\].*\[2, [23]\]",
        ),
        "columns": (
            lambda: ht.allgather(wide, name="columns"),
            r"rows of shape \[[23]\].*rows of shape \[[23]\]",
        ),
        "dimensions": (
            lambda: ht.allreduce(tf.ones([4] if odd else [2, 2]), name="dimensions"),
            r"the shape: .*(\[4\].*\[2, 2\]|\[2, 2\].*\[4\])",
        ),
        "type": (
            lambda: ht.allreduce(tf.ones(2, tf.int32 if odd else tf.float32), name="type"),
            "type.*(int32.*float32|float32.*int32)",
        ),
        "reduction": (
            lambda: ht.allreduce(tf.ones(2), op=ht.Max if odd else ht.Sum, name="reduction"),
            "(max.*sum|sum.*max)",
        ),
        "root": (lambda: ht.broadcast(tf.ones(2), int(odd), name="root"), "root.*[01].*[01]"),
        "operation": (
            lambda: (
                ht.allgather(tf.ones(2), name="operation")
                if odd
                else ht.allreduce(tf.ones(2), name="operation")
            ),
            "(allgather.*allreduce|allreduce.*allgather)",
        ),
        "scale": (
            lambda: ht.allreduce(tf.ones(2), prescale_factor=1.0 + odd, name="scale"),
            "scale.*[12]",
        ),
        "group": (
            lambda: ht.grouped_allreduce([tf.ones(2)] * (1 + odd), name="group"),
            "the number of tensors",
        ),
    }


def in_session(call: Callable[[], Any]) -> Any:
    with tf.Graph().as_default(), v1.Session() as session:
        return session.run(call())


WAYS: dict[str, Callable[[Callable[[], Any]], Any]] = {
    "eager": lambda call: call(),
    "function": lambda call: tf.function(call)(),
    "session": in_session,
}


class Disagreements(unittest.TestCase):
    def check_error(self, way: str, name: str, words: str, call: Callable[[], Any]) -> None:
        with self.assertRaises(tf.errors.FailedPreconditionError) as raw:
            WAYS[way](call)
        self.assertEqual(isinstance(raw.exception, hvd.HvdError), way == "eager")
        with self.assertRaises(hvd.MismatchError) as caught, errors.translated():
            WAYS[way](call)
        found = caught.exception
        self.assertIsInstance(found, tf.errors.FailedPreconditionError)
        self.assertRegex(str(found), f"^tensor '{name}'.*: ranks disagree.*{words}")
        self.assertRegex(str(found), "ranks? 0")
        self.assertIn(f"rank {ht.size() - 1}", str(found))
        self.assertNotIn("\n", str(found))
        self.assertEqual(found.experimental_payloads, {b"type.hvd/status": b"MISMATCH"})
        if way != "session":
            self.assertEqual(raw.exception.experimental_payloads, found.experimental_payloads)

    def test_every_rank_is_told_which_and_may_go_on(self) -> None:
        for way in WAYS:
            for name in differing(0):
                with self.subTest(way=way, wrong=name):

                    def call(name: str = name) -> Any:
                        return differing(ht.rank())[name][0]()

                    self.check_error(way, name, differing(0)[name][1], call)
                    right = WAYS[way](lambda: ht.allreduce(tf.ones(2), op=ht.Sum, name="right"))
                    self.assertEqual(np.array(right).tolist(), [ht.size()] * 2)

    def test_one_of_many_in_a_function(self) -> None:
        @tf.function
        def step(odd: tf.Tensor) -> list[tf.Tensor]:
            names = [f"even.{number}" for number in range(8)]
            even = [ht.allreduce(tf.ones(3), name=name) for name in names]
            return [ht.allreduce(odd, name="odd"), *even]

        for _ in range(3):
            with self.assertRaisesRegex(hvd.MismatchError, "'odd'"), errors.translated():
                step(tf.ones(1 + ht.rank()))
            for value in step(tf.ones(5)):
                self.assertTrue(np.all(value.numpy() == 1))

    def test_models_that_differ(self) -> None:
        def fit(width: int) -> None:
            model = keras.Sequential([keras.Input([2]), keras.layers.Dense(width)])
            model.compile(hk.DistributedOptimizer(keras.optimizers.SGD(0.1)), "mse")
            model.fit(np.ones((4, 2)), np.ones((4, width)), verbose=0)

        with self.assertRaises(tf.errors.FailedPreconditionError) as raw:
            fit(3 + ht.rank())
        found = errors.of(raw.exception)
        self.assertIsInstance(found, hvd.MismatchError)
        self.assertRegex(str(found), r"'optimizer[.0-9]*\.gradient\.\d'.*ranks disagree.*shape")
        fit(3)


class Elastic(unittest.TestCase):
    """``hvd.elastic.run`` itself, which imports no TensorFlow."""

    def test_goes_back_after_an_error_in_a_function(self) -> None:
        weights = tf.Variable(tf.zeros(2))
        kept, begun = TensorFlowState([weights], step=0), []

        @tf.function
        def step() -> None:
            weights.assign_add(ht.allreduce(tf.ones(2), name="step"))

        @hvd.elastic.run
        def train(kept: Any) -> None:
            begun.append(kept.step)
            while kept.step < 6:
                if kept.step == 4 and len(begun) == 1 and ht.rank() == 1:
                    api.abort("on purpose")
                step()
                kept.step += 1
                if kept.step == 3:
                    kept.commit()

        train(kept)
        self.assertEqual(begun, [0, 3])
        self.assertEqual(weights.numpy().tolist(), [6.0, 6.0])

    def test_lets_the_errors_of_a_program_pass(self) -> None:
        tries = []

        @hvd.elastic.run
        def train(kept: Any) -> None:
            tries.append(1)
            tf.function(lambda: ht.allreduce(tf.ones(1 + ht.rank()), name="wrong"))()

        with self.assertRaisesRegex(tf.errors.FailedPreconditionError, "status=MISMATCH"):
            train(hvd.elastic.ObjectState())
        with self.assertRaises(ZeroDivisionError):
            hvd.elastic.run(lambda kept: 1 // 0)(hvd.elastic.ObjectState())
        self.assertEqual(len(tries), 1)


class Shutdown(unittest.TestCase):
    def tearDown(self) -> None:
        ht.init()

    def test_what_waits_fails(self) -> None:
        met: list[BaseException] = []
        alone = f"only on {ht.rank()}"

        def wait(call: Callable[[], Any]) -> None:
            try:
                call()
            except tf.errors.OpError as error:
                met.append(error)

        calls = [
            lambda: ht.allreduce(tf.ones(2), name=alone),
            tf.function(lambda: ht.allreduce(tf.ones(2), name=f"{alone}, too")),
        ]
        before, deadline = CALLS.now()[0], time.monotonic() + 60
        threads = [threading.Thread(target=wait, args=[call]) for call in calls]
        for thread in threads:
            thread.start()
        while CALLS.now()[0] < before + len(calls) and time.monotonic() < deadline:
            time.sleep(0.01)
        ht.shutdown()
        for thread in threads:
            thread.join(60)
            self.assertFalse(thread.is_alive())
        self.assertEqual(len(met), 2)
        for error in met:
            self.assertIsInstance(errors.of(error), (hvd.AbortedError, hvd.PeerLostError))
        self.assertEqual(tf.function(lambda: tf.ones(2) + 1)().numpy().tolist(), [2.0, 2.0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
