# SPDX-License-Identifier: Apache-2.0
"""The operations of hvd.torch that Horovod lacks or has in part, and every gradient.

The reference of a gradient: each rank knows what all ranks give, so that plain PyTorch on one rank
computes the results of all, their common loss, and its derivative.
"""

from __future__ import annotations

import unittest

import torch

import hvd
import hvd.torch as ht


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    torch.set_num_threads(1)
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


def rows(rank: int, count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return ((torch.arange(count * 2).reshape(count, 2) % 5) + rank + 1).to(dtype)


def all_rows(counts) -> torch.Tensor:
    return torch.cat([rows(rank, count) for rank, count in enumerate(counts)])


def share(total: torch.Tensor, rank: int) -> torch.Tensor:
    """The rows of a reducescatter that are due on a rank."""
    size = ht.size()
    begin = rank * (len(total) // size) + min(rank, len(total) % size)
    return total[begin : begin + len(total) // size + (rank < len(total) % size)]


class Reductions(unittest.TestCase):
    def test_reducescatter_of_uneven_rows(self) -> None:
        size, rank = ht.size(), ht.rank()
        for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.complex64):
            for count in (0, 1, size, 7, 20000):
                total = sum(rows(r, count, torch.complex128) for r in range(size)).to(dtype)
                got = ht.reducescatter(rows(rank, count, dtype), op=ht.Sum)
                self.assertTrue(torch.equal(got, share(total, rank)), (dtype, count))
        mean = ht.reducescatter(torch.full((size,), rank + 1.0))
        self.assertEqual(mean.tolist(), [(size + 1) / 2])
        scaled = ht.reducescatter(torch.ones(size), op=ht.Sum, prescale_factor=3.0)
        self.assertEqual(scaled.tolist(), [3.0 * size])
        half = ht.reducescatter(torch.ones(size), op=ht.Sum, compression=ht.Compression.fp16)
        self.assertEqual((half.dtype, half.tolist()), (torch.float32, [size]))
        scalar = ht.reducescatter(torch.tensor(2.0), op=ht.Max)
        self.assertEqual(scalar.numel(), 1 if rank == 0 else 0)

    def test_groups(self) -> None:
        size, rank = ht.size(), ht.rank()
        given = [rows(rank, 7), rows(rank, 2 * size, torch.int64)]
        shares = ht.synchronize(ht.grouped_reducescatter_async(given, "group", ht.Sum))
        for got, one in zip(shares, given):
            total = sum(rows(r, len(one), one.dtype) for r in range(size))
            self.assertTrue(torch.equal(got, share(total, rank)))
        everyone = ht.grouped_allgather([rows(rank, rank), torch.tensor([rank])], "gathers")
        self.assertTrue(torch.equal(everyone[0], all_rows(range(size))))
        self.assertEqual(everyone[1].tolist(), list(range(size)))
        for empty in (ht.grouped_allgather, ht.grouped_reducescatter):
            with self.assertRaisesRegex(ValueError, "empty"):
                empty([])

    def test_reduce(self) -> None:
        size, rank = ht.size(), ht.rank()
        for root in range(size):
            got = ht.reduce(rows(rank, 5), root, op=ht.Sum)
            if rank == root:
                self.assertTrue(torch.equal(got, sum(rows(r, 5) for r in range(size))))
            else:
                self.assertIsNone(got)

    def test_bits(self) -> None:
        size, rank = ht.size(), ht.rank()
        mine = torch.tensor([1 << rank, 7], dtype=torch.int64)
        self.assertEqual(ht.allreduce(mine, op=ht.BitOr).tolist(), [(1 << size) - 1, 7])
        self.assertEqual(ht.allreduce(mine, op=ht.BitAnd)[1].item(), 7)
        self.assertEqual(ht.allreduce(mine, op=ht.BitXor)[1].item(), 7 * (size % 2))
        self.assertEqual(ht.reducescatter(mine[:1], op=ht.BitOr).numel(), int(rank == 0))
        with self.assertRaisesRegex(hvd.UnsupportedError, "bitwise"):
            ht.allreduce(torch.ones(2), op=ht.BitOr)

    def test_conjugated_views(self) -> None:
        given = torch.full((3,), complex(1, ht.rank() + 1)).conj()
        total = complex(ht.size(), -sum(range(1, ht.size() + 1)))
        self.assertEqual(ht.allreduce(given, op=ht.Sum).tolist(), [total] * 3)
        imaginary = given.imag  # a negated view
        self.assertEqual(ht.allreduce(imaginary, op=ht.Sum).tolist(), [total.imag] * 3)
        with self.assertRaisesRegex(hvd.UnsupportedError, "conjugated"):
            ht.allreduce_(given, op=ht.Sum)

    def test_priority_is_taken(self) -> None:
        handles = [
            ht.allreduce_async(torch.ones(9), op=ht.Sum, name=f"p{i}", priority=i) for i in range(4)
        ]
        for handle in handles:
            self.assertEqual(ht.synchronize(handle)[0].item(), ht.size())
        if ht.size() > 1:
            with self.assertRaisesRegex(hvd.MismatchError, "priority"):
                ht.allreduce(torch.ones(9), name="own priority", priority=ht.rank())


class Compressed(unittest.TestCase):
    def test_halves_are_added_in_float32(self) -> None:
        # As tensors of float16 this sum would be rounded between the ranks too.
        big = torch.full((5,), 2048.0 if ht.rank() == 0 else 1.5)
        for dtype in (torch.float32, torch.float64):
            for compression in (ht.Compression.fp16, ht.Compression.bf16):
                got = ht.allreduce(big.to(dtype), op=ht.Sum, compression=compression)
                half = torch.float16 if compression is ht.Compression.fp16 else torch.bfloat16
                exact = torch.tensor(2048.0 + 1.5 * (ht.size() - 1)).to(half).to(dtype)
                self.assertEqual((got.dtype, got[0].item()), (dtype, exact.item()))

    def test_others_are_cast(self) -> None:
        for dtype in (torch.int32, torch.bfloat16, torch.float16):
            given = torch.ones(3, dtype=dtype)
            got = ht.allreduce(given, op=ht.Sum, compression=ht.Compression.fp16)
            self.assertEqual((got.dtype, got.tolist()), (dtype, [ht.size()] * 3))
        mixed = [torch.ones(2), torch.ones(2, dtype=torch.int64)]
        for got, given in zip(
            ht.grouped_allreduce(mixed, op=ht.Sum, compression=ht.Compression.bf16), mixed
        ):
            self.assertEqual((got.dtype, got[0].item()), (given.dtype, ht.size()))

    def test_the_same_on_threads_that_take_subnormals_for_zero(self) -> None:
        """Such numbers are what casts to halves are made of; TensorFlow's threads drop them."""
        counts = (3, 36, 1000)
        thirds = [torch.full([count], 1 / 3) for count in counts]
        tiny = [torch.full([count], 1e-41) for count in counts]
        if ht.rank() == 0 and not torch.set_flush_denormal(True):
            self.skipTest("this processor keeps subnormal numbers")
        try:
            halves = [
                ht.allreduce(one, op=ht.Sum, compression=ht.Compression.fp16) for one in thirds
            ]
            sums = [ht.allreduce(one, op=ht.Sum) for one in tiny]
        finally:
            torch.set_flush_denormal(False)
        for half, total, third, one in zip(halves, sums, thirds, tiny):
            wanted = (ht.size() * third.half().float()).half().float()
            self.assertTrue(torch.equal(half, wanted))
            self.assertTrue(torch.equal(total, ht.size() * one))

    def test_own_compressors(self) -> None:
        class Doubled(ht.Compression.none):
            @staticmethod
            def compress(tensor):
                return 2 * tensor, 2

            @staticmethod
            def decompress(tensor, context):
                return tensor / context

        for operation in (ht.allreduce, ht.reducescatter):
            got = operation(torch.ones(ht.size()), op=ht.Sum, compression=Doubled)
            self.assertEqual(got[0].item(), ht.size())

    def test_methods_for_gradients_say_so(self) -> None:
        with self.assertRaisesRegex(hvd.UnsupportedError, "DistributedOptimizer"):
            ht.allreduce(torch.ones(2), compression=ht.Compression.top_k(0.1))


class Exchanges(unittest.TestCase):
    def test_alltoall(self) -> None:
        size, rank = ht.size(), ht.rank()
        sent = torch.cat([rows(rank * size + to, rank + to) for to in range(size)])
        expected = torch.cat([rows(by * size + rank, by + rank) for by in range(size)])
        counts = [rank + to for to in range(size)]
        for splits in (counts, torch.tensor(counts), torch.tensor(counts, dtype=torch.int32)):
            received, from_each = ht.alltoall(sent, splits)
            self.assertTrue(torch.equal(received, expected))
            self.assertEqual(from_each.dtype, torch.int32)
            self.assertEqual(from_each.tolist(), [by + rank for by in range(size)])
        got = ht.synchronize(ht.alltoall_async(sent, counts, name="later"))
        self.assertTrue(torch.equal(got[0], expected))
        even = ht.alltoall(torch.arange(2 * size) + 100 * rank)
        self.assertEqual(even[::2].tolist(), [100 * by + 2 * rank for by in range(size)])
        none, from_each = ht.alltoall(rows(rank, 3), [0] * size)
        self.assertEqual((tuple(none.shape), from_each.tolist()), ((0, 2), [0] * size))

    def test_gather_and_scatter(self) -> None:
        size, rank = ht.size(), ht.rank()
        root = size - 1
        counts = list(range(1, size + 1))
        gathered = ht.gather(rows(rank, counts[rank]), root)
        self.assertEqual(len(gathered), sum(counts) if rank == root else 0)
        if rank == root:
            self.assertTrue(torch.equal(gathered, all_rows(counts)))
        given = all_rows(counts) if rank == root else torch.empty(0, 2)
        for part in (
            ht.scatter(given, root, counts),
            ht.synchronize(ht.scatter_async(given, root, counts, "later")),
        ):
            self.assertTrue(torch.equal(part, rows(rank, counts[rank])))
        even = ht.scatter(rows(0, 7) if rank == root else torch.empty(0, 2), root)
        self.assertTrue(torch.equal(even, share(rows(0, 7), rank)))
        later = ht.synchronize(ht.gather_async(torch.tensor([rank]), root))
        self.assertEqual(later.tolist(), list(range(size)) if rank == root else [])

    def test_errors(self) -> None:
        size = ht.size()
        with self.assertRaisesRegex(hvd.InvalidArgumentError, "splits"):
            ht.alltoall(torch.ones(4), [1] * (size + 1))
        with self.assertRaisesRegex(hvd.InvalidArgumentError, "rows are left"):
            ht.alltoall(torch.ones(4), [5] + [0] * (size - 1))
        with self.assertRaisesRegex(ValueError, "integer"):
            ht.alltoall(torch.ones(4), torch.ones(size))
        with self.assertRaisesRegex(hvd.InvalidArgumentError, "root"):
            ht.gather(torch.ones(4), size)


class Gradients(unittest.TestCase):
    """Every gradient is that of the sum of all ranks' losses, times a factor that Horovod has."""

    def check(self, ours, plain, factor: float = 1, shape=None, dtype=torch.float64) -> None:
        """`ours(x)` on this rank; `plain(all x)` gives the results of all ranks."""
        size, rank = ht.size(), ht.rank()
        generator = torch.Generator().manual_seed(5)
        everyone = [
            torch.randn(shape(r) if shape else (2 * size, 3), generator=generator).to(dtype)
            for r in range(size)
        ]
        for one in everyone:
            one.requires_grad_()
        results = plain(everyone)
        weights = [torch.randn(one.shape, generator=generator).to(dtype) for one in results]
        sum((one * weight).sum() for one, weight in zip(results, weights)).backward()
        mine = everyone[rank].detach().clone().requires_grad_()
        result = ours(mine)
        if result.numel() == 0:
            self.assertEqual(results[rank].numel(), 0)
            result.sum().backward()
        else:
            self.assertTrue(torch.allclose(result, results[rank], rtol=1e-3))
            # An expanded gradient, as that of sum(), must do as well.
            (result * weights[rank]).sum().backward()
        expected = everyone[rank].grad
        expected = torch.zeros_like(mine) if expected is None else expected * factor
        precision = 1e-2 if dtype == torch.float16 else 1e-6
        self.assertTrue(torch.allclose(mine.grad, expected, rtol=precision, atol=precision))

    def test_allreduce(self) -> None:
        size = ht.size()
        self.check(lambda x: ht.allreduce(x, op=ht.Sum), lambda xs: [sum(xs)] * size)
        self.check(ht.allreduce, lambda xs: [sum(xs) / size] * size)
        self.check(
            lambda x: ht.allreduce(x, op=ht.Sum, prescale_factor=0.5, postscale_factor=3.0),
            lambda xs: [1.5 * sum(xs)] * size,
        )
        for op, extreme in ((ht.Min, torch.amin), (ht.Max, torch.amax)):
            self.check(
                lambda x, op=op: ht.allreduce(x, op=op),
                lambda xs, extreme=extreme: [extreme(torch.stack(xs), 0)] * size,
            )
        self.check(
            lambda x: ht.grouped_allreduce([x, 2 * x], op=ht.Sum)[1],
            lambda xs: [2 * sum(xs)] * size,
        )
        given = torch.ones(2, requires_grad=True)
        with self.assertRaisesRegex(hvd.UnsupportedError, "gradient"):
            ht.allreduce(given, op=ht.Product).sum().backward()

    def test_allreduce_as_halves(self) -> None:
        size = ht.size()
        self.check(
            lambda x: ht.allreduce(x, op=ht.Sum, compression=ht.Compression.fp16).double().half(),
            lambda xs: [sum(xs)] * size,
            dtype=torch.float16,
        )
        given = torch.ones(3, requires_grad=True)
        ht.allreduce(given, compression=ht.Compression.bf16).sum().backward()
        self.assertEqual(given.grad.tolist(), [1.0] * 3)

    def test_extremes_as_halves(self) -> None:
        for compression in (ht.Compression.fp16, ht.Compression.bf16):
            x = torch.tensor([(ht.rank() + 1) / 3, float("nan")], requires_grad=True)
            ht.allreduce(x, op=ht.Max, compression=compression).backward(torch.ones(2))
            is_last = ht.rank() == ht.size() - 1
            self.assertEqual(x.grad.tolist(), [ht.size() if is_last else 0, 0])

    def test_allgather(self) -> None:
        size = ht.size()
        uneven = {"shape": lambda r: (r + 1, 2), "factor": 1 / size}
        self.check(ht.allgather, lambda xs: [torch.cat(xs)] * size, **uneven)
        self.check(
            lambda x: ht.grouped_allgather([x[:0], x])[1],
            lambda xs: [torch.cat(xs)] * size,
            **uneven,
        )

    def test_broadcast(self) -> None:
        size = ht.size()
        for root in range(size):
            self.check(
                lambda x, root=root: ht.broadcast(x, root),
                lambda xs, root=root: [xs[root]] * size,
                factor=1 / size,
            )

    def test_reducescatter(self) -> None:
        size = ht.size()

        def shares(total):
            return [share(total, rank) for rank in range(size)]

        shape = {"shape": lambda r: (2 * size + 1, 3), "factor": size}
        self.check(lambda x: ht.reducescatter(x, op=ht.Sum), lambda xs: shares(sum(xs)), **shape)
        self.check(ht.reducescatter, lambda xs: shares(sum(xs) / size), **shape)
        self.check(
            lambda x: ht.grouped_reducescatter([x, x], op=ht.Sum, prescale_factor=2.0)[0],
            lambda xs: shares(2 * sum(xs)),
            **shape,
        )

    def test_reduce(self) -> None:
        size = ht.size()
        for op, divisor in ((ht.Sum, 1), (ht.Average, size)):
            self.check(
                lambda x, op=op: ht.reduce(x, size - 1, op=op, postscale_factor=2.0),
                lambda xs, divisor=divisor: [xs[0][:0]] * (size - 1) + [2 * sum(xs) / divisor],
            )

    def test_alltoall(self) -> None:
        size, rank = ht.size(), ht.rank()

        def splits(r):
            return [(r + to) % size + 1 for to in range(size)]

        def plain(xs):
            parts = [x[: sum(splits(r))].split(splits(r)) for r, x in enumerate(xs)]
            return [torch.cat([part[to] for part in parts]) for to in range(size)]

        # One row more than the splits take: nobody gets it.
        shape = {"shape": lambda r: (sum(splits(r)) + 1, 2)}
        self.check(lambda x: ht.alltoall(x, splits(rank))[0], plain, **shape)
        self.check(
            ht.alltoall,
            lambda xs: [torch.cat([x[2 * to : 2 * to + 2] for x in xs]) for to in range(size)],
        )

    def test_gather_and_scatter(self) -> None:
        size = ht.size()
        root = size - 1
        self.check(
            lambda x: ht.gather(x, root),
            lambda xs: [xs[0][:0]] * root + [torch.cat(xs)],
            shape=lambda r: (r + 1, 2),
        )
        counts = list(range(1, size + 1))
        self.check(
            lambda x: ht.scatter(x, root, counts),
            lambda xs: list(xs[root][: sum(counts)].split(counts)),
            shape=lambda r: (sum(counts) + 2, 3),
        )

    def test_all_against_finite_differences(self) -> None:
        size, rank = ht.size(), ht.rank()
        rows, halves = 2 * size + 1, ht.Compression.fp16

        def scaled(function, **options):
            return lambda x: function(x, op=ht.Sum, prescale_factor=0.5, **options)

        # By function: the factor that its gradient has by intent.
        for function, factor in (
            (ht.allreduce, 1),
            (scaled(ht.allreduce), 1),
            (lambda x: ht.allreduce(x, op=ht.Max), 1),
            (lambda x: torch.cat(ht.grouped_allreduce([x, 3 * x])), 1),
            (ht.allgather, 1 / size),
            (lambda x: torch.cat(ht.grouped_allgather([x, 3 * x])), 1 / size),
            (lambda x: ht.broadcast(x, size - 1), 1 / size),
            (ht.reducescatter, size),
            (scaled(ht.reducescatter, compression=ht.Compression.none), size),
            (lambda x: torch.cat(ht.grouped_reducescatter([x, 3 * x])), size),
            (lambda x: ht.reduce(x, 0), 1),
            (lambda x: scaled(ht.reduce, root_rank=size - 1)(x), 1),
            (lambda x: ht.gather(x[rank:], 0), 1),
            (lambda x: ht.scatter(x, size - 1), 1),
            (lambda x: ht.alltoall(x[:-1]), 1),
            (lambda x: ht.alltoall(x, [(rank + to) % 2 for to in range(size)])[0], 1),
            (lambda x: ht.allreduce(x.float(), compression=halves).double(), None),
        ):
            generator = torch.Generator().manual_seed(rank)
            given = torch.randn(rows, generator=generator, dtype=torch.float64)

            def loss(x, function=function):
                result = function(x)
                if result is None or result.numel() == 0:
                    return x.new_zeros(()) if result is None else result.sum()
                return (result * torch.linspace(1, 2, result.numel(), dtype=x.dtype)).sum()

            mine = given.clone().requires_grad_()
            loss(mine).backward()
            way = torch.randn(rows, generator=generator, dtype=torch.float64)
            step = 1e-4 if factor else 0.25  # halves are coarse
            for owner in range(size):
                here = step * way * (rank == owner)
                more, less = (ht.allreduce(loss(given + s * here), op=ht.Sum) for s in (1, -1))
                if rank == owner:
                    expected = ((more - less) / (2 * step) * (factor or 1)).item()
                    found = (mine.grad @ way).item()
                    self.assertAlmostEqual(found, expected, delta=1e-5 if factor else 0.1)

    def test_gradients_have_gradients(self) -> None:
        size, rank = ht.size(), ht.rank()
        total = sum(range(1, size + 1))
        ones = torch.ones(size, dtype=torch.float64)
        # d/dx of sum((d/dx sum(y^3))^2), as a penalty on gradients has it.
        for function, expected in (
            (lambda x: ht.allreduce(x, op=ht.Sum), 36 * size**3 * total**3),
            (ht.alltoall, 36 * (rank + 1) ** 3),
            (lambda x: ht.gather(x, 0), 36 * (rank + 1) ** 3),
            (lambda x: ht.scatter(x, 0), 36 if rank == 0 else 0),
            (lambda x: ht.broadcast(x, 0), 36 / size if rank == 0 else 0),
            (ht.allgather, 36 / size * (rank + 1) ** 3),
            (lambda x: ht.reducescatter(x, op=ht.Sum), 36 * size**3 * total**3),
        ):
            given = ((rank + 1) * ones).requires_grad_()
            cubes = (function(given) ** 3).sum()
            (first,) = torch.autograd.grad(cubes, given, create_graph=True)
            (first**2).sum().backward()
            self.assertEqual(given.grad.tolist(), [expected] * size)
        given = ones.requires_grad_()
        squares = (ht.reduce(given, 0, op=ht.Sum) ** 2).sum()
        (first,) = torch.autograd.grad(squares, given, create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "once_differentiable"):
            first.sum().backward()


if __name__ == "__main__":
    unittest.main(verbosity=2)
