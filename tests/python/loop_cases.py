# SPDX-License-Identifier: Apache-2.0
"""What every training needs, run by each rank: metrics, validation, seeds, an end."""

from __future__ import annotations

import math
import os
import random
import signal
import threading
import time
import unittest
import warnings

import numpy as np
import torch
import torch.utils.data as torch_data

import hvd
import hvd.torch as ht
from hvd import metrics, objects, seeds, stopping


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    torch.set_num_threads(1)
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


def model_of(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))


class Metrics(unittest.TestCase):
    def test_means_are_those_of_all_samples(self) -> None:
        rank, size = ht.rank(), ht.size()
        weights = [10.0 * (one + 1) for one in range(size)]
        expected = sum(one * weight for one, weight in enumerate(weights)) / sum(weights)
        found = metrics.average_metrics(
            {
                "number": rank,
                "tensor": torch.tensor(float(rank)),
                "vector": torch.tensor([[rank, 1.0]]),
                "array": np.array([1.0, rank], dtype=np.float32),
            },
            weights[rank],
        )
        self.assertAlmostEqual(found["number"], expected)
        self.assertEqual(found["tensor"], found["number"])
        self.assertEqual(found["vector"].shape, (1, 2))
        self.assertEqual(found["vector"][0].tolist(), [found["number"], 1.0])
        self.assertEqual(found["array"].tolist(), [1.0, found["number"]])

    def test_a_rank_without_samples_takes_part(self) -> None:
        first = ht.rank() == 0
        found = metrics.average_metrics({"x": 2.5 if first else math.nan}, 8 if first else 0)
        self.assertEqual(found, {"x": 2.5})
        self.assertTrue(math.isnan(metrics.average_metrics({"x": 1.0}, 0)["x"]))
        means = metrics.WeightedMeans("loss", "accuracy")
        if first:
            means.add(3, loss=torch.tensor(1.0), accuracy=0.0)
            means.add(1, loss=5.0, accuracy=1.0)
            means.add(0, loss=math.nan, accuracy=math.nan)
        self.assertEqual(means.result(), {"accuracy": 0.25, "loss": 2.0})
        means.reset()
        means.add(2, loss=ht.rank(), accuracy=1)
        self.assertEqual(means.result(), {"accuracy": 1.0, "loss": (ht.size() - 1) / 2})

    def test_what_does_not_fit_is_named(self) -> None:
        last = ht.size() - 1
        name = "late" if ht.rank() == last else "loss"
        with self.assertRaisesRegex(
            ValueError, rf"different names: 0: \['loss'\].*{last}: \['late'"
        ):
            metrics.average_metrics({name: 1.0})
        values = {"a": 1.0} if ht.rank() == last else {"a": 1.0, "b": 2.0}
        with self.assertRaisesRegex(hvd.MismatchError, "average_metrics"):
            metrics.average_metrics(values)
        with self.assertRaisesRegex(
            ValueError, f"rank {ht.rank()}: average_metrics: 'a' is 'text'"
        ):
            metrics.average_metrics({"a": "text"})
        with self.assertRaisesRegex(ValueError, "weight is -1"):
            metrics.average_metrics({"a": 1}, -1)
        with self.assertRaisesRegex(ValueError, r"got \['los'\], made for \['loss'\]"):
            metrics.WeightedMeans("loss").add(1, los=2)
        ht.barrier()


class Validation(unittest.TestCase):
    def test_every_sample_counts_once(self) -> None:
        """Whatever the number of samples is; the mean is that of one process."""
        loss_of = torch.nn.CrossEntropyLoss()
        model = model_of(0)
        for count in (1, ht.size() - 1, 23):
            generator = torch.Generator().manual_seed(count)
            inputs = torch.randn(count, 6, generator=generator)
            labels = torch.randint(3, (count,), generator=generator)
            dataset = torch_data.TensorDataset(inputs, labels)
            sampler = ht.DistributedSampler(dataset, shuffle=False, pad=False)
            loader = torch_data.DataLoader(dataset, batch_size=4, sampler=sampler)
            means = metrics.WeightedMeans("loss", "accuracy")
            with torch.no_grad():
                for batch, wanted in loader:
                    outputs = model(batch)
                    right = (outputs.argmax(1) == wanted).double().mean()
                    means.add(len(wanted), loss=loss_of(outputs, wanted), accuracy=right)
                found = means.result()
                outputs = model(inputs)
            self.assertAlmostEqual(found["loss"], loss_of(outputs, labels).item(), places=6)
            exact = (outputs.argmax(1) == labels).double().mean().item()
            self.assertAlmostEqual(found["accuracy"], exact, places=12)


