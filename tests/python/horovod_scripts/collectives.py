# SPDX-License-Identifier: Apache-2.0
"""Grouped, asynchronous, sparse and compressed operations, by position and by name."""

import horovod.torch as hvd
import torch
from horovod.common.exceptions import HorovodInternalError
from horovod.common.util import split_list
from horovod.torch.compression import Compression, Compressor
from horovod.torch.mpi_ops import Average, HorovodAllreduce, Sum, global_process_set, size

hvd.init()
rank = hvd.rank()
x = torch.full((2, 2), float(rank))

assert hvd.allreduce(x, False, "sum").tolist() == [[1.0, 1.0]] * 2
assert hvd.allreduce(x, True).tolist() == [[0.5, 0.5]] * 2
assert hvd.allreduce(x, None, "half", Compression.fp16, Sum, 0.5, 4.0).tolist() == [[2.0, 2.0]] * 2
assert HorovodAllreduce.apply(x, None, None, Average, 1.0, 1.0, global_process_set)[0, 0] == 0.5
handles = [hvd.allreduce_async_(x.clone(), name=f"t{i}", op=Sum) for i in range(3)]
while not all(hvd.poll(handle) for handle in handles):
    pass
assert all(hvd.synchronize(handle)[0, 0] == 1 for handle in handles)

group = [x.clone(), torch.ones(3, dtype=torch.float64)]
assert [t.flatten()[0].item() for t in hvd.grouped_allreduce(group, op=Sum)] == [1, size()]
assert hvd.synchronize(hvd.grouped_allreduce_async_(group, op=Sum))[1].tolist() == [2.0] * 3
first, second = hvd.grouped_allgather([x[:1], x[:rank]])
assert first.shape == (2, 2) and second.shape == (1, 2)
parts = hvd.grouped_reducescatter([torch.ones(3), torch.ones(2)], op=Sum)
assert [len(part) for part in parts] == [2 - rank, 1]
rows, counts = hvd.alltoall(torch.arange(3.0), splits=torch.tensor([1, 2], dtype=torch.int32))
assert rows.tolist() == [[0, 0], [1, 2, 1, 2]][rank] and counts.tolist() == [1 + rank] * 2
assert hvd.reducescatter(torch.ones(4), None, Compression.none, Sum).tolist() == [2.0, 2.0]

sparse = torch.sparse_coo_tensor([[rank]], [1.0], (2,))
assert hvd.sparse_allreduce_async(sparse, name="s", op=Sum)().to_dense().tolist() == [1.0, 1.0]


class Doubling(Compressor):
    @staticmethod
    def compress(tensor):
        return tensor * 2, None

    @staticmethod
    def decompress(tensor, ctx):
        return tensor / 2


assert hvd.allreduce(x, op=Sum, compression=Doubling)[0, 0] == 1
assert hvd.allgather_object({"rank": rank}) == [{"rank": 0}, {"rank": 1}]
assert split_list([1, 2, 3], 2) == [[1, 2], [3]]

y = torch.ones(2, requires_grad=True)
hvd.allreduce(y, op=Sum).sum().backward()
assert y.grad.tolist() == [2.0, 2.0]
try:
    hvd.allreduce(torch.ones(1 + rank), name="differs")
except HorovodInternalError as error:
    assert "shape" in str(error)
else:
    raise AssertionError("ranks that disagree")
try:
    hvd.allreduce(x, average=True, op=Sum)
except ValueError:
    pass
assert (
    hvd.is_initialized()
    and (hvd.nccl_built() >= 21800 or not hvd.nccl_built())
    and hvd.gloo_enabled()
)
assert bool(hvd.nccl_built()) == (hvd.cuda_built() or hvd.rocm_built())
