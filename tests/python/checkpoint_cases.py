# SPDX-License-Identifier: Apache-2.0
"""Checkpoints, run by each rank: whole or not there, and all or nothing on all ranks."""

from __future__ import annotations

import errno
import gc
import os
import pickle
import resource
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import warnings
from pathlib import Path
from typing import Any

import torch

import hvd
import hvd.torch as ht
from hvd import checkpoints, objects
from hvd.torch.elastic import TorchState


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    torch.set_num_threads(1)
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


def model_of(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))


class Counting(torch.nn.Module):
    """Has state beside its parameters: an object with a tensor in it, and a tensor made anew."""

    def __init__(self, value: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((2,), float(value)))
        self.seen = {"words": ["x"] * value, "sum": torch.full((value + 1,), value)}
        self.own = Packed(value)

    def get_extra_state(self) -> Any:
        return self.seen

    def set_extra_state(self, state: Any) -> None:
        self.seen = state


class Packed(torch.nn.Module):
    """Its extra state is a tensor whose length differs, as some libraries pickle theirs."""

    def __init__(self, value: int) -> None:
        super().__init__()
        self.value = value

    def get_extra_state(self) -> torch.Tensor:
        return torch.frombuffer(bytearray(pickle.dumps("x" * self.value)), dtype=torch.uint8)

    def set_extra_state(self, state: torch.Tensor) -> None:
        self.value = len(pickle.loads(bytes(state.tolist())))


def all_of(model: Counting) -> tuple[Any, ...]:
    return (
        model.weight.tolist(),
        model.seen["words"],
        model.seen["sum"].tolist(),
        model.own.value,
    )


