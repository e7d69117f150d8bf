# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over all ranks against that of Keras over the whole batch, run by each rank."""

from __future__ import annotations

import itertools
import tempfile
import unittest

import keras
import numpy as np
import tensorflow as tf

import hvd
from hvd import objects
from hvd.tensorflow.sync_batch_norm import SyncBatchNormalization

CHANNELS = 3


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    hvd.init()


def tearDownModule() -> None:  # noqa: N802
    hvd.shutdown()


def total(value) -> np.ndarray:
    return sum(objects.allgather_object(np.asarray(value, "float64")))


def whole_batch(sizes, extents, axis, dtype="float64", seed=0) -> np.ndarray:
    shape = [sum(sizes), *extents, CHANNELS]
    whole = 5 + 3 * np.random.default_rng(seed).standard_normal(shape)
    return np.moveaxis(whole, -1, axis).astype(dtype)


def own(whole, sizes) -> tf.Tensor:
    return tf.constant(np.split(whole, np.cumsum(sizes)[:-1])[hvd.rank()])


def layers(shape, **options) -> list:
    """Ours and Keras', with equal weights."""
    pair = []
    for kind in (SyncBatchNormalization, keras.layers.BatchNormalization):
        layer = kind(momentum=0.9, **options)
        layer.build((None, *shape[1:]))
        for weight, value in ((layer.gamma, [0.5, 2.0, -1.0]), (layer.beta, [0.0, 1.0, 3.0])):
            if weight is not None:
                weight.assign(value)
        pair.append(layer)
    return pair


