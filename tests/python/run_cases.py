# SPDX-License-Identifier: Apache-2.0
"""hvd.run(): results by rank, failures with their cause, nothing left behind."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from pathlib import Path

import hvd
from hvd import launch

MARK = f"hvd-run-cases-{os.getpid()}"
os.environ["HVD_RUN_CASES"] = MARK


def marked() -> list[int]:
    """Processes other than this one that inherited the mark."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            content = (folder / "environ").read_bytes()
            if f"HVD_RUN_CASES={MARK}".encode() in content.split(b"\0"):
                found.append(int(folder.name))
    return found


def await_true(condition, seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.02)


class Fragile(Exception):
    """Cannot be unpickled: its constructor wants more than its arguments."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class RunCase(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="hvd-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def tearDown(self) -> None:
        self.assertEqual(os.listdir(self.folder), [], "the private folder is gone")
        await_true(lambda: not marked(), 5, f"processes {marked()} end")

    def run_it(self, fn, *args, **options):
        """hvd.run with output kept: (results, output, error output)."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                given = hvd.run(fn, args, directory=self.folder, **{"np": 2, **options})
            finally:
                self.out, self.err = out.getvalue(), err.getvalue()
        return given


class Results(RunCase):
    def test_closures_environment_output_and_large_results_by_rank(self) -> None:
        offset = 100
        os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
        self.addCleanup(os.environ.pop, "MPLBACKEND")
        os.environ["TO_BE_REMOVED"] = "1"
        self.addCleanup(os.environ.pop, "TO_BE_REMOVED")

        def work(large, power=1):
            hvd.init()  # a second one does nothing
            print("line of", hvd.rank(), flush=True)
            print("warning of", hvd.rank(), file=sys.stderr, flush=True)
            seen = [os.environ.get(n) for n in ("GIVEN", "TO_BE_REMOVED", "MPLBACKEND")]
            folder = [a for a in open("/proc/self/cmdline").read().split("\0") if "hvd-run-" in a]
            mode = stat.S_IMODE(os.stat(folder[0]).st_mode)
            return offset + hvd.rank() ** power, hvd.size(), seen, mode, large[::-1]

        large = os.urandom(1 << 20) * 8
        given = self.run_it(
            work, large, kwargs={"power": 2}, env={"GIVEN": "yes", "TO_BE_REMOVED": None}, np=3
        )
        seen = ["yes", None, None]
        self.assertEqual(
            [result[:4] for result in given], [(100 + r * r, 3, seen, 0o700) for r in range(3)]
        )
        self.assertTrue(all(result[4] == large[::-1] for result in given))
        for rank in range(3):
            self.assertIn(f"[{rank}] line of {rank}\n", self.out)
            self.assertIn(f"[{rank}] warning of {rank}\n", self.err)

    def test_one_rank_quiet_and_init_left_to_the_function(self) -> None:
        def work():
            print("not shown")
            sys.exit(0)

        self.assertEqual(self.run_it(work, np=1, init=False, output=False), [None])
        self.assertEqual((self.out, self.err), ("", ""))
        self.assertEqual(self.run_it(lambda: hvd.is_initialized(), np=1, init=False), [False])

    def test_a_rank_may_start_a_job_of_its_own(self) -> None:
        def outer(folder):
            return hvd.rank(), hvd.run(lambda: (hvd.rank(), hvd.size()), np=1, directory=folder)

        expected = [(0, [(0, 1)]), (1, [(0, 1)])]
        self.assertEqual(self.run_it(outer, self.folder), expected)

    def test_virtual_nodes_files_and_no_prefix(self) -> None:
        with tempfile.TemporaryDirectory() as logs:
            given = self.run_it(
                lambda: (print("line\n", end=""), hvd.cross_size())[1],
                nodes=2,
                prefix=False,
                output_dir=logs,
                options=["--grace", "1"],
            )
            self.assertEqual(given, [2, 2])
            self.assertEqual(self.out, "line\nline\n")
            self.assertEqual((Path(logs) / "latest" / "rank-1.out").read_text(), "line\n")

    def test_the_end_may_take_the_grace_that_was_asked_for(self) -> None:
        for options, seconds in (([], 30), (["--grace", "60"], 80), (["-x", "A", "--grace=1"], 21)):
            self.assertEqual(hvd.launch._ending_seconds(options), seconds)

    def test_letters_that_the_output_here_lacks(self) -> None:
        kept = io.BytesIO()
        with contextlib.redirect_stdout(io.TextIOWrapper(kept, encoding="ascii")):
            hvd.run(os.write, (1, "caf\u00e9 \n".encode()), np=1, directory=self.folder)
            self.assertEqual(kept.getvalue(), b"caf\\xe9 \n")

    def test_lines_come_while_the_ranks_run(self) -> None:
        seen = threading.Event()
        flag = Path(self.folder).with_name(Path(self.folder).name + "-flag")
        self.addCleanup(flag.unlink)

        class Watched(io.StringIO):
            def write(self, text: str) -> int:
                if "early" in text:
                    flag.touch()
                    seen.set()
                return super().write(text)

        def work(path):
            print("early", flush=True)
            deadline = time.monotonic() + 30
            while not os.path.exists(path) and time.monotonic() < deadline:
                time.sleep(0.01)
            return os.path.exists(path)

        with contextlib.redirect_stdout(Watched()):
            self.assertEqual(hvd.run(work, (str(flag),), np=1, directory=self.folder), [True])
        self.assertTrue(seen.is_set())