class Samplers(unittest.TestCase):
    def test_padded_is_what_torch_gives(self) -> None:
        for count in (2, 7, 12):
            for options in ({}, {"shuffle": False}, {"seed": 3}, {"drop_last": True}):
                ours = ht.DistributedSampler(range(count), **options)
                theirs = torch_data.distributed.DistributedSampler(
                    range(count), ht.size(), ht.rank(), **options
                )
                for epoch in (0, 5):
                    ours.set_epoch(epoch)
                    theirs.set_epoch(epoch)
                    self.assertEqual(list(ours), list(theirs))
                    self.assertEqual(len(ours), len(theirs))

    def test_unpadded_gives_each_index_once(self) -> None:
        for count in (0, 1, 7, 12):
            for drop_last in (False, True):
                sampler = ht.DistributedSampler(range(count), pad=False, drop_last=drop_last)
                sampler.set_epoch(2)
                mine = list(sampler)
                self.assertEqual(len(mine), len(sampler))
                everything = sorted(sum(objects.allgather_object(mine), []))
                kept = count - count % ht.size() * drop_last
                self.assertEqual(len(everything), kept)
                self.assertEqual(len(set(everything)), kept)


class Seeds(unittest.TestCase):
    def draw(self) -> tuple[float, float, float]:
        return random.random(), np.random.random(), torch.rand(1).item()

    def test_ranks_differ_and_runs_do_not(self) -> None:
        seed = seeds.seed_everything(5)
        mine = self.draw()
        self.assertEqual(seeds.seed_everything(5), seed)
        self.assertEqual(self.draw(), mine)
        self.assertEqual(len(set(objects.allgather_object(mine))), ht.size())
        seeds.seed_everything(5, rank=0)
        self.assertEqual(len(set(objects.allgather_object(self.draw()))), 1)
        # Of these numbers, on every machine.
        self.assertEqual(seeds.derived_seed(5, 1), 12099282195316335764)

    def test_loader_workers_differ(self) -> None:
        class Draws(torch_data.Dataset):
            def __len__(self) -> int:
                return 4

            def __getitem__(self, index):
                return torch.tensor([random.random(), np.random.random(), torch.rand(1).item()])

        def epoch() -> list[tuple[float, ...]]:
            loader = torch_data.DataLoader(
                Draws(), num_workers=2, worker_init_fn=seeds.worker_init_fn
            )
            return [tuple(batch[0].tolist()) for batch in loader]

        seeds.seed_everything(1)
        both = epoch() + epoch()
        everything = sum(objects.allgather_object(both), [])
        self.assertEqual(len(everything), 8 * ht.size())
        for numbers in zip(*everything):
            self.assertEqual(len(set(numbers)), len(numbers))
        seeds.seed_everything(1)
        self.assertEqual(epoch() + epoch(), both)


