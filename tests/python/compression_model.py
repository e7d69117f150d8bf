# SPDX-License-Identifier: Apache-2.0
"""What each method of compression makes of the gradients of all ranks, in numpy.

Written from the papers and from docs/explanation/compression.md, not from the library: a model holds
all ranks at once, knows of no loss scale, and computes with plain sorts, QR and rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Arrays = Sequence[np.ndarray]
Model = Callable[[Arrays], np.ndarray]


class TopK:
    """Stich et al. 2018, and with a momentum Lin et al. 2018, algorithm 1."""

    def __init__(self, ranks: int, shape: tuple[int, ...], ratio: float, momentum: float = 0.0):
        count = int(np.prod(shape))
        self.k = int(np.ceil(ratio * count))
        self.momentum = np.float32(momentum)
        self.velocities = [np.zeros(count, np.float32) for _ in range(ranks)]
        self.residuals = [np.zeros(count, np.float32) for _ in range(ranks)]

    def __call__(self, gradients: Arrays) -> np.ndarray:
        """The mean of what the ranks send."""
        mean = np.zeros(gradients[0].size, np.float32)
        share = np.float32(1 / len(gradients))
        for gradient, u, v in zip(gradients, self.velocities, self.residuals):
            u *= self.momentum
            u += gradient.ravel()
            v += u
            sent = np.argsort(-np.abs(v), kind="stable")[: self.k]
            mean[sent] += share * v[sent]
            u[sent] = 0
            v[sent] = 0
            if self.momentum == 0:
                u[:] = 0
        return mean.reshape(gradients[0].shape)


class PowerSgd:
    """Vogels et al. 2019, algorithms 1 and 2, in float64.

    The start does not matter: a product depends on the span of Q alone, and the first gradient, if
    it is of that rank and the same on all ranks, sets it.
    """

    def __init__(self, ranks: int, shape: tuple[int, ...], rank: int):
        self.columns = int(np.prod(shape[1:]))
        self.q = np.random.default_rng(1).standard_normal((self.columns, rank))
        self.residuals = [np.zeros((shape[0], self.columns)) for _ in range(ranks)]

    def __call__(self, gradients: Arrays) -> np.ndarray:
        """The mean of all ranks' products."""
        matrices = [
            gradient.reshape(-1, self.columns).astype(np.float64) + residual
            for gradient, residual in zip(gradients, self.residuals)
        ]
        p, _ = np.linalg.qr(np.mean([m @ self.q for m in matrices], axis=0))
        factors = [m.T @ p for m in matrices]
        self.residuals = [m - p @ q.T for m, q in zip(matrices, factors)]
        mean = np.mean(factors, axis=0)
        self.q = mean / np.linalg.norm(mean, axis=0)
        return (p @ mean.T).reshape(gradients[0].shape)


class Float8:
    """One byte for each element after a power of two that all ranks share."""

    def __init__(self, mantissa: int, least_exponent: int, largest: float, halves: bool = False):
        self.mantissa = mantissa
        self.least_exponent = least_exponent
        self.largest = largest
        self.halves = halves  # sums travel as bytes, too

    def rounded(self, values: np.ndarray) -> np.ndarray:
        """The nearest of the format, of two the even one."""
        _, exponents = np.frexp(values.astype(np.float64))
        quanta = np.exp2(np.maximum(exponents - 1, self.least_exponent) - self.mantissa)
        return np.rint(values / quanta) * quanta

    def __call__(self, gradients: Arrays) -> np.ndarray:
        """The mean of the rounded gradients."""
        _, exponent = np.frexp(max(np.abs(one).max() for one in gradients) / self.largest)
        scale = 2.0**exponent
        total = np.zeros(gradients[0].shape, np.float32)
        for one in gradients:
            total += self.rounded(one / scale).astype(np.float32)
        mean = total / np.float32(len(gradients))
        if self.halves:
            mean = self.rounded(mean)
        return (mean * scale).astype(np.float32)


def float8_e4m3(halves: bool = False) -> Float8:
    """4 bits of exponent, 3 of mantissa."""
    return Float8(3, -6, 448.0, halves)


def float8_e5m2(halves: bool = False) -> Float8:
    """5 bits of exponent, 2 of mantissa."""
    return Float8(2, -14, 57344.0, halves)
