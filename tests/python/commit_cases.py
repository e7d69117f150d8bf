# SPDX-License-Identifier: Apache-2.0
"""Commits of elastic training: whole, the same on all ranks, and in memory that is there."""

from __future__ import annotations

import copy
import logging
import random
import unittest
from collections import OrderedDict

import numpy
import torch

import hvd
import hvd.torch as ht
from hvd import elastic
from hvd._core.commit_pace import CommitPace, steps_between_commits, time_to_failure
from hvd._core.copies import copied
from hvd.seeds import RandomState
from hvd.state_handlers import HandledState
from hvd.torch.elastic import state as handlers


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    torch.set_num_threads(1)
    torch.set_printoptions(threshold=100000)
    logging.getLogger("hvd.elastic").setLevel(logging.ERROR)
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


class Copies(unittest.TestCase):
    def test_memory_is_taken_again(self) -> None:
        value = {"t": torch.ones(3), "a": numpy.zeros((2, 2)), "l": [1, (torch.ones(1),)], "n": 1}
        first = copied(value)
        value["t"] += 1
        value["a"][0, 1] = 5
        value["l"][1][0].zero_()
        value["n"] = 2
        second = copied(value, first)
        self.assertIs(second["t"], first["t"])
        self.assertIs(second["a"], first["a"])
        self.assertIs(second["l"][1][0], first["l"][1][0])
        self.assertEqual(second["t"].tolist(), [2, 2, 2])
        self.assertEqual(second["a"].tolist(), [[0, 5], [0, 0]])
        self.assertEqual((second["l"][1][0].item(), second["n"], first["n"]), (0, 2, 1))

    def test_what_does_not_fit_is_made_anew(self) -> None:
        graded = torch.ones(2, requires_grad=True)
        graded.grad = torch.ones(2)
        old = [torch.ones(3), torch.ones(2), numpy.ones(2), [1], torch.ones(2), torch.ones(2, 3)]
        new = [torch.ones(4), torch.ones(2).double(), numpy.ones(2, "i4"), {}, graded]
        new.append(torch.ones(3, 2).t())
        result = copied(new, copied(old))
        for one, other in zip(result, new):
            self.assertIsNot(one, other)
            self.assertEqual(str(one), str(other))
        self.assertEqual(result[4].grad.tolist(), [1, 1])
        sparse = [torch.eye(2).to_sparse()]
        self.assertTrue(copied(sparse, copied(sparse))[0].is_sparse)

    def test_what_shares_memory_still_does(self) -> None:
        whole = torch.arange(6.0)
        tied = {"whole": whole, "end": whole[4:], "again": whole}
        result = copied(tied, copied(tied))
        self.assertIs(result["whole"], result["again"])
        result["whole"][5] = 9
        self.assertEqual(result["end"].tolist(), [4, 9])
        # Untied and tied meanwhile, each in turn: nothing of the old copy can be used.
        untied = {"whole": whole, "end": whole[4:].clone(), "again": whole}
        for old, value in ((tied, untied), (untied, tied)):
            result = copied(value, copied(old))
            result["whole"][5] = 9
            self.assertEqual(result["end"][1].item() == 9, value is tied)
        graded = torch.ones(2, requires_grad=True)
        graded.grad = torch.ones(2)
        for mixed in ([graded, graded.detach()], [graded.detach(), graded]):
            result = copied(mixed, copied([torch.ones(2), torch.ones(2)]))
            self.assertEqual(result[0].data_ptr(), result[1].data_ptr())

    def test_the_state_of_a_module_is_as_deepcopy_has_it(self) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
        model[0].weight.requires_grad_(False)
        before = copied(model.state_dict())
        with torch.no_grad():
            model[0].weight += 1
        state = model.state_dict()
        result, expected = copied(state, before), copy.deepcopy(state)
        self.assertIs(type(result), OrderedDict)
        self.assertEqual(result._metadata, expected._metadata)
        self.assertEqual(str(result), str(expected))
        self.assertIs(result["0.weight"], before["0.weight"])


