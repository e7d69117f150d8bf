# SPDX-License-Identifier: Apache-2.0
"""Every method of compression beside its model in numpy, over many steps of a scaled loss."""

from __future__ import annotations

import functools
import unittest
from collections.abc import Callable
from typing import Any

import compression_model as model
import numpy as np

import hvd
from hvd._core import _lib, api, gradients
from hvd.errors import MismatchError

STEPS = 200
LOST = 77  # in this step one rank overflows
SHAPE = (40, 5, 6)
WHOLE = (300,)  # too few elements to be compressed
SIZES = (1e-30, 1e-11, 1.0, 1e8, 1e30)
SEED = 20


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    hvd.init()


def tearDownModule() -> None:  # noqa: N802
    hvd.shutdown()


def next_scale(scale: float, step: int) -> float:
    """As a scaler might have it, only more often: halved or doubled."""
    if step == LOST or step % 9 == 4 and step % 4 < 2:
        return max(scale / 2, 2.0**4)
    return min(scale * 2, 2.0**20) if step % 9 == 4 else scale


@functools.lru_cache
def lasting(index: int) -> np.ndarray:
    """Two directions, in every gradient of this number."""
    own = np.random.default_rng([SEED, index])
    left, right = own.standard_normal((2, SHAPE[0], 1)), own.standard_normal((2, 1, 30))
    return 3 * left[0] * right[0] + left[1] * right[1]


@functools.lru_cache(maxsize=64)
def drawn(index: int, step: int, rank: int, turn: int) -> np.ndarray:
    """The true gradient of a backward pass. That of the first step has no noise of its rank."""
    own = np.random.default_rng([SEED, index, step, rank, turn])
    if index == len(SIZES):
        return own.standard_normal(WHOLE, "f4")
    matrix = lasting(index)
    if step:
        matrix = own.uniform(0.5, 1.5) * matrix + 0.3 * own.standard_normal(matrix.shape)
    return (SIZES[index] * matrix).astype("f4").reshape(SHAPE)


class Training:
    """The gradients of this rank, and the models of all.

    Some gradients that the method takes, each of another size, and one that travels whole.
    """

    def __init__(self, reduction: gradients.Reduction, ranks: list[int], make: Any) -> None:
        self.ranks, self.reduction = ranks, reduction
        self.shapes = [SHAPE] * len(SIZES) + [WHOLE]
        self.names = [f"{index}" for index in range(len(self.shapes))]
        tensors = [api.tensor_struct(_lib.DTYPES["float32"], shape) for shape in self.shapes]
        self.set = gradients.Gradients(self.names, tensors, reduction)
        self.models = [make(len(ranks)) for _ in SIZES]
        self.values = [np.zeros(shape, "f4") for shape in self.shapes]
        self.momentum, self.velocity = 0.0, np.zeros(WHOLE)

    def compress(self, method: int, momentum: float = 0.0, **details: Any) -> None:
        """Chooses a method for all gradients."""
        self.momentum = momentum
        for index in range(len(self.names)):
            self.set.compress(index, method, momentum=momentum, **details)

    def summed(self, index: int, step: int, rank: int) -> np.ndarray:
        """What the backward passes of a rank add up to."""
        total = np.zeros(self.shapes[index], "f4")
        for turn in range(self.reduction.passes_per_step):
            total += drawn(index, step, rank, turn)
        return total

    def reduce(self, step: int, scale: float, spoil: tuple[int, int] | None = None) -> None:
        """A step of the library; `spoil`: gradient and rank that overflow in it."""
        self.set.set_loss_scale(scale)
        order = range(len(self.values))
        for value in self.values:
            value[:] = 0
        for turn in range(self.reduction.passes_per_step):
            for index in order if hvd.rank() % 2 else reversed(order):
                mine = self.values[index]
                mine += drawn(index, step, hvd.rank(), turn) * np.float32(scale)
                if (index, hvd.rank()) == spoil:
                    mine.reshape(-1)[5] = np.inf
                self.set.ready(index, mine.ctypes.data)
        self.set.wait()

    def expected(self, index: int, step: int) -> np.ndarray:
        """What the model makes of the same."""
        all_ranks = [self.summed(index, step, rank) for rank in self.ranks]
        if index == len(SIZES):
            self.velocity *= self.momentum
            self.velocity += np.mean(np.array(all_ranks, "f8"), axis=0)
            mean = self.velocity
        else:
            mean = self.models[index](all_ranks)
        return mean * (len(self.ranks) if self.reduction.op == _lib.SUM else 1)


