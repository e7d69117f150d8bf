# SPDX-License-Identifier: Apache-2.0
"""Tied weights, blocks computed twice, decay by group, schedules from before and after wrapping."""

import horovod.torch as hvd
import torch
from torch import nn, optim
from torch.utils.checkpoint import checkpoint

hvd.init()
torch.manual_seed(hvd.rank())


class Transformer(nn.Module):
    def __init__(self, words=20, width=8):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(
            [nn.TransformerEncoderLayer(width, 2, 16, 0.0, batch_first=True) for _ in range(2)]
        )
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight
        self.unused = nn.Linear(3, 3)
        self.register_buffer("scale", torch.tensor(3))

    def forward(self, text, reentrant):
        hidden = self.embedding(text)
        for block in self.blocks:
            hidden = checkpoint(block, hidden, use_reentrant=reentrant)
        return self.head(hidden)


model = Transformer()
model.blocks[0].norm1.requires_grad_(False)
norms = [one for name, one in model.named_parameters() if "norm" in name]
others = [one for name, one in model.named_parameters() if "norm" not in name]
optimizer = optim.AdamW([{"params": norms, "weight_decay": 0.0}, {"params": others}], lr=1e-3)
warmup = optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 4))
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), groups=2)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
cosine = optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
for step in range(4):
    text = torch.randint(20, (2, 6))
    logits = model(text, reentrant=step < 2)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), text.flatten())
    optimizer.zero_grad(set_to_none=bool(step % 2))
    loss.backward()
    optimizer.step()
    warmup.step()
    cosine.step()
assert 0 < optimizer.param_groups[0]["lr"] < 1e-3
sums = tuple(float(one.sum()) for one in model.state_dict().values())
assert len(set(hvd.allgather_object(sums))) == 1
