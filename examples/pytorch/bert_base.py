# SPDX-License-Identifier: Apache-2.0
"""BERT-base in plain PyTorch, without a head: 109 482 240 parameters in 199 tensors.

After Devlin et al. 2018 (https://arxiv.org/abs/1810.04805): 12 layers, 12 heads, 768 wide, with pooler.
"""

from __future__ import annotations

import torch
from torch import nn

VOCABULARY = 30522
POSITIONS = 512
WIDTH = 768
HEADS = 12


class Layer(nn.Module):
    """Self-attention and two dense layers, each with what came in added and normalised."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-12)
        self.widen = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-12)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, length, 768) to the same shape."""
        heads = [
            part(x).unflatten(2, (HEADS, WIDTH // HEADS)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        ]
        scores = heads[0] @ heads[1].transpose(2, 3) / (WIDTH // HEADS) ** 0.5
        attended = self.drop(scores.softmax(3)) @ heads[2]
        x = self.norm1(x + self.drop(self.mix(attended.transpose(1, 2).flatten(2))))
        wide = nn.functional.gelu(self.widen(x))
        return self.norm2(x + self.drop(self.narrow(wide)))


class BertBase(nn.Module):
    """Tokens (N, length) of at most 512, to a vector (N, 768) for each sequence."""

    def __init__(self, layers: int = 12, dropout: float = 0.1) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(POSITIONS, WIDTH)
        self.segments = nn.Embedding(2, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.drop = nn.Dropout(dropout)
        self.layers = nn.Sequential(*(Layer(dropout) for _ in range(layers)))
        self.pool = nn.Linear(WIDTH, WIDTH)
        for module in self.modules():
            if isinstance(module, (nn.Embedding, nn.Linear)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """What the pooler makes of the first token's place."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        segments = torch.zeros_like(tokens)
        x = self.words(tokens) + self.positions(places) + self.segments(segments)
        x = self.layers(self.drop(self.norm(x)))
        return torch.tanh(self.pool(x[:, 0]))
