# SPDX-License-Identifier: Apache-2.0
"""A training step of small networks, one rank: alone, beside an idle runtime, and with the optimizer wrapped.

Started by hvdrun. Prints `<network>_<how> milliseconds`, the median step of the slowest rank.
"""

import statistics
import time

import torch

import hvd.torch as hvd

_NETWORKS = {"mlp64": ([64, 64, 10], 8, 400), "mlp512": ([784, 512, 512, 10], 32, 40)}


def network(widths: list) -> torch.nn.Module:
    layers = []
    for inputs, outputs in zip(widths, widths[1:]):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def step_ms(widths: list, samples: int, steps: int, wrapped: bool) -> float:
    """The median of `steps` steps in milliseconds, on this rank."""
    torch.manual_seed(1)
    model = network(widths)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if wrapped:
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    data, labels = torch.randn(samples, widths[0]), torch.randint(0, widths[-1], (samples,))
    times = []
    for step in range(steps + 20):
        start = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(data), labels).backward()
        optimizer.step()
        if step >= 20:
            times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def main() -> None:
    torch.set_num_threads(1)
    hvd.init()
    hvd.barrier()
    hvd.shutdown()  # every rank is ready: the steps alone run side by side, as those with the runtime
    mine = {f"{name}_local": step_ms(*what, False) for name, what in _NETWORKS.items()}
    hvd.init()
    mine |= {f"{name}_idle": step_ms(*what, False) for name, what in _NETWORKS.items()}
    mine |= {f"{name}_distributed": step_ms(*what, True) for name, what in _NETWORKS.items()}
    slowest = hvd.allreduce(torch.tensor(list(mine.values())), op=hvd.Max, name="steps").tolist()
    if hvd.rank() == 0:
        for name, value in zip(mine, slowest):
            print(f"{name} {value:.4f}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