class Schedules(unittest.TestCase):
    def rates(self, make, steps: int) -> list[float]:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.8)
        schedules = make(optimizer)
        found = []
        for _ in range(steps):
            found.append(round(optimizer.param_groups[0]["lr"], 9))
            optimizer.step()
            for schedule in schedules:
                schedule.step()
        return found

    def test_the_rate_grows_to_what_was_given(self) -> None:
        alone = self.rates(lambda one: [ht.WarmupSchedule(one, 4, factor=4)], 7)
        self.assertEqual(alone, [0.2, 0.35, 0.5, 0.65, 0.8, 0.8, 0.8])
        self.assertEqual(self.rates(lambda one: [ht.WarmupSchedule(one, 0, 4)], 2), [0.8, 0.8])
        by_size = self.rates(lambda one: [ht.WarmupSchedule(one, 2)], 3)
        self.assertEqual((by_size[0], by_size[2]), (round(0.8 / ht.size(), 9), 0.8))
        for arguments in ((-1, 2), (2, 0.0)):
            with self.assertRaisesRegex(ValueError, "more than 0"):
                self.rates(lambda one, given=arguments: [ht.WarmupSchedule(one, *given)], 1)

    def test_it_goes_with_other_schedules(self) -> None:
        schedules = torch.optim.lr_scheduler
        chained = self.rates(
            lambda one: [ht.WarmupSchedule(one, 2, 4), schedules.MultiStepLR(one, [3], 0.1)], 5
        )
        self.assertEqual(chained, [0.2, 0.5, 0.8, 0.08, 0.08])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch 1.13 warns of itself
            behind = self.rates(
                lambda one: [
                    schedules.SequentialLR(
                        one,
                        [
                            ht.WarmupSchedule(one, 2, 4),
                            schedules.LambdaLR(one, lambda step: 1 / (step + 1)),
                        ],
                        [2],
                    )
                ],
                5,
            )
        self.assertEqual(behind, [0.2, 0.5, 0.8, 0.4, round(0.8 / 3, 9)])

    def test_a_saved_one_goes_on(self) -> None:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.8)
        schedule = ht.WarmupSchedule(optimizer, 4, factor=4)
        optimizer.step()
        schedule.step()
        other = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.8)
        resumed = ht.WarmupSchedule(other, 4, factor=4)
        other.load_state_dict(optimizer.state_dict())
        resumed.load_state_dict(schedule.state_dict())
        other.step()
        resumed.step()
        self.assertAlmostEqual(other.param_groups[0]["lr"], 0.5)


class Stopping(unittest.TestCase):
    def tearDown(self) -> None:
        stopping._was_told = stopping._has_agreed = False
        stopping._unwatch()

    def test_all_ranks_stop_at_the_same_step(self) -> None:
        for number in stopping.SIGNALS:
            seen: list[int] = []
            before = signal.signal(number, lambda got, frame: seen.append(got))  # noqa: B023
            try:
                for step in range(10):
                    if ht.should_stop():
                        break
                    if ht.rank() == ht.size() - 1 and step == 3:
                        os.kill(os.getpid(), number)
                self.assertEqual(step, 4)
                self.assertTrue(hvd.should_stop())
                self.assertEqual(seen, [number] if ht.rank() == ht.size() - 1 else [])
            finally:
                self.tearDown()
                signal.signal(number, before)

    def test_the_time_limit_of_slurm(self) -> None:
        given = os.environ.pop("SLURM_JOB_END_TIME", None)
        try:
            for end in ("", "no number", "4294967295"):
                os.environ["SLURM_JOB_END_TIME"] = end
                self.assertIsNone(ht.time_left())
            self.assertFalse(ht.should_stop(margin_seconds=60))
            left = 30 if ht.rank() == 0 else 3600
            os.environ["SLURM_JOB_END_TIME"] = str(int(time.time()) + left)
            self.assertTrue(left - 2 <= hvd.time_left() <= left)
            self.assertFalse(ht.should_stop())
            self.assertTrue(ht.should_stop(margin_seconds=60))
        finally:
            os.environ.pop("SLURM_JOB_END_TIME")
            if given is not None:
                os.environ["SLURM_JOB_END_TIME"] = given

    def test_the_first_call_must_come_from_the_main_thread(self) -> None:
        caught: list[BaseException] = []

        def ask() -> None:
            try:
                ht.should_stop()
            except ValueError as error:
                caught.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        self.assertRegex(str(caught[0]), "from the main thread")

    def test_a_child_ends_when_it_is_told_to(self) -> None:
        self.assertFalse(ht.should_stop())
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.WTERMSIG(status), signal.SIGTERM)


if __name__ == "__main__":
    unittest.main(verbosity=2)