class Layer(unittest.TestCase):
    def near(self, mine, theirs, tolerance=1e-9) -> None:
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)

    def test_is_that_of_keras_over_the_whole_batch(self) -> None:
        size = hvd.size()
        several = [[3] * size, list(range(2, size + 2)), [5] + [0] * (size - 1)]
        shapes = [((), -1), ((4,), -1), ((2, 3), -1), ((2, 3), 1)]
        for sizes, (extents, axis) in itertools.product(several, shapes):
            with self.subTest(sizes=sizes, extents=extents, axis=axis):
                self.check_steps(sizes, extents, axis)
        for chosen in ({"scale": False}, {"center": False}, {"epsilon": 0.1}):
            with self.subTest(**chosen):
                self.check_steps(several[1], (2,), -1, **chosen)

    def test_in_a_function(self) -> None:
        for sizes in ([3] * hvd.size(), [0] * (hvd.size() - 1) + [5]):
            with self.subTest(sizes=sizes):
                self.check_steps(sizes, (2, 3), 1, tf.function, "float32", 1e-5)

    def check_steps(
        self, sizes, extents, axis, mode=lambda step: step, dtype="float64", near=1e-9, **options
    ) -> None:
        wholes = [whole_batch(sizes, extents, axis, dtype, step) for step in range(2)]
        ours, theirs = layers(wholes[0].shape, axis=axis, dtype=dtype, **options)
        mine, full = mode(training_step(ours)), training_step(theirs)
        for whole in wholes:
            pull = np.linspace(-1, 2, whole.size).reshape(whole.shape).astype(dtype)
            output, of_input, of_weights = mine(own(whole, sizes), own(pull, sizes))
            expected = full(tf.constant(whole), tf.constant(pull))
            self.near(output, own(expected[0].numpy(), sizes), near)
            self.near(of_input, own(expected[1].numpy(), sizes), 30 * near)
            for one, other in zip(of_weights, expected[2]):
                self.near(total(one), other, 30 * near)
        self.near(ours.moving_mean, theirs.moving_mean, near)
        self.near(ours.moving_variance, theirs.moving_variance, near)
        self.near(ours(whole), theirs(whole), near)  # inference

    def test_masked_places_do_not_count(self) -> None:
        sizes = list(range(1, hvd.size() + 1))
        whole = whole_batch(sizes, (4,), -1)
        mask = np.random.default_rng(1).random(whole.shape[:2]) < 0.5
        mask[0] = False  # all of rank 0
        ours, theirs = layers(whole.shape, dtype="float64")
        with tf.GradientTape() as tape:
            mine = own(whole, sizes)
            tape.watch(mine)
            output = ours(mine, training=True, mask=own(mask, sizes))
            loss = tf.reduce_sum(output**3)
        with tf.GradientTape() as full_tape:
            given = tf.constant(whole)
            full_tape.watch(given)
            expected = theirs(given, training=True, mask=tf.constant(mask))
            full_loss = tf.reduce_sum(expected**3)
        # Keras adds 1e-7 to the number of values.
        self.near(output, own(expected.numpy(), sizes), 1e-6)
        gradient = full_tape.gradient(full_loss, given).numpy()
        self.near(tape.gradient(loss, mine), own(gradient, sizes), 1e-4)
        self.near(ours.moving_variance, theirs.moving_variance, 1e-6)

    def test_a_second_derivative(self) -> None:
        sizes = [2] * hvd.size()
        whole = whole_batch(sizes, (), -1)
        ours, theirs = layers(whole.shape, dtype="float64")
        found = []
        for layer, given in ((ours, own(whole, sizes)), (theirs, tf.constant(whole))):
            with tf.GradientTape() as outer:
                outer.watch(given)
                with tf.GradientTape() as inner:
                    inner.watch(given)
                    loss = tf.reduce_sum(layer(given, training=True) ** 4)
                slope = tf.reduce_sum(inner.gradient(loss, given) ** 2)
            found.append(outer.gradient(slope, given).numpy())
        self.near(found[0], own(found[1], sizes), 1e-6)

    def test_far_from_zero_in_half_precision(self) -> None:
        sizes = [64] * hvd.size()
        whole = (whole_batch(sizes, (), -1) + 500).astype("float16")
        ours, theirs = layers(whole.shape, dtype="mixed_float16")
        output = ours(own(whole, sizes), training=True)
        self.assertEqual(output.dtype, tf.float16)
        expected = theirs(tf.constant(whole), training=True).numpy()
        self.near(output, own(expected, sizes), 2e-3)
        self.assertEqual(ours.moving_mean.dtype, "float32")

    def test_far_from_zero(self) -> None:
        """Against float128: the error is that of the type, times the offset where Keras adds it."""
        sizes = list(range(5, hvd.size() + 5))
        near = {"float64": 1e-14, "float32": 5e-7, "mixed_float16": 1e-3, "mixed_bfloat16": 1e-2}
        for kind, offset in itertools.product(near, (0.0, 1e3, -1e6)):
            if (
                kind.startswith("mixed") and abs(offset) > 1e4
            ):  # no half type has such numbers apart
                continue
            for mode in (lambda step: step, tf.function):
                with self.subTest(kind=kind, offset=offset, mode=mode):
                    self.check_far(sizes, kind, offset, near[kind], mode)

    def check_far(self, sizes, kind, offset, near, mode) -> None:
        narrow = tf.as_dtype(kind.replace("mixed_", "")).as_numpy_dtype
        whole = ((whole_batch(sizes, (4,), -1) - 5) * 64 + offset).astype(narrow)
        pull = np.linspace(-1, 2, whole.size).reshape(whole.shape).astype(narrow)
        ours, _ = layers(whole.shape, dtype=kind)
        output, of_input, of_weights = mode(training_step(ours))(
            own(whole, sizes), own(pull, sizes)
        )
        expected = wide_step(whole, pull, ours.epsilon, rounded=narrow)
        # Keras' own formula is x / s - (m / s), in float32 for what is narrower.
        far = (1 + abs(offset) / 64) * (near if kind == "float64" else 3e-7)
        near = max(near, far)
        self.near(output, own(expected[0], sizes), near)
        scale = np.abs(expected[1]).max()
        self.near(of_input / scale, own(expected[1] / scale, sizes), 4 * near)
        for one, other in zip(of_weights, expected[2]):
            scale = np.abs(other).max() + whole.size
            self.near(total(one) / scale, other / scale, 4 * near)
        precise = 1e-12 if kind == "float64" else 2e-6
        mean, variance = expected[3]
        scale = 1 + abs(offset)
        self.near(ours.moving_mean.numpy() / scale, 0.1 * mean / scale, precise)
        self.near(ours.moving_variance.numpy(), 0.9 + 0.1 * variance, precise)

    def test_a_frozen_layer_and_inference_ask_no_other_rank(self) -> None:
        if hvd.rank() == 0:
            layer = SyncBatchNormalization()
            layer(np.ones((2, 3), "float32"), training=False)
            layer.trainable = False
            layer(np.ones((2, 3), "float32"), training=True)
        objects.broadcast_object(None)

    def test_arguments(self) -> None:
        for fused in (True, None):
            with self.assertRaisesRegex(ValueError, "there is no fused form; use fused=False"):
                SyncBatchNormalization(fused=fused)
        layer = SyncBatchNormalization(axis=1, momentum=0.5, name="norm")
        again = SyncBatchNormalization.from_config(layer.get_config())
        self.assertEqual(again.get_config(), layer.get_config())
        self.assertFalse(again.supports_jit)


