# SPDX-License-Identifier: Apache-2.0
"""The torch.distributed backend "hvd": every collective, then what is built on them."""

from __future__ import annotations

import datetime
import os
import unittest
import warnings
from unittest import mock

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hvd.torch as hvd
import hvd.torch.distributed as backend

torch.set_num_threads(1)
RANK: int
SIZE: int
NEWER = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 10)
OLD = "this PyTorch lets Python make no Backend"


def setUpModule() -> None:
    global RANK, SIZE
    dist.init_process_group("hvd", init_method="hvd://")
    RANK, SIZE = dist.get_rank(), dist.get_world_size()


def tearDownModule() -> None:
    dist.barrier()
    dist.destroy_process_group()


def network() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))


def batches(steps: int = 4, rows: int = 2) -> tuple[list, list]:
    """The batches of this rank, and those of all ranks together."""
    generator = torch.Generator().manual_seed(5)
    whole = [torch.randn(rows * SIZE, 6, generator=generator) for _ in range(steps)]
    return [one[RANK * rows : (RANK + 1) * rows] for one in whole], whole


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, data: list) -> None:
    for batch in data:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()


def trained_alone() -> torch.nn.Module:
    model = network()
    train(model, torch.optim.Adam(model.parameters(), lr=0.01), batches()[1])
    return model


def of_rank(rank: int, count: int = 4, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.arange(count) + rank + 1).to(dtype)


def everyones(count: int = 4) -> list[torch.Tensor]:
    return [of_rank(rank, count) for rank in range(SIZE)]


class Case(unittest.TestCase):
    def assert_same(self, got: torch.Tensor, wanted: torch.Tensor) -> None:
        torch.testing.assert_close(got, wanted)


class TestReductions(Case):
    def test_all_reduce_by_operation_and_type(self) -> None:
        tensors = {
            dtype: [of_rank(rank, dtype=dtype) for rank in range(SIZE)]
            for dtype in (torch.float32, torch.float64, torch.int32, torch.int64, torch.bfloat16)
        }
        operations = {
            dist.ReduceOp.SUM: lambda all_: all_.sum(0),
            dist.ReduceOp.PRODUCT: lambda all_: all_.prod(0),
            dist.ReduceOp.MIN: lambda all_: all_.min(0).values,
            dist.ReduceOp.MAX: lambda all_: all_.max(0).values,
        }
        for dtype, values in tensors.items():
            for op, expected in operations.items():
                mine = values[RANK].clone()
                dist.all_reduce(mine, op=op)
                wanted = expected(torch.stack(values).to(torch.float64))
                self.assert_same(mine, wanted.to(dtype))

    def test_average_and_bits(self) -> None:
        mine = of_rank(RANK)
        dist.all_reduce(mine, op=dist.ReduceOp.AVG)
        self.assert_same(mine, torch.stack(everyones()).mean(0))
        bits = torch.tensor([1 << RANK, 0b1000 | RANK])
        for op, expected in (
            (dist.ReduceOp.BOR, [(1 << SIZE) - 1, 0b1000 | 1 | (SIZE - 1)]),
            (dist.ReduceOp.BAND, [0 if SIZE > 1 else 1, 0b1000]),
        ):
            mine = bits.clone()
            dist.all_reduce(mine, op=op)
            self.assertEqual(mine.tolist(), expected)

    @unittest.skipUnless(NEWER, "this PyTorch tells the backend no factor")
    def test_sum_with_a_factor(self) -> None:
        mine = of_rank(RANK)
        dist.all_reduce(mine, op=dist._make_nccl_premul_sum(0.5))
        self.assert_same(mine, torch.stack(everyones()).sum(0) / 2)

    def test_tensors_with_gaps_and_views(self) -> None:
        wide = torch.zeros(4, 2)
        wide[:, 1] = of_rank(RANK)
        dist.all_reduce(wide[:, 1])
        self.assert_same(wide[:, 1], torch.stack(everyones()).sum(0))
        self.assert_same(wide[:, 0], torch.zeros(4))
        turned = torch.arange(6.0).reshape(2, 3).t()
        dist.broadcast(turned, src=0)
        self.assert_same(turned, torch.arange(6.0).reshape(2, 3).t())
        empty = torch.empty(0)
        dist.all_reduce(empty)
        leaf = torch.ones(2, requires_grad=True)
        dist.all_reduce(leaf)
        self.assertEqual(leaf.tolist(), [SIZE, SIZE])

    def test_reduce_and_reduce_scatter(self) -> None:
        mine = of_rank(RANK)
        dist.reduce(mine, dst=SIZE - 1)
        total = torch.stack(everyones()).sum(0)
        self.assert_same(mine, total if RANK == SIZE - 1 else of_rank(RANK))
        output = torch.empty(4)
        dist.reduce_scatter(output, [of_rank(RANK) * (part + 1) for part in range(SIZE)])
        self.assert_same(output, total * (RANK + 1))
        flat = torch.cat([of_rank(RANK) * (part + 1) for part in range(SIZE)])
        single = getattr(dist, "reduce_scatter_tensor", None) or dist._reduce_scatter_base
        single(output, flat, op=dist.ReduceOp.SUM)
        self.assert_same(output, total * (RANK + 1))

    def test_sparse(self) -> None:
        mine = torch.zeros(SIZE + 1)
        mine[RANK], mine[SIZE] = 1, 2
        mine = mine.to_sparse()
        dist.all_reduce(mine)
        self.assert_same(mine.to_dense(), torch.tensor([1.0] * SIZE + [2.0 * SIZE]))