class Failures(RunCase):
    def fails(self, fn, *args, **options) -> hvd.RankFailedError:
        with self.assertRaises(hvd.RankFailedError) as caught:
            self.run_it(fn, *args, **{"options": ["--grace", "1"], **options})
        return caught.exception

    def test_an_exception_comes_back_with_rank_traceback_and_cause(self) -> None:
        def broken(rank):
            return {}[rank]

        def work():
            if hvd.rank() == 1:
                broken(hvd.rank())
            hvd.barrier()

        error = self.fails(work)
        self.assertEqual((error.rank, error.type_name), (1, "KeyError"))
        self.assertIsInstance(error.__cause__, KeyError)
        self.assertEqual(error.__cause__.args, (1,))
        self.assertIn("return {}[rank]", error.traceback_text)
        self.assertIn(error.traceback_text.rstrip(), str(error))
        self.assertNotIn("launched.py", error.traceback_text)
        self.assertTrue(error.host)

    def test_exceptions_and_results_that_cannot_travel(self) -> None:
        def fragile():
            raise Fragile(1, 2)

        error = self.fails(fragile, np=1)
        self.assertEqual((error.rank, error.type_name), (0, "Fragile"))
        self.assertIn("1 and 2", str(error))
        self.assertIsNone(error.__cause__)
        self.assertIn("a lock, cannot be pickled", str(self.fails(threading.Lock, np=1)))

    def test_ranks_that_die_are_named_with_their_cause(self) -> None:
        def work(death):
            if hvd.rank() == 1:
                exec(death)
            hvd.barrier()

        for death, words in {
            "os.kill(os.getpid(), signal.SIGKILL)": "signal 9",
            "os._exit(3)": "exit code 3",
            "sys.exit(4)": "SystemExit: 4",
        }.items():
            with self.subTest(death=death):
                error = self.fails(work, f"import os, signal, sys; {death}")
                self.assertEqual(error.rank, 1)
                self.assertIn(words, str(error))
        error = self.fails(lambda: os._exit(0), np=1, init=False)
        self.assertIn("rank 0 ended with exit code 0 and no result", str(error))

    def test_a_rank_that_never_returns_says_where_it_is(self) -> None:
        def endless():
            def tell(*_):
                print("the rank's own last words", file=sys.stderr)
                sys.exit(1)

            signal.signal(signal.SIGTERM, tell)
            while hvd.rank() == 1:
                time.sleep(0.1)

        # On a busy machine the first deadline may come before the ranks are up.
        for seconds in (2.0, 10.0, 60.0):
            with self.assertRaises(TimeoutError) as caught:
                self.run_it(endless, timeout=seconds, options=["--grace", "1"])
            if "ranks 1 did" in str(caught.exception):
                break
        self.assertIsInstance(caught.exception, hvd.DeadlineError)
        self.assertIn(f"ranks 1 did not return within {seconds:g} s", str(caught.exception))
        self.assertIn("endless", str(caught.exception))
        self.assertNotIn("got signal", self.err, "the user has sent none")
        self.assertIn("the rank's own last words", self.err)

    def test_the_log_says_how_the_ranks_met(self) -> None:
        self.run_it(hvd.size, env={"HVD_LOG": "info"})
        self.assertRegex(self.err, "(?m)the ranks meet by hvdrun$")

    def test_wrong_calls(self) -> None:
        def no_call():
            return None

        for words, call in {
            "not callable": lambda: hvd.run(3),
            "np is 0": lambda: hvd.run(no_call, np=0),
            "nodes is 'a'": lambda: hvd.run(no_call, nodes="a"),
            "timeout is -1": lambda: hvd.run(no_call, timeout=-1),
            "cannot be pickled": lambda: hvd.run(no_call, (threading.Lock(),), np=1),
        }.items():
            with self.subTest(words=words), self.assertRaisesRegex(ValueError, words):
                call()
        error = self.fails(no_call, np=1, options=["--no-such-option"])
        self.assertEqual(error.rank, -1)
        self.assertIn("--no-such-option", str(error))

    def test_without_cloudpickle(self) -> None:
        def no_call():
            return None

        no_call.__module__ = "__main__"
        sys.modules["cloudpickle"] = None  # type: ignore[assignment]
        self.addCleanup(sys.modules.pop, "cloudpickle")
        for function in (no_call, lambda: 1):
            with self.assertRaisesRegex(ValueError, "pip install cloudpickle"):
                hvd.run(function, np=1, directory=self.folder)
        self.assertEqual(self.run_it(divmod, 7, 2, np=1), [(3, 1)])


