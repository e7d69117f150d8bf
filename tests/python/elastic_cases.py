# SPDX-License-Identifier: Apache-2.0
"""Elastic training at a constant number of ranks, run by each rank."""

from __future__ import annotations

import logging
import pickle
import sys
import unittest

import ranks
import torch

import hvd
import hvd.torch as ht
from hvd import elastic, objects
from hvd._core import api, newcomers
from hvd.data import ElasticIndices
from hvd.errors import InvalidArgumentError
from hvd.state_handlers import HANDLERS, HandledState
from hvd.torch import elastic as torch_elastic
from hvd.torch.elastic import state as handlers


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    torch.set_num_threads(1)
    logging.getLogger("hvd.elastic").setLevel(logging.ERROR)
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


def last_rank() -> int:
    return ht.size() - 1


class Objects(unittest.TestCase):
    def test_objects_and_numbers_travel(self) -> None:
        last = last_rank()
        mine = {"rank": ht.rank(), "text": "x" * ht.rank()}
        self.assertEqual(objects.broadcast_object(mine, last), {"rank": last, "text": "x" * last})
        self.assertEqual(
            objects.allgather_object(mine),
            [{"rank": rank, "text": "x" * rank} for rank in range(ht.size())],
        )
        total = sum(range(ht.size()))
        self.assertEqual(objects.allreduce_numbers([ht.rank(), 1.0]), [total, float(ht.size())])

    def test_an_object_that_cannot_travel_is_an_error_of_all(self) -> None:
        last = last_rank()

        class Fixed:
            def __reduce__(self):
                raise TypeError("it stays")

        mine = Fixed() if ht.rank() == last else 1
        words = f"rank {last} could not pickle its object"
        for call in (lambda: hvd.broadcast_object(mine, last), lambda: hvd.allgather_object(mine)):
            with self.assertRaisesRegex(ValueError, words) as caught:
                call()
            self.assertEqual("it stays" in str(caught.exception), ht.rank() == last)
        ht.barrier()


class Errors(unittest.TestCase):
    def test_which_are_recoverable(self) -> None:
        fine = [hvd.PeerLostError, hvd.AbortedError, hvd.DeadlineError, hvd.HvdError]
        self.assertTrue(all(elastic.is_recoverable(kind("x")) for kind in fine))
        wrong = [hvd.InvalidArgumentError, hvd.MismatchError, hvd.NotInitializedError, ValueError]
        self.assertFalse(any(elastic.is_recoverable(kind("x")) for kind in wrong))

    def test_the_interrupt_can_be_pickled(self) -> None:
        for skip_sync in (False, True):
            error = pickle.loads(pickle.dumps(hvd.HostsUpdatedInterrupt(skip_sync)))
            self.assertEqual(error.skip_sync, skip_sync)
            self.assertIn(str(skip_sync), str(error))

    def test_an_error_of_the_program_passes(self) -> None:
        @elastic.run
        def train(state):
            raise ValueError("wrong on every rank")

        with self.assertRaisesRegex(ValueError, "wrong on every rank"):
            train(elastic.ObjectState())
        ht.barrier()  # the job goes on