class Methods(unittest.TestCase):
    def check(
        self,
        make: Callable[[int], model.Model],
        tolerance: float,
        method: int,
        ties: int = 0,
        **details: Any,
    ) -> None:
        """Trains with an average of two passes over all ranks, and with a sum among some."""
        everyone = list(range(hvd.size()))
        some = hvd.add_process_set([0, 2] if hvd.size() == 3 else [1])
        try:
            for reduction, ranks in (
                (gradients.Reduction(_lib.AVERAGE, 2.0, 2), everyone),
                (gradients.Reduction(_lib.SUM, 1.0, 1, some.process_set_id), some.ranks),
            ):
                if hvd.rank() in ranks:
                    with self.subTest(op=reduction.op, ranks=ranks):
                        training = Training(reduction, ranks, make)
                        training.compress(method, **details)
                        wrong = self.train(training, tolerance)
                        self.assertLessEqual(len(wrong), ties, wrong)
        finally:
            hvd.remove_process_set(some)

    def train(self, training: Training, tolerance: float) -> list[str]:
        """Where the library differs from the models by more than a share of the largest element."""
        scale, wrong = 2.0**16, []
        for step in range(STEPS):
            if step == LOST:
                self.lose(training, step, scale)
            else:
                training.reduce(step, scale)
                for index, value in enumerate(training.values):
                    wanted = training.expected(index, step)
                    error = np.abs((value / scale).astype("f8") - wanted).max()
                    error /= np.abs(wanted).max()
                    if not error < (tolerance if index < len(SIZES) else 1e-6):
                        wrong.append(f"step {step}, gradient {index}: {error}")
            scale = next_scale(scale, step)
        return wrong

    def lose(self, training: Training, step: int, scale: float) -> None:
        """A step in which one rank overflows, once in each gradient, changes nothing."""
        before = training.set.save()
        for index in range(len(training.values)):
            training.reduce(step, scale, (index, training.ranks[-1]))
            for other, value in enumerate(training.values):
                self.assertEqual(bool(np.isfinite(value).all()), other != index)
            self.assertEqual(training.set.save(), before)

    def test_top_k(self) -> None:
        self.check(lambda n: model.TopK(n, SHAPE, 0.02), 1e-6, _lib.COMPRESS_TOP_K, ratio=0.02)

    def test_top_k_with_momentum(self) -> None:
        """Velocities are rounded otherwise: of two elements as good as equal, another may leave."""
        self.check(
            lambda n: model.TopK(n, SHAPE, 0.02, 0.9),
            1e-4,
            _lib.COMPRESS_TOP_K,
            ties=20,
            ratio=0.02,
            momentum=0.9,
        )

    def test_power_sgd(self) -> None:
        self.check(lambda n: model.PowerSgd(n, SHAPE, 2), 1e-3, _lib.COMPRESS_POWER_SGD, rank=2)

    def test_float8_e4m3(self) -> None:
        self.check(lambda n: model.float8_e4m3(), 1e-6, _lib.COMPRESS_FLOAT8_E4M3)

    def test_float8_e5m2(self) -> None:
        self.check(lambda n: model.float8_e5m2(), 1e-6, _lib.COMPRESS_FLOAT8_E5M2)