class TestCopies(Case):
    def test_broadcast_and_scatter(self) -> None:
        mine = of_rank(RANK)
        dist.broadcast(mine, src=SIZE - 1)
        self.assert_same(mine, of_rank(SIZE - 1))
        output = torch.empty(4)
        dist.scatter(output, everyones() if RANK == 0 else None, src=0)
        self.assert_same(output, of_rank(RANK))

    def test_gathers(self) -> None:
        output = [torch.empty(4) for _ in range(SIZE)]
        dist.all_gather(output, of_rank(RANK))
        self.assert_same(torch.stack(output), torch.stack(everyones()))
        output = [torch.empty(4) for _ in range(SIZE)]
        dist.gather(of_rank(RANK), output if RANK == 0 else None, dst=0)
        if RANK == 0:
            self.assert_same(torch.stack(output), torch.stack(everyones()))
        flat = torch.empty(SIZE * 4)
        single = getattr(dist, "all_gather_into_tensor", None) or dist._all_gather_base
        single(flat, of_rank(RANK))
        self.assert_same(flat, torch.cat(everyones()))
        flat = torch.zeros(SIZE * 4)
        flat[RANK * 4 : RANK * 4 + 4] = of_rank(RANK)
        single(flat, flat[RANK * 4 : RANK * 4 + 4])  # a part of its own result
        self.assert_same(flat, torch.cat(everyones()))

    def test_all_to_all(self) -> None:
        output = torch.empty(SIZE)
        dist.all_to_all_single(output, torch.arange(SIZE) + 10.0 * RANK)
        self.assert_same(output, torch.arange(SIZE) * 10.0 + RANK)
        splits = [RANK + 1] * SIZE
        takes = [rank + 1 for rank in range(SIZE)]
        output = torch.empty(sum(takes), 2)
        dist.all_to_all_single(output, torch.full((sum(splits), 2), RANK + 0.0), takes, splits)
        self.assert_same(output[:, 0], torch.cat([torch.full((n,), n - 1.0) for n in takes]))
        lists = [torch.empty(rank + 1) for rank in range(SIZE)]
        dist.all_to_all(lists, [torch.full((RANK + 1,), RANK + 0.0) for _ in range(SIZE)])
        self.assert_same(lists[-1], torch.full((SIZE,), SIZE - 1.0))

    def test_objects(self) -> None:
        everyone = [None] * SIZE
        dist.all_gather_object(everyone, {"rank": RANK, "more": "x" * RANK})
        self.assertEqual([one["rank"] for one in everyone], list(range(SIZE)))
        objects = ["a", {"b": 1}] if RANK == 0 else [None, None]
        dist.broadcast_object_list(objects, src=0)
        self.assertEqual(objects, ["a", {"b": 1}])
        got = [None]
        dist.scatter_object_list(got, list(range(SIZE)) if RANK == 0 else [None] * SIZE, src=0)
        self.assertEqual(got, [RANK])

    @unittest.skipUnless(NEWER, "this PyTorch coalesces nothing")
    def test_coalesced(self) -> None:
        from torch.distributed.distributed_c10d import _coalescing_manager

        tensors = [of_rank(RANK, 3), of_rank(RANK, 5)]
        with _coalescing_manager():
            for tensor in tensors:
                dist.all_reduce(tensor)
        self.assert_same(tensors[1], torch.stack(everyones(5)).sum(0))


