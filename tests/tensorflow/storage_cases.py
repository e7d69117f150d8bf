# SPDX-License-Identifier: Apache-2.0
"""What is on its way keeps its memory, whatever becomes of the variable or array that it came from.

Each rank gives vectors of one number; a sum over ranks that has two numbers in it has read memory
that was overwritten or given away meanwhile.
"""

from __future__ import annotations

import gc
import random
import threading
import unittest
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import hvd.tensorflow as ht

COUNT = 200_003  # large enough to be under way for a while
STEPS = 40


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


class Storage(unittest.TestCase):
    def setUp(self) -> None:
        self.random = random.Random(ht.rank())

    def check(self, *results: Any) -> None:
        for result in results:
            values = np.asarray(result)
            self.assertEqual(values.min(), values.max())
            self.assertEqual(values[0], round(float(values[0])), "no sum of whole numbers")

    def number(self) -> float:
        return float(self.random.randrange(1, 1000))

    def while_changing(self, change: Callable[[], None], act: Callable[[int], None]) -> None:
        """Runs all steps while another thread changes things; its failure counts, too."""
        over, failures = threading.Event(), []

        def changes() -> None:
            try:
                while not over.is_set():
                    change()
            except BaseException as error:  # noqa: BLE001 (handed on)
                failures.append(error)

        thread = threading.Thread(target=changes)
        thread.start()
        try:
            for step in range(STEPS):
                act(step)
        finally:
            over.set()
            thread.join()
        self.assertEqual(failures, [])

    def test_variables_that_are_assigned_by_another_thread(self) -> None:
        variable = tf.Variable(tf.ones([COUNT]))

        def change() -> None:
            kind = self.random.randrange(4)
            if kind == 0:
                variable.assign(tf.fill([COUNT], self.number()))
            elif kind == 1:
                variable.assign_add(tf.fill([COUNT], self.number()))
            elif kind == 2:
                variable.assign(tf.constant(np.full(COUNT, self.number(), np.float32)))
            else:
                variable.assign(variable * 0.0)

        def act(step: int) -> None:
            self.check(ht.allreduce(variable, op=ht.Sum, name=f"assigned.{step % 2}"))
            self.check(ht.allgather(variable[:64], name="rows").numpy()[:64])

        self.while_changing(change, act)

    def test_variables_that_are_made_and_dropped(self) -> None:
        """The only reference to a tensor is the operation's; memory of its size is asked for."""
        kept: list[Any] = []

        def change() -> None:
            kept.append(tf.Variable(tf.fill([COUNT], self.number())))
            del kept[: self.random.randrange(3)]
            gc.collect(0)

        def act(step: int) -> None:
            group = [tf.fill([COUNT], self.number()) for _ in range(3)]
            self.check(*ht.grouped_allreduce(group, op=ht.Sum, name=f"made.{step % 2}"))

        self.while_changing(change, act)

    def test_arrays_behind_tensors(self) -> None:
        """TensorFlow may take the memory of an array; the array may be dropped, not changed."""
        arrays: list[np.ndarray] = []

        def act(step: int) -> None:
            array = np.full(COUNT, self.number(), np.float32)
            tensors = [tf.convert_to_tensor(array), tf.convert_to_tensor(array[1:])]
            view = tensors[0].numpy()
            del array
            self.check(*ht.grouped_allreduce(tensors, op=ht.Sum, name=f"array.{step % 2}"))
            self.check(view)

        def change() -> None:
            arrays.append(np.full(COUNT, 0.5, np.float32))
            del arrays[: self.random.randrange(3)]

        self.while_changing(change, act)

    def test_a_function_that_goes_on_to_assign(self) -> None:
        """Nothing orders an assignment after the operation that has read before it."""
        variables = [tf.Variable(tf.ones([COUNT])) for _ in range(3)]

        @tf.function
        def step(addend: tf.Tensor) -> list[tf.Tensor]:
            totals = [ht.allreduce(one, op=ht.Sum) for one in variables]
            for one in variables:
                one.assign_add(tf.fill([COUNT], addend))
            again = [ht.allreduce(one, op=ht.Sum) for one in variables]
            for one in variables:
                one.assign(tf.fill([COUNT], addend))
            return totals + again

        expected = float(ht.size())
        for number in range(STEPS):
            for place, total in enumerate(step(tf.constant(float(number)))):
                self.check(total)
                self.assertEqual(total[0], expected + ht.size() * number * (place > 2))
            expected = float(ht.size() * number)

    def test_a_session_that_assigns_meanwhile(self) -> None:
        with tf.Graph().as_default():
            variable = tf.compat.v1.get_variable(
                "v", initializer=tf.ones([COUNT]), use_resource=True
            )
            given = tf.compat.v1.placeholder(tf.float32, [])
            kinds = [
                variable.assign(tf.fill([COUNT], given)).op,
                variable.assign_add(tf.fill([COUNT], given)).op,
            ]
            total = ht.allreduce(variable, op=ht.Sum)
            with tf.compat.v1.Session() as session:
                session.run(variable.initializer)
                self.while_changing(
                    lambda: session.run(self.random.choice(kinds), {given: self.number()}),
                    lambda step: self.check(session.run(total)),
                )

    def test_operations_that_run_later(self) -> None:
        """With asynchronous execution the call returns before the operation has begun."""
        tf.config.experimental.set_synchronous_execution(False)
        try:
            variable, results = tf.Variable(tf.ones([COUNT])), []
            for number in range(STEPS):
                results.append(ht.allreduce(variable, op=ht.Sum, name=f"later.{number % 4}"))
                variable.assign_add(tf.ones([COUNT]))
                loose = tf.fill([COUNT], self.number())
                results.append(ht.allreduce(loose, op=ht.Sum, name=f"loose.{number % 4}"))
                del loose
            for place, result in enumerate(results):
                self.check(result)
                if place % 2 == 0:
                    self.assertEqual(result[0], ht.size() * (1 + place // 2))
        finally:
            tf.config.experimental.set_synchronous_execution(True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