class Model(unittest.TestCase):
    def test_fit_saves_and_loads(self) -> None:
        sizes = [8] * hvd.size()
        whole = whole_batch(sizes, (4,), -1, "float32")
        models = []
        for kind, batch, given in (
            (SyncBatchNormalization, 4, own(whole, sizes)),
            (keras.layers.BatchNormalization, 4 * hvd.size(), interleaved(whole)),
        ):
            model = keras.Sequential(
                [keras.Input((4, CHANNELS)), kind(), keras.layers.Flatten(), keras.layers.Dense(1)]
            )
            # A rate of 0: gradients are summed by another part.
            model.compile(keras.optimizers.SGD(0.0), "mse")
            target = np.zeros((len(given), 1), "float32")
            model.fit(given, target, batch_size=batch, epochs=2, shuffle=False, verbose=0)
            models.append(model)
        ours, theirs = models
        for mine, other in zip(ours.layers[0].weights, theirs.layers[0].weights):
            np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-5)
        with tempfile.TemporaryDirectory() as folder:
            ours.save(f"{folder}/model.keras")
            again = keras.models.load_model(f"{folder}/model.keras")
        self.assertIs(type(again.layers[0]), SyncBatchNormalization)
        np.testing.assert_array_equal(
            again.predict(whole, verbose=0), ours.predict(whole, verbose=0)
        )

    def test_called_symbolically_in_training(self) -> None:
        given = keras.Input((5,))
        model = keras.Model(given, SyncBatchNormalization()(given, training=True))
        output = model(np.full((2, 5), hvd.rank(), "float32"))
        ranks = np.arange(hvd.size())
        scale = np.sqrt(ranks.var() + 1e-3)
        np.testing.assert_allclose(
            output, np.full((2, 5), (hvd.rank() - ranks.mean()) / scale), 1e-5
        )


def training_step(layer):
    """Output, gradient of the input and gradients of the weights."""

    def step(given, pull):
        with tf.GradientTape() as tape:
            tape.watch(given)
            output = layer(given, training=True)
            loss = tf.reduce_sum((output * pull) ** 2)
        of_input, of_weights = tape.gradient(loss, [given, layer.trainable_weights])
        return output, of_input, of_weights

    return step


def wide_step(whole, pull, epsilon, rounded):
    """training_step() of one process with all samples, by the formulas, in the widest type."""
    gamma, beta = np.longdouble([0.5, 2.0, -1.0]), np.longdouble([0.0, 1.0, 3.0])
    wide, pull = whole.astype(np.longdouble), pull.astype(np.longdouble)
    axes = tuple(range(wide.ndim - 1))
    mean = wide.mean(axes)
    variance = ((wide - mean) ** 2).mean(axes)
    scale = 1 / np.sqrt(variance + epsilon)
    hat = (wide - mean) * scale
    # What the loss sees is of the layer's type; its derivative is that of the same numbers.
    output = (hat * gamma + beta).astype(rounded).astype(np.longdouble)
    back = 2 * output * pull**2
    of_input = gamma * scale * (back - back.mean(axes) - hat * (back * hat).mean(axes))
    narrow = [one.astype(np.float64) for one in (output, of_input)]
    sums = [one.astype(np.float64) for one in ((back * hat).sum(axes), back.sum(axes))]
    return *narrow, sums, [one.astype(np.float64) for one in (mean, variance)]


def interleaved(whole):
    """The order in which all ranks together see it, in batches of 4 each."""
    parts = [np.split(part, 2) for part in np.split(whole, hvd.size())]
    return np.concatenate([part[step] for step in range(2) for part in parts])


if __name__ == "__main__":
    unittest.main(verbosity=2)