class TestWork(Case):
    def test_many_on_their_way(self) -> None:
        tensors = [of_rank(RANK) for _ in range(150)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        for work, tensor in zip(works, tensors):
            work.wait()
            self.assert_same(tensor, torch.stack(everyones()).sum(0))
        dist.barrier(async_op=True).wait()

    def test_futures(self) -> None:
        work = dist.all_reduce(of_rank(RANK), async_op=True)
        then = work.get_future().then(lambda future: future.value()[0] / SIZE)
        self.assert_same(then.wait(), torch.stack(everyones()).mean(0))

    def test_beside_operations_of_hvd(self) -> None:
        work = dist.all_reduce(of_rank(RANK), async_op=True)
        self.assertEqual(hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist(), [SIZE, SIZE])
        work.wait()

    def test_shapes_that_differ_fail_everywhere(self) -> None:
        for async_op in (False, True):
            with self.assertRaisesRegex(RuntimeError, "shape"):
                work = dist.all_reduce(torch.ones(3 + RANK), async_op=async_op)
                if work is not None:
                    work.wait()
        dist.all_reduce(torch.ones(3))

    def test_wrong_calls(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "elements"):
            single = getattr(dist, "all_gather_into_tensor", None) or dist._all_gather_base
            single(torch.empty(SIZE * 4 + 1), of_rank(RANK))


class TestGroups(Case):
    def test_groups_of_some_ranks(self) -> None:
        if SIZE < 3:
            self.skipTest("needs three ranks")
        groups = {ranks: dist.new_group(list(ranks)) for ranks in ((0, 1), (1, 2), (0, 1), (2,))}
        for ranks, group in groups.items():
            if RANK not in ranks:
                self.assertEqual(dist.get_rank(group), -1)
                continue
            mine = of_rank(RANK)
            dist.all_reduce(mine, group=group)
            self.assert_same(mine, torch.stack([of_rank(rank) for rank in ranks]).sum(0))
            dist.broadcast(mine, src=ranks[-1], group=group)
            dist.barrier(group)

    def test_a_group_of_all_beside_the_world(self) -> None:
        group = dist.new_group()
        first = dist.all_reduce(of_rank(RANK), async_op=True)
        mine = of_rank(RANK)
        if RANK % 2:  # the order between groups is free
            first.wait()
        dist.all_reduce(mine, group=group)
        self.assert_same(mine, torch.stack(everyones()).sum(0))
        first.wait()

    def test_a_late_rank_is_a_deadline(self) -> None:
        if SIZE < 2:
            self.skipTest("one rank is never late")
        group = dist.new_group()
        mine = of_rank(RANK)
        if RANK == 0:
            group.set_timeout(datetime.timedelta(seconds=0.3))
            for async_op in (False, True):
                with self.assertRaisesRegex(RuntimeError, "all_reduce.*timeout"):
                    work = dist.all_reduce(mine, group=group, async_op=async_op)
                    if work is not None:
                        work.wait()
        dist.barrier()
        if RANK != 0:
            dist.all_reduce(mine, group=group)
            dist.all_reduce(mine, group=group)
        dist.barrier()

    @unittest.skipUnless(NEWER, OLD)
    def test_groups_that_cannot_be(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "use_local_synchronization"):
            dist.new_group([RANK], use_local_synchronization=True)

    def test_gloo_beside_it(self) -> None:
        group = dist.new_group(backend="gloo")
        mine = of_rank(RANK)
        dist.all_reduce(mine, group=group)
        self.assert_same(mine, torch.stack(everyones()).sum(0))


class TestTraining(Case):
    def assert_models_equal(self, model: torch.nn.Module, wanted: torch.nn.Module) -> None:
        for mine, theirs in zip(model.parameters(), wanted.parameters()):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)

    def test_ddp_learns_as_one_process_does(self) -> None:
        small = {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.0001}
        for options, hook in (({}, None), (small, None), (small, backend.average_hook)):
            model = network()
            if RANK:
                for parameter in model.parameters():
                    parameter.data.zero_()  # the values of rank 0 count
            wrapped = DistributedDataParallel(model, **options)
            if hook is not None:
                wrapped.register_comm_hook(None, hook)
            train(wrapped, torch.optim.Adam(model.parameters(), lr=0.01), batches()[0])
            self.assert_models_equal(model, trained_alone())

    def test_ddp_without_synchronization_and_with_unused_parameters(self) -> None:
        model = torch.nn.ModuleList([network(), torch.nn.Linear(2, 2)])
        model.forward = lambda batch: model[0](batch)
        wrapped = DistributedDataParallel(model, find_unused_parameters=True)
        mine, _ = batches()
        with wrapped.no_sync():
            wrapped(mine[0]).square().mean().backward()
        wrapped(mine[1]).square().mean().backward()
        gradient = model[0][0].weight.grad
        total = gradient.clone()
        dist.all_reduce(total)
        self.assert_same(total, gradient * SIZE)

    def test_ddp_with_a_hook_and_sparse_gradients(self) -> None:
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        wrapped = DistributedDataParallel(network())
        wrapped.register_comm_hook(None, default_hooks.fp16_compress_hook)
        wrapped(batches()[0][0]).square().mean().backward()
        table = torch.nn.Embedding(5, 2, sparse=True)
        wrapped = DistributedDataParallel(table)
        wrapped(torch.tensor([RANK, 4])).sum().backward()
        row = table.weight.grad.to_dense()[4]
        self.assert_same(row, torch.ones(2))

    def test_zero_redundancy_optimizer(self) -> None:
        from torch.distributed.optim import ZeroRedundancyOptimizer

        model = DistributedDataParallel(network())
        optimizer = ZeroRedundancyOptimizer(
            model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01
        )
        train(model, optimizer, batches()[0])
        self.assert_models_equal(model.module, trained_alone())

    def test_join_of_uneven_inputs(self) -> None:
        model = DistributedDataParallel(network())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        with model.join():
            train(model, optimizer, batches()[0][: 2 + RANK % 2])
        values = torch.cat([one.detach().reshape(-1) for one in model.parameters()])
        same = values.clone()
        dist.broadcast(same, src=0)
        self.assert_same(values, same)