class Run(unittest.TestCase):
    def test_one_rank_fails_and_all_go_back_to_the_last_commit(self) -> None:
        """Whatever the error is, and whatever the other ranks do meanwhile."""

        def aborts() -> None:
            api.abort("on purpose")

        def leaves() -> None:
            ht.shutdown()
            raise hvd.AbortedError("left on purpose")

        def raises() -> None:
            raise hvd.HvdError("raised on purpose")

        for fail in (aborts, leaves, raises):
            with self.subTest(fail=fail.__name__):
                self.check_recovery(fail)

    def check_recovery(self, fail) -> None:
        calls: list[tuple[int, int]] = []
        resets: list[int] = []
        generations: list[int] = []

        @elastic.run
        def train(state, until, by):
            generations.append(state.step)
            while state.step < until:
                calls.append((state.step, len(state.seen)))
                if state.step == 3 and len(generations) == 1 and ht.rank() == last_rank():
                    fail()
                ht.allreduce(torch.ones(2))
                state.seen.append(state.step)
                state.step += by
                if state.step == 2:
                    state.commit()
            return state.step

        # Rank 0's values count.
        state = elastic.ObjectState(step=0, seen=[] if ht.rank() == 0 else [99])
        state.register_reset_callbacks([lambda: resets.append(ht.size()), lambda: None])
        self.assertEqual(train(state, 5, by=1), 5)
        self.assertEqual(generations, [0, 2])
        self.assertEqual(state.seen, [0, 1, 2, 3, 4])
        # Some ranks may not have seen the end of step 2 before.
        self.assertIn([step for step, _ in calls], ([0, 1, 2, 3, 2, 3, 4], [0, 1, 2, 2, 3, 4]))
        self.assertTrue(all(step == seen for step, seen in calls))
        self.assertEqual(resets, [ht.size()])

    def test_errors_without_a_commit_between_end_the_run(self) -> None:
        tries = []

        @elastic.run(reset_limit=2)
        def train(state):
            ht.barrier()
            tries.append(state.step)
            if len(tries) == 2:
                state.commit()  # begins the counting anew
            ht.barrier()
            if ht.rank() == 0:
                raise hvd.AbortedError("again and again")
            ht.barrier()

        with self.assertRaisesRegex(
            elastic.ResetLimitError, "3 errors in a row.*2 are allowed"
        ) as caught:
            train(elastic.ObjectState(step=0))
        self.assertTrue(elastic.is_recoverable(caught.exception.__cause__))
        self.assertEqual(len(tries), 4)
        ht.barrier()  # the job goes on

    def test_ranks_agree_on_errors_on_the_version_and_on_whether_they_are_equal(self) -> None:
        most, rank, known = last_rank(), ht.rank(), elastic._Known
        self.assertEqual(elastic._agree(known(rank, True, 7, 5, rank)), (most, True, 7, 5, 0))
        for everyone, agreed in (
            ([known(0, True, 1, 5, 4), known(2, False, 1, 5, 4)], (2, False, 1, 5, 0)),
            # One commit apart, and one that has no state.
            ([known(0, True, 2, 6, 5), known(0, True, 1, 5, 4)], (0, False, 2, 5, 0)),
            ([known(0, True, 0, None), known(0, True, 1, 5, 4)], (0, False, 1, 5, 0)),
            # Saves that are older than all of another; as old as its oldest.
            ([known(0, True, 9, 6, 5), known(0, True, 7, 4, 3)], (0, False, 9, 6, 0)),
            ([known(0, True, 9, 6, 5), known(0, True, 7, 5, 4)], (0, False, 9, 5, 0)),
        ):
            self.assertEqual(elastic._agreed(everyone), agreed)
            self.assertEqual(elastic._agreed(everyone[::-1]), agreed)

    def test_nobody_goes_on_with_a_state_that_nobody_has(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "no rank is left that has the state"):
            elastic._agree(elastic._Known(0, False, 0, None))

    def test_what_comes_to_a_job_at_work_takes_no_part_in_operations(self) -> None:
        newcomers.is_one = True
        try:
            with self.assertRaisesRegex(InvalidArgumentError, "'alone'.*a job that is at work"):
                objects.allreduce_numbers([1.0], name="alone")
        finally:
            newcomers.admit()
        self.assertEqual(objects.allreduce_numbers([1.0], name="alone"), [float(last_rank() + 1)])

    def test_ranks_that_leave_for_two_reasons_are_made_equal(self) -> None:
        """Rank 0 would keep what it has; the others have failed and gone back."""
        seen: list[int] = []

        @elastic.run
        def train(state):
            seen.append(state.own)
            ht.barrier()
            if len(seen) == 1:
                state.own = ht.rank() + 5
                if ht.rank() == 0:
                    raise hvd.HostsUpdatedInterrupt(skip_sync=True)
                raise hvd.AbortedError("on purpose")

        train(elastic.ObjectState(own=-1))
        self.assertEqual(seen, [-1, 5])

    def test_changed_hosts_reset_without_going_back(self) -> None:
        for update in (elastic.HostUpdateResult.added, elastic.HostUpdateResult.removed):
            seen: list[tuple[int, int]] = []

            @elastic.run
            def train(state, update, seen):
                seen.append((state.step, state.own))
                if len(seen) == 1:
                    state.step, state.own = 1, ht.rank()
                    state.save()
                    state.step = 2
                    if ht.rank() == 0:
                        elastic.hosts_updated(1.0, update)
                    state.check_host_updates()
                    raise AssertionError("the update was not seen")
                state.commit()  # once told, no more

            train(elastic.ObjectState(step=0, own=-1), update, seen)
            # Hosts that have only gone leave equal ranks: nothing is synchronized.
            own = ht.rank() if update == elastic.HostUpdateResult.removed else 0
            self.assertEqual(seen, [(0, -1), (2, own)])

    def test_a_rank_that_ended_does_not_come_back(self) -> None:
        program = """
import os, signal, hvd
from hvd import elastic
hvd.init()
@elastic.run(timeout=1)
def train(state):
    if hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        hvd.barrier()
try:
    train(elastic.ObjectState())
except hvd.PeerLostError as error:
    print("ENDED", error)
"""
        if ht.rank() == 0:
            outcomes = ranks.run_ranks([sys.executable, "-c", program], 2, 60)
            self.assertEqual(outcomes[0].code, 0, outcomes[0].text)
            self.assertRegex(
                outcomes[0].text, "ENDED elastic: .*cannot start again after 'rank 1.* did not come"
            )
        ht.barrier()