class Checkpoints(unittest.TestCase):
    def setUp(self) -> None:
        folder = None
        if ht.rank() == 0:
            kept = tempfile.TemporaryDirectory(prefix="hvd-test-")
            self.addCleanup(kept.cleanup)
            folder = kept.name
        self.folder = Path(objects.broadcast_object(folder)) / "deep" / "er"

    def test_the_newest_comes_back_and_the_oldest_go(self) -> None:
        files = checkpoints.Checkpoints(self.folder, keep=2)
        self.assertIsNone(files.load())
        for step in (1, 20, 3):
            files.save(step, {"step": step, "rank": ht.rank()})
        self.assertEqual(files.load(), (20, {"step": 20, "rank": 0}))
        self.assertEqual(files.steps(), [3, 20])
        files.save(20, "again")
        self.assertEqual(files.load().state, "again")
        if ht.rank() == 0:
            names = sorted(os.listdir(self.folder))
            self.assertEqual(names, ["checkpoint-0000000003", "checkpoint-0000000020"])
            mask = os.umask(0)
            os.umask(mask)
            mode = stat.S_IMODE(files.path(20).stat().st_mode)
            self.assertEqual(mode, 0o666 & ~mask)
        with self.assertRaisesRegex(ValueError, "step is -1"):
            files.save(-1, None)
        with self.assertRaisesRegex(ValueError, "keep is -1"):
            checkpoints.Checkpoints(self.folder, keep=-1)
        ht.barrier()

    def test_a_damaged_one_is_passed_over(self) -> None:
        files = checkpoints.Checkpoints(self.folder)
        files.save(1, [1] * 1000)
        files.save(2, [2] * 1000)
        if ht.rank() == 0:
            os.truncate(files.path(2), 100)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.assertEqual(files.load(), (1, [1] * 1000))
        self.assertEqual(len(caught), int(ht.rank() == 0))
        if caught:
            self.assertRegex(str(caught[0].message), "passed over: .*checkpoint-0000000002: ")
            os.truncate(files.path(1), 0)
        with self.assertRaisesRegex(hvd.CheckpointError, "rank 0: no checkpoint in .*can be read"):
            files.load()

    def test_a_failure_of_rank_0_is_an_error_of_all(self) -> None:
        files = checkpoints.Checkpoints(self.folder)
        files.save(1, "whole")
        with self.assertRaisesRegex(hvd.CheckpointError, "rank 0: .*0000000002 could not be writ"):
            files.save(2, lambda: "what pickle does not take")
        if ht.rank() == 0:
            self.assertEqual(os.listdir(self.folder), ["checkpoint-0000000001"])
        self.assertEqual(files.load().state, "whole")
        if ht.rank() == 0:
            self.folder.with_name("file").write_text("no folder")
        blocked = checkpoints.Checkpoints(self.folder.with_name("file"))
        with self.assertRaisesRegex(hvd.CheckpointError, "rank 0: .*(File exists|NotADirectory)"):
            blocked.save(1, "x")
        with self.assertRaisesRegex(hvd.CheckpointError, "rank 0: .*NotADirectory"):
            blocked.load()

    def test_an_interrupt_of_rank_0_is_an_error_of_the_others(self) -> None:
        files = checkpoints.Checkpoints(self.folder)
        with unittest.mock.patch.object(files, "_write", side_effect=KeyboardInterrupt):
            expected = KeyboardInterrupt if ht.rank() == 0 else hvd.CheckpointError
            with self.assertRaisesRegex(expected, "" if ht.rank() == 0 else "KeyboardInterrupt"):
                files.save(1, 0)
        files.save(2, 0)
        # Where rank 0 cannot even say so, nobody takes the outcome of its next save for this one's.
        if ht.rank() == 0:
            silent = unittest.mock.patch("hvd.objects.broadcast_object", side_effect=SystemExit)
            with silent, self.assertRaises(SystemExit):
                files.save(3, 0)
            files.save(4, 0)
        else:
            with self.assertRaisesRegex(hvd.CheckpointError, "step 3.*rank 0.*step 4"):
                files.save(3, 0)
        with self.assertRaisesRegex(hvd.CheckpointError, r"rank 0: step 5, rank \d: step 6"):
            ht.Checkpoints(self.folder).save(5 if ht.rank() == 0 else 6)

    def test_a_state_that_one_rank_cannot_give_is_an_error_of_all(self) -> None:
        class Failing(torch.nn.Linear):
            def get_extra_state(self) -> int:
                return 1 // (ht.size() - 1 - ht.rank())

        files = ht.Checkpoints(self.folder)
        with self.assertRaisesRegex(hvd.CheckpointError, f"rank {ht.size() - 1}: .*division"):
            files.save(1, Failing(2, 2))
        self.assertEqual(files.files.steps(), [])
        files.save(2, model_of(0))

    def test_a_full_disk_is_an_error_and_no_more(self) -> None:
        """The writer of older versions of torch throws in its destructor, whenever that is."""
        files = ht.Checkpoints(self.folder)
        files.save(1, model_of(0))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, limits)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
        with self.assertRaisesRegex(hvd.CheckpointError, "rank 0: .*0000000002.*too large"):
            files.save(2, model_of(0), more=[torch.ones(1 << 19), torch.ones(1 << 10)])
        gc.collect()
        self.assertEqual(files.resume(model_of(0)).step, 1)

    def test_a_killed_writer_leaves_the_old_file(self) -> None:
        program = """
import os, signal, sys
from hvd.checkpoints import write_atomically
def write(file):
    file.write(b"new" * 1000)
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
write_atomically(sys.argv[1], write)
"""
        files = checkpoints.Checkpoints(self.folder)
        files.save(1, "old")
        if ht.rank() == 0:
            done = subprocess.run([sys.executable, "-c", program, files.path(1)], check=False)
            self.assertEqual(done.returncode, -signal.SIGKILL)
            self.assertEqual(len(os.listdir(self.folder)), 2)
        self.assertEqual(files.load().state, "old")
        files.save(2, "next")
        if ht.rank() == 0:
            self.assertEqual(len(os.listdir(self.folder)), 2)  # without the rest of the killed one

    def test_what_is_left_of_another_series_stays(self) -> None:
        """A name that begins alike, and one with signs that patterns know."""
        ours = checkpoints.Checkpoints(self.folder, name="run")
        ours.save(1, 0)
        with subprocess.Popen(["true"]) as dead:
            dead.wait()
        left = f".{socket.gethostname()}-{dead.pid}-88."
        theirs = [f"{left}run-2-0000000001", f"{left}run-b-0000000001", f"{left}run", "notes.tmp"]
        # Of a process that lives, of one of another host, and of one that nobody can know.
        alive = f".{socket.gethostname()}-{os.getppid()}-88.run-0000000008"
        theirs += [alive, f".else{left[1:]}run-0000000007", ".77-88.run-0000000006"]
        old = [f".else{left[1:]}run-0000000001", ".77-88.run-0000000001"]
        if ht.rank() == 0:
            for name in (*theirs, *old, f"{left}run-0000000009"):
                (self.folder / name).write_text("half")
            for name in old:
                os.utime(self.folder / name, (1e9, 1e9))
        ours.save(2, 0)
        if ht.rank() == 0:
            left = {*os.listdir(self.folder)} - {"run-0000000001", "run-0000000002"}
            self.assertEqual(left, set(theirs))

    def test_what_is_no_damage_is_not_passed_over(self) -> None:
        """A missing module or a failing disk: going on from an older one would lose work."""
        files = checkpoints.Checkpoints(self.folder)
        files.save(1, "old")
        files.save(2, "new")

        def raising(error: Exception):
            return unittest.mock.patch.object(files, "_read", side_effect=error)

        for error, words in (
            (ModuleNotFoundError("No module named 'gone'"), "ModuleNotFoundError.*No module named"),
            (OSError(errno.EIO, "Input/output error"), "OSError.*Input/output"),
            (AttributeError("no class Old"), "AttributeError"),
            (MemoryError(), "MemoryError"),
            (TypeError("of __setstate__"), "TypeError"),
        ):
            with (
                raising(error),
                self.assertRaisesRegex(
                    hvd.CheckpointError,
                    f"rank 0: .*checkpoint-0000000002: {words}.*remove the file",
                ),
            ):
                files.load()
        if ht.rank() == 0:
            files.path(2).write_bytes(b"cgone\nThing\n.")  # a pickle of a class that is not there
        with self.assertRaisesRegex(hvd.CheckpointError, "ModuleNotFoundError"):
            files.load()
        for damage in (b"", b"\0" * 100, pickle.dumps([3] * 1000)[:-9]):
            if ht.rank() == 0:
                files.path(2).write_bytes(damage)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.assertEqual(files.load(), (1, "old"))

    def test_damage_of_files_of_torch(self) -> None:
        files = ht.Checkpoints(self.folder)
        model = model_of(0)
        files.save(1, model)
        files.save(2, model)
        path = files.files.path(2)
        whole = path.read_bytes() if ht.rank() == 0 else b""
        for damaged in (whole[:-200], whole[:50], b"", b"\0" * len(whole)):
            if ht.rank() == 0:
                path.write_bytes(damaged)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.assertEqual(files.resume(model).step, 1)
        if ht.rank() == 0:
            path.write_bytes(whole)
        failing = unittest.mock.patch.object(
            files.files, "_read", side_effect=RuntimeError("out of memory")
        )
        with failing, self.assertRaisesRegex(hvd.CheckpointError, "out of memory.*remove the file"):
            files.resume(model)

    def test_a_file_is_on_the_disk_before_it_has_its_name(self) -> None:
        calls = []

        def noted(name: str):
            real = getattr(os, name)

            def call(*args):
                where = os.readlink(f"/proc/self/fd/{args[0]}") if name == "fsync" else args[0]
                calls.append((name, Path(where).name))
                return real(*args)

            return unittest.mock.patch.object(os, name, call)

        with tempfile.TemporaryDirectory() as folder, noted("fsync"), noted("replace"):
            path = Path(folder, "model.keras")
            checkpoints.save_atomically(path, lambda new: new.write_text(new.suffix))
            self.assertEqual(path.read_text(), ".keras")
            self.assertEqual([name for name, _ in calls], ["fsync", "replace", "fsync"])
            temporary = calls[0][1]
            self.assertRegex(temporary, r"^\.\S+-\d+-\d+\.model\.keras$")
            self.assertEqual(calls[1:], [("replace", temporary), ("fsync", Path(folder).name)])
            with self.assertRaisesRegex(ValueError, "of the caller"):
                checkpoints.save_atomically(path, failing_save)
            self.assertEqual(os.listdir(folder), ["model.keras"])

    def train(self, optimizer, model, steps) -> list[float]:
        losses = []
        for step in steps:
            generator = torch.Generator().manual_seed(10 * step + ht.rank())
            optimizer.zero_grad()
            loss = model(torch.randn(4, 6, generator=generator)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    def make(self, seed: int):
        model = model_of(seed)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01 * (seed + 1))
        return model, ht.DistributedOptimizer(optimizer, model.named_parameters())

    def test_a_training_goes_on_as_if_it_had_not_stopped(self) -> None:
        model, optimizer = self.make(seed=0)
        files = ht.Checkpoints(self.folder)
        self.assertIsNone(files.resume(model, optimizer))
        self.train(optimizer, model, range(3))
        files.save(2, model, optimizer, best=0.5, history=[1, 2])
        expected = self.train(optimizer, model, range(3, 6))
        model, optimizer = self.make(seed=ht.rank() + 1)
        resumed = ht.Checkpoints(self.folder).resume(model, optimizer)
        self.assertEqual(resumed, (2, {"best": 0.5, "history": [1, 2]}))
        self.assertEqual(self.train(optimizer, model, range(3, 6)), expected)
        ht.Checkpoints(self.folder, name="model").save(1, model)
        with self.assertRaisesRegex(hvd.CheckpointError, "saved without optimizer"):
            ht.Checkpoints(self.folder, name="model").resume(model, optimizer)

    def test_ranks_are_equal_where_there_is_no_checkpoint(self) -> None:
        model, optimizer = self.make(seed=ht.rank())
        ht.Checkpoints(self.folder).resume(model, optimizer)
        self.assertTrue(torch.equal(model[0].weight, model_of(0)[0].weight))
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.01)

    def test_all_state_of_a_model_comes_back_on_every_rank(self) -> None:
        files = ht.Checkpoints(self.folder)
        files.save(1, Counting(7))
        model = Counting(ht.rank())
        self.assertEqual(files.resume(model).step, 1)
        self.assertEqual(all_of(model), all_of(Counting(7)))
        # Where there is no checkpoint: what rank 0 has.
        model = Counting(ht.rank() + 3)
        ht.Checkpoints(self.folder, name="none").resume(model)
        self.assertEqual(all_of(model), all_of(Counting(3)))
        # In elastic training, too.
        state = TorchState(Counting(ht.rank() + 2), epoch=ht.rank())
        state.sync()
        self.assertEqual((all_of(state.model), state.epoch), (all_of(Counting(2)), 0))

    def test_what_does_not_fit_changes_no_rank(self) -> None:
        """At the optimizer on rank 0, after the model was loaded; or on one rank alone."""
        files = ht.Checkpoints(self.folder)
        saved, optimizer = self.make(seed=5)
        self.train(optimizer, saved, range(1))
        files.save(1, saved, optimizer)
        model = model_of(ht.rank())
        other = torch.optim.SGD([next(model.parameters())], lr=0.5)  # fewer parameters
        kept, kept_lr = [one.clone() for one in model.state_dict().values()], 0.5
        self.check_refused(files, model, other, "rank 0: .*parameter", kept, kept_lr)

        class Refusing(torch.optim.Adam):
            def load_state_dict(self, state) -> None:
                if ht.rank() == ht.size() - 1 and state["param_groups"][0]["lr"] != 0.25:
                    raise ValueError("not on this rank")
                super().load_state_dict(state)

        picky = Refusing(model.parameters(), lr=0.25)
        last = f"rank {ht.size() - 1}: .*not on this rank"
        self.check_refused(files, model, picky, last, kept, 0.25)

    def check_refused(self, files, model, optimizer, words, kept, rate) -> None:
        with self.assertRaisesRegex(hvd.CheckpointError, words):
            files.resume(model, optimizer)
        for before, now in zip(kept, model.state_dict().values()):
            self.assertTrue(torch.equal(before, now))
        self.assertEqual(optimizer.param_groups[0]["lr"], rate)
        self.assertEqual(len(optimizer.state), 0)
        ht.barrier()


def failing_save(new: Path) -> None:
    new.write_text("half")
    raise ValueError("of the caller")


if __name__ == "__main__":
    unittest.main(verbosity=2)
