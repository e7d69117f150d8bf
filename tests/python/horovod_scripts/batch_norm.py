# SPDX-License-Identifier: Apache-2.0
"""SyncBatchNorm: the statistics are those of all ranks."""

import horovod.torch as hvd
import torch

hvd.init()
torch.manual_seed(5)
everything = torch.randn(hvd.size() * 4, 3, 2)
mine = everything[hvd.rank() * 4 : hvd.rank() * 4 + 4].clone().requires_grad_()
layer, plain = hvd.SyncBatchNorm(3), torch.nn.BatchNorm1d(3)
expected = plain(everything)[hvd.rank() * 4 : hvd.rank() * 4 + 4]
output = layer(mine)
assert torch.allclose(output, expected, atol=1e-5)
assert torch.allclose(layer.running_var, plain.running_var, atol=1e-5)
output.square().sum().backward()
assert torch.isfinite(mine.grad).all()