class Interrupts(RunCase):
    PROGRAM = textwrap.dedent(
        """
        import hvd, sys, time
        def work():
            print("up", flush=True)
            time.sleep(600)
        try:
            hvd.run(work, np=2, directory=sys.argv[1], options=["--grace", "1"])
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """
    )

    def started(self) -> subprocess.Popen[str]:
        """A script whose ranks are up."""
        script = subprocess.Popen(
            [sys.executable, "-c", self.PROGRAM, self.folder],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(script.__exit__, None, None, None)
        self.addCleanup(script.kill)
        assert script.stdout is not None
        self.assertEqual(
            {script.stdout.readline(), script.stdout.readline()}, {"[0] up\n", "[1] up\n"}
        )
        return script

    def test_ctrl_c_ends_the_ranks(self) -> None:
        script = self.started()
        script.send_signal(signal.SIGINT)
        out, err = script.communicate(timeout=60)
        self.assertIn("interrupted\n", out, err)
        self.assertEqual((script.returncode, marked()), (0, []), err)
        self.assertNotIn("Traceback", err)

    def test_a_killed_caller_leaves_no_rank(self) -> None:
        script = self.started()
        script.kill()
        script.wait()
        await_true(lambda: not marked(), 30, "the ranks end")
        self.assertEqual(len(os.listdir(self.folder)), 1, "its folder is left")
        self.assertEqual(self.run_it(abs, -1, np=1), [1])  # and removed by the next call


class Decisions(unittest.TestCase):
    """What is decided from the environment alone."""

    def test_who_is_in_an_allocation(self) -> None:
        job = {"SLURM_JOB_ID": "7"}
        step = {**job, "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}
        interactive = {**step, "SLURM_STEP_ID": str(0xFFFFFFFA)}
        last = {"SLURM_JOBID": "7", "SLURM_STEPID": str(0xFFFFFFF0), "SLURM_STEP_NUM_TASKS": "1"}
        self.assertFalse(launch.in_slurm_shell({}))
        self.assertFalse(launch.in_slurm_shell(last))
        self.assertTrue(launch.in_slurm_shell({"SLURM_JOBID": "7"}))
        self.assertTrue(launch.in_slurm_shell(job))
        self.assertTrue(launch.in_slurm_shell(interactive))
        self.assertFalse(launch.in_slurm_shell(step))
        self.assertTrue(launch.is_rank(step))
        self.assertTrue(launch.is_rank({"HVD_RANK": "0"}))
        self.assertFalse(launch.is_rank({**step, "SLURM_STEP_NUM_TASKS": "1"}))

    def test_the_package_is_found_by_the_ranks(self) -> None:
        package = str(Path(launch.__file__).parents[1])
        self.assertEqual(launch.rank_environment({}, {})["PYTHONPATH"], package)
        given = launch.rank_environment({"PYTHONPATH": "/a"}, {"B": None})["PYTHONPATH"]
        self.assertEqual(given, f"/a{os.pathsep}{package}")


if __name__ == "__main__":
    unittest.main()