class Commits(unittest.TestCase):
    def test_the_memory_of_the_commit_before_the_last_is_taken(self) -> None:
        model = torch.nn.Linear(2, 2)
        state = ht.elastic.TorchState(model, torch.optim.SGD(model.parameters(), 0.1), step=0)
        addresses = []
        for _ in range(5):
            state.commit()
            kept = state._kept.newest.parts["handlers"]["model"]["weight"]
            addresses.append(kept.data_ptr())
        self.assertEqual(len(set(addresses)), 2)
        self.assertEqual(addresses[1:3], addresses[3:5])
        costs = state.commit_statistics()
        self.assertEqual(costs.commits, 5)
        self.assertGreater(costs.seconds, 0)

    def test_a_commit_that_is_broken_off_leaves_the_last_one_whole(self) -> None:
        class Stubborn(handlers.CopiedStateHandler):
            def read(self):
                if self.value == "break":
                    raise KeyboardInterrupt
                return self.value

            def write(self, kept) -> None:
                self.value = kept

        handlers.set_handler_registry(
            [(str, Stubborn), *(known := handlers.get_handler_registry())]
        )
        try:
            model = torch.nn.Linear(1, 1)
            state = ht.elastic.TorchState(model, word="first", step=0)
        finally:
            handlers.set_handler_registry(known)
        for step in range(1, 4):
            with torch.no_grad():
                model.weight.fill_(step)
            state.step = step
            state._handlers["word"].value = f"word {step}"
            state.commit()
        with torch.no_grad():
            model.weight.fill_(9)
        state.step, state._handlers["word"].value = 9, "break"
        with self.assertRaises(KeyboardInterrupt):
            state.commit()
        state.restore()
        self.assertEqual(
            (state.step, state._handlers["word"].value, model.weight.item()), (3, "word 3", 3)
        )
        self.assertEqual((state.commit_statistics().commits, state._version), (3, 3))
        state.commit()
        ht.barrier()

    def test_all_have_one_commit_where_a_rank_fails_within_its_save(self) -> None:
        """Also of what a subclass, or a handler of a program's own, keeps itself."""

        def fail_if_due(step, rank) -> None:
            if step == 3 and not failures and ht.rank() == rank:
                failures.append(step)
                raise hvd.HvdError("on purpose")

        class Subclass(elastic.ObjectState):
            """As Horovod's own states are made: before and after the rest."""

            first = last = kept = 0

            def save(self) -> None:
                fail_if_due(self.step, failing)
                super().save()
                self.kept = self.first, self.last

            def restore(self) -> None:
                self.first, self.last = self.kept
                super().restore()

            def sync(self) -> None:
                self.first, self.last = hvd.broadcast_object((self.first, self.last))
                super().sync()
                self.kept = self.first, self.last

            def values(self):
                return self.step, self.first, self.last

            def advance(self) -> None:
                self.step, self.first, self.last = self.step + 1, self.first + 1, self.last + 1

        class Numbers(handlers.StateHandler):
            def save(self) -> None:
                fail_if_due(self.value[0], failing)
                self.kept = list(self.value)

            def restore(self) -> None:
                self.value[:] = self.kept

            def sync(self) -> None:
                self.value[:] = hvd.broadcast_object(self.value)

        class WithHandler(HandledState):
            def values(self):
                return self.step, self.numbers[0]

            def advance(self) -> None:
                self.step += 1
                self.numbers[0] += 1

        @elastic.run
        def train(state):
            seen.append(state.values())
            while state.step < 4:
                state.advance()
                state.commit()
                ht.barrier()

        made = (
            lambda: Subclass(step=0),
            lambda: WithHandler([(list, Numbers)], step=0, numbers=[0]),
        )
        for make in made:
            for failing in {0, ht.size() - 1}:
                with self.subTest(state=make().__class__.__name__, failing=failing):
                    seen: list[tuple] = []
                    failures: list[int] = []
                    state = make()
                    train(state)
                    self.assertEqual(len(seen), 2)
                    self.assertEqual(len(set(seen[1])), 1, "a mix of two commits")
                    self.assertEqual(hvd.allgather_object(seen[1]), [seen[1]] * ht.size())
                    self.assertEqual(set(state.values()), {4})
                    if isinstance(state, Subclass):
                        # Rank 0's, which has committed where another has failed.
                        self.assertEqual(seen[1][0], 2 if failing == 0 else 3)

    def test_a_look_at_the_hosts_of_ones_own_is_used(self) -> None:
        looks = []

        class Looking(elastic.ObjectState):
            def check_host_updates(self) -> None:
                looks.append(self.step)
                if self.step == 2:
                    super().check_host_updates()

        state = Looking(step=1)
        state.on_hosts_updated(1.0, elastic.HostUpdateResult.added)
        state.commit()
        state.step = 2
        with self.assertRaises(hvd.HostsUpdatedInterrupt):
            state.commit()
        self.assertEqual((looks, state.commit_statistics().commits), ([1, 2], 2))

    def test_handlers_with_a_save_of_their_own_are_called(self) -> None:
        calls = []

        class Model(handlers.ModelStateHandler):
            def save(self) -> None:
                calls.append("save")
                super().save()

        class Stateful(handlers.StatefulHandler):
            def restore(self) -> None:
                calls.append("restore")
                super().restore()

        known = handlers.get_handler_registry()
        handlers.set_handler_registry([(torch.nn.Module, Model), (RandomState, Stateful), *known])
        try:
            model = torch.nn.Linear(1, 1)
            state = ht.elastic.TorchState(model, rng=RandomState(), step=0)
        finally:
            handlers.set_handler_registry(known)
        calls.clear()
        before = model.weight.item(), random.getstate()
        state.commit()
        random.random()
        with torch.no_grad():
            model.weight.zero_()
        state.restore()
        self.assertEqual(calls, ["save", "restore"])
        self.assertEqual((model.weight.item(), random.getstate()), before)
        other = torch.nn.Linear(1, 1)
        weight = other.weight.item()
        state.model = other  # kept by its handler, as at the first
        with torch.no_grad():
            other.weight.zero_()
        state.restore()
        self.assertEqual(other.weight.item(), weight)

    def test_a_handler_alone_goes_back_to_its_beginning(self) -> None:
        model = torch.nn.Linear(1, 1)
        handler = handlers.ModelStateHandler(model)
        before = model.weight.item()
        with torch.no_grad():
            model.weight.zero_()
        handler.restore()
        self.assertEqual(model.weight.item(), before)
        # In a state it has no third copy.
        state = ht.elastic.TorchState(model)
        self.assertIsNone(state._handlers["model"]._saved)
        state._handlers["model"].restore()

    def test_a_broadcast_of_ones_own_is_used(self) -> None:
        told = []

        def broadcast(obj):
            told.append(obj)
            return hvd.broadcast_object(obj)

        state = elastic.ObjectState(broadcast, step=0)
        state.commit()
        self.assertEqual(told, [(0.0, 0.0, 0, 0)])
        state.on_hosts_updated(-5.0, elastic.HostUpdateResult.removed)  # older than none
        state.check_host_updates()
        state.on_hosts_updated(2.0, elastic.HostUpdateResult.removed)
        with self.assertRaises(hvd.HostsUpdatedInterrupt) as caught:
            state.commit()
        self.assertTrue(caught.exception.skip_sync)
        self.assertEqual(state.commit_statistics().commits, 2)


