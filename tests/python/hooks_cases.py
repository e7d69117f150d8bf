# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own communication hooks of DDP over "hvd": the values of the same run over gloo."""

# DDP looks at the types of hooks, which must therefore be no strings.
import time
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import (
    default_hooks,
    post_localSGD_hook,
    powerSGD_hook,
)
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer
from torch.nn.parallel import DistributedDataParallel

import hvd.torch.distributed  # noqa: F401 (makes the backend known)

torch.set_num_threads(1)
STEPS = 6
NEWER = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 0)
GLOO: Any


def setUpModule() -> None:
    global GLOO
    dist.init_process_group("hvd", init_method="hvd://")
    GLOO = dist.new_group(backend="gloo")


def tearDownModule() -> None:
    dist.barrier()
    dist.destroy_process_group()
    # Gloo's threads let go of Python's functions a moment after a hook's future is done, and nothing
    # tells when: one that does so while the interpreter ends, ends the process (PyTorch).
    time.sleep(0.5)


Register = Callable[[DistributedDataParallel, Any], None]


def trained(group: Any, register: Register, averages: bool = False, **options: Any) -> list:
    """Parameters after some steps with a hook over a group."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(
        torch.nn.Linear(12, 24), torch.nn.Tanh(), torch.nn.Linear(24, 16), torch.nn.Linear(16, 8)
    )
    wrapped = DistributedDataParallel(model, process_group=group, **options)
    register(wrapped, group)
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.05)
    if averages:
        averager = PeriodicModelAverager(period=2, warmup_steps=2, process_group=group)
        optimizer = PostLocalSGDOptimizer(optimizer, averager)
    generator = torch.Generator().manual_seed(7 + dist.get_rank())
    for _ in range(STEPS):
        optimizer.zero_grad()
        wrapped(torch.randn(5, 12, generator=generator)).square().mean().backward()
        optimizer.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


def power_sgd(hook: Any, rank: int = 1) -> Register:
    def register(model: DistributedDataParallel, group: Any) -> None:
        state = powerSGD_hook.PowerSGDState(
            process_group=group, matrix_approximation_rank=rank, start_powerSGD_iter=2
        )
        model.register_comm_hook(state, hook)

    return register


def plain(hook: Any) -> Register:
    return lambda model, group: model.register_comm_hook(group, hook)


def bf16(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """DDP refuses the hook itself, by its name, where there is no NCCL."""
    return default_hooks.bf16_compress_hook(group, bucket)


def bf16_wrapped(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    wrapper = default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook)
    return wrapper(group, bucket)


def local_sgd(model: DistributedDataParallel, group: Any) -> None:
    state = post_localSGD_hook.PostLocalSGDState(
        process_group=group, subgroup=group, start_localSGD_iter=2
    )
    state.post_local_gradient_allreduce = False
    model.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)


def batched_power_sgd_mended() -> Any:
    """From 1.12 to 2.15 at least it hands a matrix to what takes batches: an AssertionError."""
    orthogonalize = powerSGD_hook._orthogonalize

    def of_either(matrices: torch.Tensor, epsilon: float = 0) -> None:
        orthogonalize(matrices if matrices.dim() == 3 else matrices.unsqueeze(0), epsilon)

    return mock.patch.object(powerSGD_hook, "_orthogonalize", of_either)


class TestHooks(unittest.TestCase):
    def assert_as_over_gloo(
        self, register: Register, reference: Register | None = None, **tolerance: float
    ) -> None:
        averages = register is local_sgd
        got = trained(None, register, averages)
        for mine, theirs in zip(got, trained(GLOO, reference or register, averages)):
            torch.testing.assert_close(mine, theirs, **(tolerance or {"rtol": 1e-4, "atol": 1e-6}))

    def test_power_sgd(self) -> None:
        self.assert_as_over_gloo(power_sgd(powerSGD_hook.powerSGD_hook))

    def test_batched_power_sgd(self) -> None:
        with batched_power_sgd_mended():
            self.assert_as_over_gloo(power_sgd(powerSGD_hook.batched_powerSGD_hook))

    def test_allreduce_and_fp16(self) -> None:
        self.assert_as_over_gloo(plain(default_hooks.allreduce_hook))
        wrapped = default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook)
        for hook in (default_hooks.fp16_compress_hook, wrapped):
            self.assert_as_over_gloo(plain(hook), rtol=2e-3, atol=1e-4)

    @unittest.skipUnless(NEWER, "this PyTorch multiplies no batches of float16")
    def test_power_sgd_in_fp16(self) -> None:
        wrapped = default_hooks.fp16_compress_wrapper(powerSGD_hook.powerSGD_hook)
        self.assert_as_over_gloo(power_sgd(wrapped), rtol=2e-2, atol=1e-3)

    def test_bf16(self) -> None:
        for hook in (bf16, bf16_wrapped):  # older gloo has no bfloat16
            self.assert_as_over_gloo(
                plain(hook), plain(default_hooks.allreduce_hook), rtol=2e-2, atol=1e-3
            )

    def test_post_local_sgd(self) -> None:
        self.assert_as_over_gloo(local_sgd)

    def test_many_buckets(self) -> None:
        """Callbacks of several buckets wait at once: gloo has two threads for them, and stops."""
        hooks = (powerSGD_hook.powerSGD_hook, powerSGD_hook.batched_powerSGD_hook)
        for hook in hooks:
            with batched_power_sgd_mended():
                got = trained(None, power_sgd(hook, rank=2), bucket_cap_mb=0.0005)
            for parameter in got:
                everyone = [torch.empty_like(parameter) for _ in range(dist.get_world_size())]
                dist.all_gather(everyone, parameter)
                for other in everyone:
                    self.assertTrue(torch.equal(other, parameter))


if __name__ == "__main__":
    unittest.main()
