# SPDX-License-Identifier: Apache-2.0
"""Scripts that know torchrun's variables alone, under hvdrun: no line of them speaks of hvd."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from hvd import launch

SCRIPT = """
import os
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
assert dist.get_world_size() == int(os.environ["WORLD_SIZE"]) == 2
torch.manual_seed(dist.get_rank())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
weights = [torch.empty(1, 4) for _ in range(2)]
dist.all_gather(weights, model.module.weight.data)
assert torch.equal(*weights), weights
os.write(1, f"rank {dist.get_rank()} trained\\n".encode())
dist.destroy_process_group()
# Gloo's threads can abort an interpreter that ends (pytorch issue 190489).
os._exit(0)
"""


class Torchrun(unittest.TestCase):
    def test_a_script_of_torch_alone_trains_one_model(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder, "train.py")
            script.write_text(SCRIPT, "utf-8")
            done = subprocess.run(
                [launch.hvdrun_path(), "-np", "2", sys.executable, str(script)],
                capture_output=True,
                text=True,
                timeout=120,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                check=False,
            )
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in (0, 1):
            self.assertIn(f"rank {rank} trained", done.stdout)


if __name__ == "__main__":
    unittest.main()
