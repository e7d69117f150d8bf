# SPDX-License-Identifier: Apache-2.0
"""Values of an elastic state that each rank has of its own, without a loss of a process."""

from __future__ import annotations

import logging
import unittest

import numpy
import torch

import hvd
import hvd.torch as ht
from hvd import elastic
from hvd._core.packing import pack, unpack
from hvd.seeds import RandomState, seed_everything
from hvd.torch.elastic import state as handlers


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    torch.set_num_threads(1)
    torch.set_printoptions(threshold=100000)
    logging.getLogger("hvd.elastic").setLevel(logging.ERROR)
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


def other_tensors() -> dict:
    return {
        "bfloat16": torch.arange(4, dtype=torch.bfloat16).reshape(2, 2),
        "bool": torch.tensor([True, False]),
        "transposed": torch.arange(6.0).reshape(2, 3).t(),
        "empty": torch.empty(0, 3),
        "number": torch.tensor(5),
        "complex": torch.tensor([1 + 2j]).conj(),
        "graded": torch.ones(2, requires_grad=True),
        "sparse": torch.eye(2).to_sparse(),
        "numpy": numpy.arange(5, dtype="i2")[::2],
        "objects": numpy.array([None, "x"], dtype=object),
        "plain": (1, "two", {3: [4.0]}, b"five"),
    }


