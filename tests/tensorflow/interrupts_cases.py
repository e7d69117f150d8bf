# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C while TensorFlow waits for another rank, run by each rank."""

from __future__ import annotations

import os
import signal
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
from hvd._core import _lib
from hvd.tensorflow import interrupts, library

v1 = tf.compat.v1
CALLS = _lib.PluginCalls(library.plugin_path())
# Longer than what waits is let alone after a Ctrl-C.
LONG_SECONDS = 2.0
# What began so short before a Ctrl-C is taken for begun after it.
SHORT_SECONDS = 0.4
DEADLINE_SECONDS = 60.0


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


def waits() -> bool:
    begun, ended = CALLS.now()
    return begun > ended


class Meanwhile(threading.Thread):
    """Acts once an operation of this rank waits."""

    def __init__(self, act: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self.act = act
        self.acted_at = 0.0
        self.start()

    def run(self) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not waits() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(SHORT_SECONDS)
        self.acted_at = time.monotonic()
        self.act()


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def eager() -> None:
    ht.allreduce(tf.ones(2), name="only on rank 0")


def function() -> None:
    tf.function(lambda: ht.allreduce(tf.ones(2), name="only on rank 0"))()


def session() -> None:
    with tf.Graph().as_default(), v1.Session() as running:
        running.run(ht.allreduce(tf.ones(2), name="only on rank 0"))


def fit() -> None:
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
    model.compile(hk.DistributedOptimizer(keras.optimizers.SGD()), "mse")
    model.fit(np.ones((8, 2)), np.ones((8, 1)), verbose=0)


class ControlC(unittest.TestCase):
    def test_ends_a_wait_and_names_the_rank(self) -> None:
        for way in (eager, function, session, fit):
            with self.subTest(way.__name__):
                if ht.rank() == 0:
                    self.check_interrupted(way)
                else:
                    with self.assertRaises(hvd.PeerLostError) as caught:
                        ht.allreduce(tf.ones(2), name="only on the others")
                    self.assertRegex(str(caught.exception), "rank 0 .*interrupted.*Ctrl-C")
                # The process can go on, too.
                ht.shutdown()
                ht.init()
                self.assertEqual(ht.allreduce(tf.ones(1), op=ht.Sum).numpy()[0], ht.size())

    def check_interrupted(self, way: Callable[[], None]) -> None:
        other = Meanwhile(interrupt)
        with self.assertRaises(KeyboardInterrupt) as caught:
            way()
        after = time.monotonic() - other.acted_at
        print(f"{way.__name__}: KeyboardInterrupt after {after:.2f} s", flush=True)
        self.assertLess(after, 10)
        # What failed meanwhile can be shown, too.
        behind = caught.exception.__context__
        while behind is not None:
            self.assertIn("interrupted", str(behind))
            behind = behind.__context__

    def test_outside_of_a_wait_leaves_the_job_alone(self) -> None:
        if ht.rank() == 0:
            with self.assertRaises(KeyboardInterrupt):
                interrupt()
                time.sleep(DEADLINE_SECONDS)
            # This wait was begun knowingly.
            self.assertEqual(ht.allreduce(tf.ones(1), op=ht.Sum).numpy()[0], ht.size())
        else:
            time.sleep(LONG_SECONDS)
            ht.allreduce(tf.ones(1), op=ht.Sum)

    def test_with_a_handler_of_ones_own_means_what_that_does(self) -> None:
        if ht.rank() != 0:
            hvd.barrier()
            time.sleep(LONG_SECONDS)
            ht.allreduce(tf.ones(1), name="late")
            return
        noted = []
        before = signal.signal(signal.SIGINT, lambda number, frame: noted.append(number))
        try:
            hvd.barrier()
            Meanwhile(interrupt)
            self.assertEqual(ht.allreduce(tf.ones(1), name="late").numpy()[0], 1)
        finally:
            signal.signal(signal.SIGINT, before)
        self.assertEqual(noted, [signal.SIGINT])

    def test_of_a_child_is_the_childs(self) -> None:
        hvd.barrier()
        if ht.rank() != 0:
            time.sleep(LONG_SECONDS)
            ht.allreduce(tf.ones(1), name="late")
            return
        ready, go = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.read(ready, 1)
                interrupt()
                time.sleep(DEADLINE_SECONDS)
            except KeyboardInterrupt:
                os._exit(3)
            os._exit(4)
        Meanwhile(lambda: os.write(go, b"."))
        self.assertEqual(ht.allreduce(tf.ones(1), name="late").numpy()[0], 1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 3)


class Watch(unittest.TestCase):
    def setUp(self) -> None:
        self.ours, interrupts._watched = interrupts._watched, -1
        self.threads = threading.active_count()

    def tearDown(self) -> None:
        interrupts._watched = self.ours
        signal.set_wakeup_fd(self.ours, warn_on_full_buffer=False)

    def check_nothing_began(self) -> None:
        self.assertEqual(interrupts._watched, -1)
        self.assertEqual(threading.active_count(), self.threads)

    def test_leaves_what_others_use(self) -> None:
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end)
        interrupts.watch(CALLS)
        self.check_nothing_began()
        self.assertEqual(signal.set_wakeup_fd(-1), write_end)
        os.close(read_end)
        os.close(write_end)

    def test_needs_the_main_thread_and_its_handler(self) -> None:
        signal.set_wakeup_fd(-1)
        thread = threading.Thread(target=interrupts.watch, args=[CALLS])
        thread.start()
        thread.join()
        self.check_nothing_began()
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            interrupts.watch(CALLS)
        finally:
            signal.signal(signal.SIGINT, before)
        self.check_nothing_began()


if __name__ == "__main__":
    unittest.main(verbosity=2)
