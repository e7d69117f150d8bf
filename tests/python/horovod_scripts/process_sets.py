# SPDX-License-Identifier: Apache-2.0
"""Static and dynamic process sets."""

import horovod.torch as hvd
import torch

first = hvd.ProcessSet([0])
second = hvd.ProcessSet([1])
hvd.init(process_sets=[first, second])
mine = first if first.included() else second
assert mine.size() == 1 and mine.rank() == 0
assert hvd.global_process_set.size() == hvd.size()

x = torch.tensor([float(hvd.rank() + 1)])
assert hvd.allreduce(x, op=hvd.Sum, process_set=mine).item() == hvd.rank() + 1
assert hvd.allreduce(x, op=hvd.Sum).item() == 3
assert hvd.broadcast(x, root_rank=mine.ranks[0], process_set=mine).item() == hvd.rank() + 1
assert hvd.broadcast_object(hvd.rank(), mine.ranks[0], process_set=mine) == hvd.rank()

assert hvd.remove_process_set(second)
again = hvd.add_process_set(hvd.ProcessSet([1]))
if again.included():
    assert hvd.allgather(x, process_set=again).tolist() == [2.0]
hvd.barrier()
assert hvd.remove_process_set(again)