class Pace(unittest.TestCase):
    def test_the_interval_is_the_best_of_all(self) -> None:
        """Of commits and lost work together, as Young has them, by trying all intervals."""
        for cost, step, failure in ((0.01, 0.05, 5000.0), (0.2, 1.5, 86400.0), (0.001, 0.3, 1e6)):
            found = steps_between_commits(cost, step, failure)

            def lost(steps, cost=cost, step=step, failure=failure) -> float:
                return cost / (steps * step) + steps * step / (2 * failure)

            best = min(range(1, 5 * found + 10), key=lost)
            self.assertLessEqual(abs(found - best), 1)
        self.assertEqual(steps_between_commits(1.0, 1.0, 10.0), 50)
        self.assertEqual(steps_between_commits(0.0, 1.0, 10.0), 1)
        self.assertEqual(steps_between_commits(1.0, 0.0, 10.0), 1000000)
        for wrong in ((-1, 1, 1), (1, float("nan"), 1), (1, 1, float("inf")), (1, 1, 1, 0)):
            with self.assertRaisesRegex(ValueError, "give times of 0 or more"):
                steps_between_commits(*wrong)

    def test_losses_that_were_seen_count(self) -> None:
        self.assertEqual(time_to_failure(100.0, 300.0, 1), 200.0)
        pace = CommitPace("auto", mean_time_between_failures=1e6)
        for _ in range(3):
            pace.is_due()
            pace._last -= 1.0  # a step took a second longer
            calm = pace.choose(0.01)
        pace.losses = 99
        self.assertGreater(calm + 1, 9 * (pace.choose(0.01) + 1))

    def test_one_call_in_so_many_commits(self) -> None:
        seen = []

        @elastic.run(commit_every=3)
        def train(state):
            seen.append(state.step)
            while state.step < 8:
                state.step += 1
                state.commit()
                if state.step == 6 and len(seen) == 1:
                    ht.barrier()
                    raise hvd.AbortedError("on purpose")

        state = elastic.ObjectState(step=0)
        train(state)
        # Commits at 1 and 4; at 5, the first call after the start, and at 8.
        self.assertEqual(seen, [0, 4])
        costs = state.commit_statistics()
        self.assertEqual((costs.commits, costs.skipped), (4, 6))
        state.restore()
        self.assertEqual(state.step, 8)

    def test_changes_of_hosts_are_seen_all_the_same(self) -> None:
        seen = []

        @elastic.run(commit_every=1000)
        def train(state):
            seen.append(state.step)
            while state.step < 40:
                state.step += 1
                if state.step == 20 and ht.rank() == 0:
                    elastic.hosts_updated(1.0, elastic.HostUpdateResult.removed)
                state.commit()

        train(elastic.ObjectState(step=0))
        self.assertEqual(seen, [0, 33])  # what had been done since the commit is not lost

    def test_all_decide_as_rank_0_does(self) -> None:
        """The others have other costs, and other failures in mind."""
        rank = ht.rank()

        @elastic.run(commit_every="auto", mean_time_between_failures=1e3 if rank == 0 else 1.0)
        def train(state):
            for _ in range(60):
                state.step += 1
                # As if the training took a second for each step.
                state._pace._last -= 1.0
                state.commit()

        class Costly(elastic.ObjectState):
            def save(self) -> None:
                super().save()
                self.saves.append(self.step)

        state = Costly(step=0)
        state.saves = []
        train(state)
        self.assertEqual(hvd.allgather_object(state.saves), [state.saves] * ht.size())
        self.assertEqual(state.saves[:3], [1, 2, 3])
        self.assertEqual(state.commit_statistics().commits, len(state.saves))

    def test_what_no_pace_is(self) -> None:
        for wrong in (0, -1, "often", 1.5, True):
            with self.assertRaisesRegex(ValueError, "commit_every is"):
                elastic.run(commit_every=wrong)(lambda state: None)
        for wrong in (0, -1.0, float("nan")):
            with self.assertRaisesRegex(ValueError, "mean_time_between_failures is"):
                elastic.run(lambda state: None, mean_time_between_failures=wrong)


if __name__ == "__main__":
    unittest.main(verbosity=2)