@unittest.skipUnless(NEWER, OLD)
class TestSharding(Case):
    def test_fsdp1(self) -> None:
        from torch.distributed.fsdp import FullyShardedDataParallel

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = FullyShardedDataParallel(network(), device_id=torch.device("cpu"))
            train(model, torch.optim.Adam(model.parameters(), lr=0.01), batches()[0])
            with FullyShardedDataParallel.summon_full_params(model):
                wanted = torch.cat([p.detach().reshape(-1) for p in trained_alone().parameters()])
                got = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
                torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-6)

    def test_fsdp2(self) -> None:
        from torch.distributed.fsdp import fully_shard

        model = network()
        for layer in (model[0], model[2], model):
            fully_shard(layer, mesh=dist.init_device_mesh("cpu", (SIZE,)))
        train(model, torch.optim.Adam(model.parameters(), lr=0.01), batches()[0])
        for mine, theirs in zip(model.parameters(), trained_alone().parameters()):
            torch.testing.assert_close(mine.full_tensor(), theirs, rtol=1e-4, atol=1e-6)

    def test_dtensor(self) -> None:
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor

        mesh = dist.init_device_mesh("cpu", (SIZE,))
        whole = torch.arange(SIZE * 2 * 3.0).reshape(SIZE * 2, 3)
        rows = distribute_tensor(whole, mesh, [Shard(0)])
        self.assert_same(rows.to_local(), whole[RANK * 2 : RANK * 2 + 2])
        self.assert_same((rows + rows).sum().full_tensor(), whole.sum() * 2)
        self.assert_same(rows.redistribute(mesh, [Replicate()]).to_local(), whole)
        square = distribute_tensor(torch.ones(SIZE, SIZE), mesh, [Shard(1)])
        self.assert_same(
            square.redistribute(mesh, [Shard(0)]).full_tensor(), torch.ones(SIZE, SIZE)
        )

    def test_functional_collectives(self) -> None:
        from torch.distributed import _functional_collectives as functional

        world = dist.group.WORLD

        def step(x: torch.Tensor) -> torch.Tensor:
            total = functional.all_reduce(x * 2, "sum", world)
            rows = functional.all_gather_tensor(x, 0, world)
            return functional.reduce_scatter_tensor(rows + total.repeat(SIZE), "avg", 0, world)

        given = of_rank(RANK)
        wanted = given + torch.stack(everyones()).sum(0) * 2
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the names are of the versions that we support
            self.assert_same(step(given), wanted)
            compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
            self.assert_same(compiled(given), wanted)


class TestLifetime(Case):
    def test_destroy_and_init_again(self) -> None:
        dist.barrier()
        dist.destroy_process_group()
        with self.assertRaisesRegex(RuntimeError, "hvdrun"):
            store = dist.HashStore()
            dist.init_process_group("hvd", store=store, rank=0, world_size=SIZE + 1)
        self.assertFalse(dist.is_initialized())
        dist.init_process_group("hvd", init_method="hvd://")
        mine = of_rank(RANK)
        dist.all_reduce(mine)
        self.assert_same(mine, torch.stack(everyones()).sum(0))
        hvd.barrier()

    def test_the_store_is_found_by_the_name_on_the_fast_network(self) -> None:
        from hvd.torch.distributed.process_group import _name_of_this_host as name

        cases = {"n1i": "n1i", "n1i.cluster": "n1i.cluster", "n10": "n1.c", "": "n1.c", "x": "n1.c"}
        with mock.patch("socket.gethostname", return_value="n1.c"):
            for told, wanted in cases.items():
                with mock.patch.dict(os.environ, MASTER_ADDR=told):
                    with mock.patch("socket.getaddrinfo", return_value=[]):
                        self.assertEqual(name(), wanted)
                    with mock.patch("socket.getaddrinfo", side_effect=OSError("unknown")):
                        self.assertEqual(name(), "n1.c")

    def test_register_again(self) -> None:
        backend.register()


if __name__ == "__main__":
    unittest.main()
