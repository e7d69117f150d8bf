# SPDX-License-Identifier: Apache-2.0
"""The allreduce of sparse tensors beside that of dense ones, and its averages of many ranks."""

from __future__ import annotations

import unittest

import torch

import hvd
import hvd.torch as ht
from hvd.torch.ops.sparse import average_of_rows

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
HALVES = [torch.float16, torch.bfloat16]


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


class Averages(unittest.TestCase):
    """Sums of one index fit into no narrow type, nor does the number of ranks."""

    def test_of_many_ranks(self) -> None:
        for dtype in [*INTEGERS, *HALVES]:
            small = {torch.float16: 6e-8, torch.bfloat16: 1e-36}.get(dtype, 1)
            for ranks in (4, 128, 256, 300):
                values = torch.tensor([[small, 100]]).repeat(ranks * 3 // 2, 1).to(dtype)
                places = torch.tensor([[4, 1, 4] * (ranks // 2)])
                found = average_of_rows(torch.sparse_coo_tensor(places, values, (5, 2)), ranks)
                self.assertEqual((found.dtype, found.is_coalesced()), (dtype, True))
                expected = torch.zeros(5, 2, dtype=torch.float64)
                expected[4] = values[0].double()
                expected[1] = values[0].double() / 2
                if dtype in INTEGERS:
                    expected = expected.trunc()
                self.assertTrue(torch.equal(found.to_dense(), expected.to(dtype)), (dtype, ranks))

    def test_negative_whole_numbers_go_toward_zero(self) -> None:
        rows = torch.tensor([-100, -100, 100], dtype=torch.int8).to_sparse()
        self.assertEqual(average_of_rows(rows, 3).to_dense().tolist(), [-33, -33, 33])

    def test_of_these_ranks(self) -> None:
        for dtype in [*INTEGERS, *HALVES]:
            dense = torch.zeros(3, 2, dtype=dtype)
            dense[ht.rank() % 3 :] = 3 * ht.rank() + 1
            found = ht.sparse_allreduce(dense.to_sparse(1)).to_dense()
            self.assertTrue(torch.equal(found, ht.allreduce(dense)), dtype)


class Sparse(unittest.TestCase):
    def test_is_the_dense_one(self) -> None:
        dense = torch.zeros(5, 3)
        dense[ht.rank() % 5] = float(ht.rank() + 1)  # rows that ranks share beyond five
        for op in (ht.Sum, ht.Average):
            expected = ht.allreduce(dense, op=op)
            result = ht.sparse_allreduce(dense.to_sparse(1), name=f"rows.{op}", op=op)
            self.assertTrue(torch.allclose(result.to_dense(), expected))
            result = ht.sparse_allreduce(dense.to_sparse(), op=op)
            self.assertTrue(torch.allclose(result.to_dense(), expected))
        nothing = torch.sparse_coo_tensor(torch.zeros((1, 0)), torch.zeros((0, 3)), (5, 3))
        self.assertEqual(ht.sparse_allreduce(nothing).to_dense().abs().sum().item(), 0)
        with self.assertRaises(hvd.errors.UnsupportedError):
            ht.sparse_allreduce(dense.to_sparse(), op=ht.Max)
        with self.assertRaises(hvd.errors.UnsupportedError):
            ht.sparse_allreduce(dense)

    def test_sparse_adam_gets_sparse_gradients(self) -> None:
        """Whatever sparse_as_dense says; it takes no dense ones."""
        results = []
        for as_dense in (False, True):
            torch.manual_seed(3)
            table = torch.nn.Embedding(6, 2, sparse=True)
            own = torch.nn.Embedding(6, 2, sparse=True)
            own.load_state_dict(table.state_dict())
            optimizer = ht.DistributedOptimizer(
                torch.optim.SparseAdam(list(table.parameters()), lr=0.1),
                table.named_parameters(),
                sparse_as_dense=as_dense,
            )
            alone = torch.optim.SparseAdam(list(own.parameters()), lr=0.1)
            for step in range(3):
                optimizer.zero_grad()
                table(torch.tensor([ht.rank(), step])).square().sum().backward()
                optimizer.step()
                alone.zero_grad()  # what all ranks do, on one
                rows = [row for rank in range(ht.size()) for row in (rank, step)]
                (own(torch.tensor(rows)).square().sum() / ht.size()).backward()
                alone.step()
            self.assertTrue(torch.allclose(table.weight, own.weight, atol=1e-6))
            results.append(table.weight.detach())
        self.assertTrue(torch.equal(*results))


class Names(unittest.TestCase):
    def test_adasum_as_pages_print_it(self) -> None:
        self.assertEqual(ht.AdaSum, ht.Adasum)


if __name__ == "__main__":
    unittest.main(verbosity=2)