class Large(unittest.TestCase):
    def test_many_ranks_round_8_bit_sums_once_more(self) -> None:
        if hvd.size() < 3:
            self.skipTest("two ranks gather all codes")
        count = 100_003  # more than a gather is worth
        description = [api.tensor_struct(_lib.DTYPES["float32"], (count,))]
        for method, make in (
            (_lib.COMPRESS_FLOAT8_E4M3, model.float8_e4m3),
            (_lib.COMPRESS_FLOAT8_E5M2, model.float8_e5m2),
        ):
            one = gradients.Gradients([f"large.{method}"], description, gradients.Reduction())
            one.compress(0, method)
            for step in range(3):
                scale = 2.0 ** (4 * step)
                all_ranks = [
                    np.random.default_rng([SEED, step, rank]).standard_normal(count, "f4")
                    for rank in range(hvd.size())
                ]
                value = all_ranks[hvd.rank()] * np.float32(scale)
                one.set_loss_scale(scale)
                one.ready(0, value.ctypes.data)
                one.wait()
                wanted = make(halves=True)(all_ranks)
                np.testing.assert_allclose(value / scale, wanted, rtol=1e-6, atol=0)

    def test_callers_from_before_momentum(self) -> None:
        description = [api.tensor_struct(_lib.DTYPES["float32"], (1200,))]
        one = gradients.Gradients(["older"], description, gradients.Reduction())
        whole = _lib.sizeof(_lib.Compression)
        older = _lib.Compression.momentum.offset
        garbage = 99.0  # behind the end of an older caller's struct
        for size, taken in ((older, True), (older - 8, False), (whole + 8, False), (whole, False)):
            chosen = _lib.Compression(size, _lib.COMPRESS_TOP_K, 0, 0.02, 0, garbage)
            status = _lib.quick.hvd_gradient_compress(one._set, 0, _lib.byref(chosen))
            self.assertEqual(status == _lib.OK, taken, size)

    def test_a_half_type_hands_its_overflow_to_all_ranks(self) -> None:
        description = [api.tensor_struct(_lib.DTYPES["float32"], (1200,))]
        for method, bits, top in ((_lib.COMPRESS_FLOAT16, 11, 7e4), (_lib.COMPRESS_BFLOAT16, 8, 0)):
            one = gradients.Gradients([f"half.{method}"], description, gradients.Reduction())
            one.compress(0, method)
            for bad in (0.0, top, np.inf):
                all_ranks = [
                    np.random.default_rng([SEED, rank]).standard_normal(1200, "f4")
                    for rank in range(hvd.size())
                ]
                all_ranks[-1][7] += bad
                value = all_ranks[hvd.rank()].copy()
                one.ready(0, value.ctypes.data)
                one.wait()
                if bad:
                    self.assertFalse(np.isfinite(value[7]))
                else:
                    allowed = 2.0 ** (1 - bits) * np.sum(np.abs(all_ranks), axis=0)
                    self.assertTrue((np.abs(value - np.mean(all_ranks, axis=0)) <= allowed).all())

    def test_settings_that_differ_by_rank(self) -> None:
        top_k, power = _lib.COMPRESS_TOP_K, _lib.COMPRESS_POWER_SGD
        given: dict[str, tuple[Any, Any]] = {
            "momentum": ((top_k, 0, 0.1, 0, 0.0), (top_k, 0, 0.1, 0, 0.5)),
            "momentum of whole": ((top_k, 0, 0.1, 10**6, 0.0), (top_k, 0, 0.1, 10**6, 0.5)),
            "ratio": ((top_k, 0, 0.1, 0, 0.0), (top_k, 0, 0.2, 0, 0.0)),
            "rank": ((power, 2, 0.0, 0, 0.0), (power, 3, 0.0, 0, 0.0)),
            "smallest": ((top_k, 0, 0.1, 100, 0.0), (top_k, 0, 0.1, 200, 0.0)),
            "smallest of whole": ((top_k, 0, 0.1, 100, 0.0), (top_k, 0, 0.1, 10**6, 0.0)),
            "method": ((top_k, 0, 0.1, 0, 0.0), (power, 2, 0.0, 0, 0.0)),
            "none": ((_lib.COMPRESS_NONE, 0, 0.0, 0, 0.0), (power, 2, 0.0, 0, 0.0)),
            "bytes": ((_lib.COMPRESS_FLOAT8_E4M3,), (_lib.COMPRESS_FLOAT8_E5M2,)),
        }
        description = [api.tensor_struct(_lib.DTYPES["float32"], (40, 60))]
        for what, settings in given.items():
            one = gradients.Gradients([f"other {what}"], description, gradients.Reduction())
            mine = settings[hvd.rank() == 1]
            one.compress(0, *mine)
            value = np.ones(2400, "f4")
            with self.subTest(what), self.assertRaisesRegex(MismatchError, f"'other {what}'.*rank"):
                one.ready(0, value.ctypes.data)
                one.wait()


if __name__ == "__main__":
    unittest.main()
