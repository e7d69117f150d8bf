# SPDX-License-Identifier: Apache-2.0
"""A small network, what ranks train it with, and how its weights must compare."""

from __future__ import annotations

import unittest

import torch

import hvd.torch as ht

BATCH = 8


def network(seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.Tanh(), torch.nn.Linear(12, 3))


def examples(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What all ranks see together in a step."""
    generator = torch.Generator().manual_seed(100 + step)
    inputs = torch.randn(BATCH * ht.size(), 8, generator=generator)
    return inputs, inputs[:, :3].argmax(1)


def own(tensor: torch.Tensor) -> torch.Tensor:
    return tensor[ht.rank() * BATCH : (ht.rank() + 1) * BATCH]


def loss_of(model: torch.nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(model(inputs).float(), labels)


def sgd(model: torch.nn.Module, momentum: float = 0.9) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum)


class Case(unittest.TestCase):
    def same_everywhere(self, model: torch.nn.Module) -> None:
        for name, parameter in model.state_dict().items():
            everyone = ht.allgather(parameter.detach().reshape(1, -1), name=f"equal.{name}")
            self.assertTrue(torch.equal(everyone, everyone[:1].expand_as(everyone)), name)

    def as_one_rank(self, model: torch.nn.Module, alone: torch.nn.Module) -> None:
        for (name, mine), theirs in zip(model.named_parameters(), alone.parameters()):
            self.assertTrue(torch.allclose(mine, theirs, rtol=1e-4, atol=1e-5), name)

    def several_ranks(self) -> None:
        if ht.size() == 1:
            self.skipTest("one rank reduces nothing")
