# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 in plain PyTorch: 25 557 032 parameters in 161 tensors.

After He et al. 2015 (https://arxiv.org/abs/1512.03385), with the stride in the 3x3 convolution of a
block, as most implementations have it today.
"""

from __future__ import annotations

import torch
from torch import nn

_BLOCKS = (3, 4, 6, 3)
_EXPANSION = 4


class Bottleneck(nn.Module):
    """Three convolutions around which the input is added."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * _EXPANSION
        self.reduce = nn.Conv2d(inputs, width, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.spatial = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.expand = nn.Conv2d(width, outputs, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, inputs, H, W) to (N, outputs, H / stride, W / stride)."""
        y = torch.relu(self.norm1(self.reduce(x)))
        y = torch.relu(self.norm2(self.spatial(y)))
        return torch.relu(self.norm3(self.expand(y)) + self.shortcut(x))


class ResNet50(nn.Module):
    """Images (N, 3, H, W), of any size from 32 on, to scores (N, classes)."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, padding=3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, padding=1),
        )
        blocks: list[nn.Module] = []
        inputs = 64
        for stage, count in enumerate(_BLOCKS):
            width = 64 << stage
            for block in range(count):
                stride = 2 if stage > 0 and block == 0 else 1
                blocks.append(Bottleneck(inputs, width, stride))
                inputs = width * _EXPANSION
        self.blocks = nn.Sequential(*blocks)
        self.classify = nn.Linear(inputs, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Scores of each class."""
        return self.classify(self.blocks(self.stem(images)).mean((2, 3)))