class PerRank(unittest.TestCase):
    def test_values_are_packed_and_come_back(self) -> None:
        value = other_tensors()
        memory = pack(value)
        again = unpack(memory)
        self.assertEqual(str(again), str(value))
        self.assertIs(pack(value, memory), memory)
        memory[:] = type(memory)("B", bytes(len(memory)))
        again["bfloat16"] += 1  # in memory of its own
        self.assertEqual(str(again["transposed"]), str(value["transposed"]))

    def lose(self, state, rank: int, is_live: bool = False) -> None:
        """As if a process without a state had come in the place of this rank."""
        if ht.size() == 1:
            self.skipTest("a rank alone has no partner")
        has_state = ht.rank() != rank
        if not has_state:
            state._kept = type(state._kept)()
            state._version = 0
        newest = state._whole_version() if has_state else None
        agreed = elastic._agree(elastic._Known(0, False, 0, newest, state._oldest_version()))
        state._settle(agreed.newest, has_state, is_live)
        state._begin(False)

    def test_all_kinds_of_values_come_from_the_partner(self) -> None:
        torch.manual_seed(ht.rank())
        model = torch.nn.Linear(64, 64)
        ht.broadcast_parameters(model.state_dict())
        optimizer = ht.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), 0.1, momentum=0.9),
            model.named_parameters(),
            compression=ht.Compression.top_k(0.01),
        )
        nothing = optimizer.save_compression()
        mine = torch.nn.Parameter(torch.ones(3))
        shard = torch.optim.Adam([mine])
        own = elastic.PerRank
        state = ht.elastic.TorchState(
            model,
            optimizer,
            shard=own(shard),
            weights=own({"mine": mine.detach(), **other_tensors()}),
            rng=own(RandomState()),
            residuals=own(ht.elastic.CompressionState(optimizer)),
            step=0,
        )
        self.assertIs(state.shard, shard)
        state._settle(0, True, True)
        state._begin(False)
        for _ in range(3):
            (model(torch.randn(2, 64)).sum() * (ht.rank() + 1)).backward()
            optimizer.step()
            optimizer.zero_grad()
            mine.grad = torch.rand(3)
            shard.step()
            state.step += 1
            state.commit()

        def everything() -> str:
            values = {name: state._read_own(name) for name in state._own.marks}
            return str(values) + str(model.state_dict())

        state._leave(is_saved=True)
        expected = everything()
        self.assertEqual(len(set(hvd.allgather_object(expected))), ht.size())
        for victim in range(1, ht.size()):
            state.restore()
            if ht.rank() == victim:
                state.step, state.weights = 9, None
                torch.manual_seed(5)
                shard.state.clear()
                optimizer.load_compression(nothing)
                with torch.no_grad():
                    model.weight.fill_(9)
            self.lose(state, victim)
            self.assertEqual((state.step, everything()), (3, expected))
        self.assertEqual(state.commit_statistics().partner_bytes > 0, ht.size() > 1)

    def test_a_commit_counts_when_the_copies_have_come(self) -> None:
        state = elastic.ObjectState(step=0, mine=elastic.PerRank([ht.rank()]))
        state._settle(0, True, True)
        state._begin(False)
        for step in range(1, 4):
            state.step, state.mine = step, [ht.rank(), step]
            state.commit()
        self.assertEqual(state._whole_version(), 3 + (ht.size() == 1))
        state._note_leaving()
        self.assertIn(state._whole_version(), (3, 4))
        state._kept.newest.parts["own"].is_whole = ht.rank() != 0
        state.restore()
        self.assertEqual(state.mine, [ht.rank(), 3])
        self.lose(state, ht.size() - 1)
        self.assertEqual((state.step, state.mine), (2, [ht.rank(), 2]))

    def test_all_go_back_where_one_is_lost_as_all_leave_for_new_hosts(self) -> None:
        state = elastic.ObjectState(step=0, mine=elastic.PerRank([ht.rank()]))
        state._settle(0, True, True)
        state._begin(False)
        state.step, state.mine = 1, [ht.rank(), 1]
        state.commit()
        state._leave(is_saved=True)
        state.step, state.mine = 2, [ht.rank(), 2]
        self.lose(state, ht.size() - 1, is_live=True)
        # The lost one had later values, which nobody has: so none of those that are left is used.
        self.assertEqual((state.step, state.mine), (1, [ht.rank(), 1]))

    def test_without_a_loss_all_keep_what_they_have(self) -> None:
        seen = []

        @elastic.run
        def train(state):
            seen.append((state.step, state.mine))
            if len(seen) == 1:
                state.commit()
                state.step, state.mine = 1, [ht.rank(), "live"]
                ht.barrier()
                raise hvd.HostsUpdatedInterrupt(skip_sync=True)
            state.commit()

        train(elastic.ObjectState(step=0, mine=elastic.PerRank([ht.rank()])))
        self.assertEqual(seen, [(0, [ht.rank()]), (1, [ht.rank(), "live"])])

    def test_what_all_have_as_they_leave_is_with_rank_0(self) -> None:
        """Also what was done since the last commit."""
        state = elastic.ObjectState(step=0, mine=elastic.PerRank([ht.rank()]))
        state._settle(0, True, True)
        state._begin(False)
        state.commit()
        state.step, state.mine = 1, [ht.rank(), "later"]
        state.on_hosts_updated(1.0, elastic.HostUpdateResult.removed)
        with self.assertRaises(hvd.HostsUpdatedInterrupt):
            state.check_host_updates()
        kept = state._kept.newest.parts
        self.assertEqual((kept["attributes"]["step"], state._whole_version()), (1, 3))
        if ht.rank() == 0:
            found = [unpack(kept["own"].of(rank))["mine"] for rank in range(ht.size())]
            self.assertEqual(found, [[rank, "later"] for rank in range(ht.size())])
        ht.barrier()

    def test_a_value_that_was_exchanged_is_so_in_both_commits(self) -> None:
        model = torch.nn.Linear(2, 2)
        state = ht.elastic.TorchState(
            model, torch.optim.SGD(model.parameters(), 0.1), mine=elastic.PerRank(ht.rank())
        )
        state._settle(0, True, True)
        state._begin(False)
        state.commit()
        state.optimizer = torch.optim.SGD(
            [{"params": [one]} for one in model.parameters()], 0.1, momentum=0.9
        )
        for _ in range(2):
            state.restore()
            state._kept.drop_newer(state._kept.newest.version - 1)
        self.assertEqual(len(state.optimizer.param_groups), 2)
        ht.barrier()

    def test_who_was_a_spare_meanwhile_has_no_state(self) -> None:
        """Its saves are older than what the others keep."""
        state = elastic.ObjectState(step=0, mine=elastic.PerRank([ht.rank()]))
        state._settle(0, True, True)
        state._begin(False)
        for step in range(1, 4):
            state.step, state.mine = step, [ht.rank(), step]
            state.commit()
        state._leave(is_saved=True)
        returned = ht.rank() == ht.size() - 1 and ht.size() > 1
        if returned:
            for saved in state._kept.all:
                saved.version -= 2
            state.step, state.mine = 1, [ht.rank(), 1]
        newest = state._whole_version()
        agreed = elastic._agree(elastic._Known(0, True, 3, newest, state._oldest_version()))
        self.assertEqual((agreed.newest, newest < agreed.newest), (4, returned))
        state._settle(agreed.newest, newest >= agreed.newest, True)
        state._begin(agreed.is_equal)
        self.assertEqual((state.step, state.mine), (3, [ht.rank(), 3]))

    def test_generators_and_residuals_need_no_functions_of_a_program(self) -> None:
        model = torch.nn.Linear(64, 64)
        optimizer = ht.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), 0.1),
            model.named_parameters(),
            compression=ht.Compression.power_sgd(1),
        )
        residuals = ht.elastic.CompressionState(optimizer)
        nothing = residuals.state_dict()
        model(torch.randn(2, 64)).sum().backward()
        optimizer.step()
        # A rank alone compresses nothing.
        self.assertEqual(residuals.state_dict() == nothing, ht.size() == 1)
        mark = elastic.PerRank(residuals)
        parts = [residuals.state_dict(), {"compression": b"another"}]
        self.assertIs(mark.reshard(parts, 1, 3), parts[1])
        for fresh in (mark.reshard(parts, 2, 3), mark.missing(0, 2)):
            residuals.load_state_dict(parts[0])
            residuals.load_state_dict(fresh)
            self.assertTrue(residuals.state_dict() == nothing)

        seed_everything(3, rank=0)
        generators = RandomState()
        mark, before = elastic.PerRank(generators), str(generators.state_dict())
        fresh = [mark.reshard([before], rank, 3) for rank in range(3)]
        self.assertEqual(fresh[0], before)
        self.assertEqual(len({str(one) for one in fresh}), 3)
        generators.load_state_dict(fresh[2])
        self.assertEqual(str(generators.state_dict()), str(fresh[2]))

    def test_what_cannot_be(self) -> None:
        class Older(handlers.StateHandler):
            pass

        known = handlers.get_handler_registry()
        handlers.set_handler_registry([(complex, Older), *known])
        try:
            for values in ({"mine": elastic.PerRank(1j)}, {"mine": 1j, "x": elastic.PerRank(1)}):
                with self.assertRaisesRegex(ValueError, "'mine' cannot.*Older keeps copies itself"):
                    ht.elastic.TorchState(**values)
        finally:
            handlers.set_handler_registry(known)
        state = elastic.ObjectState(mine=elastic.PerRank(1))
        for call in (state.save, state.sync):
            with self.assertRaisesRegex(ValueError, "ObjectState: save.. and sync.. alone"):
                call()

        class Saving(elastic.ObjectState):
            def save(self) -> None:
                super().save()

        with self.assertRaisesRegex(ValueError, "Saving.save: .*give what they keep as keywords"):
            Saving(mine=elastic.PerRank(1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
