# SPDX-License-Identifier: Apache-2.0
"""A function of a notebook on two ranks: horovod.run."""

import horovod


def train(base, factor=1):
    import horovod.torch as hvd
    import torch

    hvd.init()
    total = hvd.allreduce(torch.tensor([base + hvd.rank()]), op=hvd.Sum)
    return hvd.rank(), hvd.size(), factor * total.item()


if __name__ == "__main__":
    results = horovod.run(train, args=(10,), kwargs={"factor": 2}, np=2, use_gloo=True)
    assert results == [(0, 2, 42), (1, 2, 42)], results
    print(results)