class Torch(unittest.TestCase):
    def train(self, fails_at: int, passes=1, **options) -> list[torch.Tensor]:
        """The parameters after two epochs; with a failure in the middle of the step `fails_at`."""
        torch.manual_seed(ht.rank())
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
        optimizer = ht.DistributedOptimizer(
            torch.optim.Adam(model.parameters(), lr=0.01),
            model.named_parameters(),
            backward_passes_per_step=passes,
            **options,
        )
        inputs = torch.randn(48, 4, generator=torch.Generator().manual_seed(5))
        sampler = torch_elastic.ElasticSampler(range(48), seed=3)
        failures = []

        @torch_elastic.run
        def train(state):
            while state.epoch < 2:
                loader = torch.utils.data.DataLoader(inputs, batch_size=8, sampler=state.sampler)
                for batch in loader:
                    state.optimizer.zero_grad()
                    state.model(batch).square().sum().backward()
                    state.batch += 1
                    if state.batch == fails_at and not failures:
                        failures.append(state.batch)
                        if ht.rank() == last_rank():
                            raise hvd.HvdError("in the middle of a step")
                    for _ in range(1, passes):
                        state.model(batch).square().sum().backward()
                    state.optimizer.step()
                    state.sampler.record_batch(0, 8)
                    state.commit()
                state.epoch += 1
                state.sampler.set_epoch(state.epoch)
                state.commit()

        state = torch_elastic.TorchState(model, optimizer, sampler=sampler, epoch=0, batch=0)
        self.assertIs(state.model, model)
        train(state)
        if ht.rank() == last_rank():  # another one may see it before that line, and go on after
            self.assertEqual(len(failures), int(fails_at > 0))
        return [parameter.detach().clone() for parameter in model.parameters()]

    def test_a_failure_leaves_no_trace_in_the_training(self) -> None:
        for options in (
            {},
            {"passes": 2},
            {"groups": 1},
            {"compression": ht.Compression.top_k(0.2)},
        ):
            with self.subTest(**options):
                undisturbed = self.train(0, **options)
                disturbed = self.train(3, **options)
                self.assertTrue(all(map(torch.equal, undisturbed, disturbed)))

    def test_values_may_be_replaced_and_handled_by_others(self) -> None:
        class Doubler(handlers.StateHandler):
            def save(self) -> None:
                self.saved = self.value * 2

            def set_value(self, value) -> None:
                super().set_value(value)
                self.seen = value

        known = handlers.get_handler_registry()
        try:
            handlers.set_handler_registry([(complex, Doubler), *known])
            state = torch_elastic.TorchState(number=1 + 1j, plain=[1])
        finally:
            handlers.set_handler_registry(known)
        self.assertIsNone(state.model)
        state.number = 3j
        state.save()
        doubler = state._handlers["number"]
        self.assertEqual((state.number, doubler.seen, doubler.saved), (3j, 3j, 6j))
        model = torch.nn.Linear(2, 2)
        state = torch_elastic.TorchState(torch.nn.Linear(2, 2))
        state.model = model
        before = model.weight.detach().clone()
        with torch.no_grad():
            model.weight.zero_()
        state.restore()
        self.assertTrue(torch.equal(model.weight, before))

    def test_indices_need_no_framework(self) -> None:
        state = HandledState(HANDLERS, indices=ElasticIndices(range(8 * ht.size()), shuffle=False))
        everyone = range(ht.rank(), 8 * ht.size(), ht.size())
        state.indices.record_batch(0, 2)
        state.save()
        state.indices.record_batch(1, 3)
        state.restore()
        state.on_reset()
        self.assertEqual(list(state.indices), list(everyone[2:]))
        if ht.rank() == 0:
            state.indices.record_batch(1, 1)
        state.sync()  # what rank 0 says, for the place of each rank
        self.assertEqual(list(state.indices), list(everyone[3:]))

    def test_the_sampler_shares_out_what_is_left(self) -> None:
        count = 23
        sampler = torch_elastic.ElasticSampler(range(count), seed=7)
        epoch = [index for part in objects.allgather_object(list(sampler)) for index in part]
        self.assertEqual(set(epoch), set(range(count)))
        self.assertEqual(len(epoch), len(sampler) * ht.size())
        self.assertEqual(len(list(sampler)), len(sampler))
        sampler.record_batch(0, 2)
        done = set(sampler.remaining_indices[: 2 * ht.size()])
        other = torch_elastic.ElasticSampler(range(count), seed=7)
        other.load_state_dict(sampler.state_dict())
        left = {index for part in objects.allgather_object(list(other)) for index in part}
        self.assertEqual(left, set(range(count)) - done)
        first = list(sampler)
        sampler.set_epoch(1)
        self.assertEqual(len(sampler), -(-count // ht.size()))
        self.assertNotEqual(first, list(sampler)[: len(first)])
        sampler.processed_num = count + 5
        sampler.reset()
        self.assertEqual(list(sampler), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
