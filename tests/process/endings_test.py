# SPDX-License-Identifier: Apache-2.0
"""How a job ends under hvdrun where output, signals or what was inherited get in the way.

Usage: endings_test.py HVDRUN LIBHVD [unittest arguments]
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import jobs

# A rank that saves its work when it is told to end, which takes a while.
SAVES = """
import os, signal, sys, time
def save(number, frame):
    time.sleep(2)
    with open(sys.argv[1] + os.environ["HVD_RANK"], "w") as file:
        file.write("saved")
    os._exit(0)
for number in signal.SIGINT, signal.SIGTERM:
    signal.signal(number, save)
print("ready", flush=True)
while True:
    print("at work", flush=True)
    time.sleep(0.01)
"""
# The same with a helper, as a data loader has, which must not die before the work is saved.
CAREFUL = "import subprocess\nhelper = subprocess.Popen(['sleep', '300'])\n" + SAVES.replace(
    "    time.sleep(2)\n", "    time.sleep(2)\n    assert helper.poll() is None\n"
)


# Rank 1 ends as its arguments say: before hvd.init(), or in the middle of the work.
LEAVES = """
import os, sys, time
when, code = sys.argv[1], int(sys.argv[2])
is_one = os.environ["HVD_RANK"] == "1"
if when == "before" and is_one:
    time.sleep(0.3)
    sys.exit(code)
import hvd
hvd.init(start_timeout=60)
end = time.monotonic() + 60
while time.monotonic() < end:
    if is_one:
        os._exit(code)
    hvd.barrier()
"""


class WhoWasIt(unittest.TestCase):
    """The rank that went first is named, by the others and by hvdrun, whatever its exit code."""

    def run_leaving(self, *command: str) -> subprocess.CompletedProcess:
        job = jobs.start(["-np", "3"], list(command))
        output, errors = job.communicate(timeout=jobs.LIMIT_S)
        return subprocess.CompletedProcess(command, job.returncode, output, errors)

    def test_a_rank_that_does_not_come_to_init_is_told_to_all(self):
        for code in "5", "0":
            with self.subTest(code=code):
                began = time.monotonic()
                done = self.run_leaving(sys.executable, "-c", LEAVES, "before", code)
                self.assertLess(time.monotonic() - began, 40, "they did not wait for it")
                said = re.findall(
                    rf"rank 1 on host \S+ has ended \(exit code {code}\)", done.stdout + done.stderr
                )
                self.assertGreaterEqual(len(said), 2, done.stdout + done.stderr)
                self.assertNotEqual(done.returncode, 0)

    def test_a_rank_that_leaves_with_0_is_named(self):
        done = self.run_leaving(sys.executable, "-c", LEAVES, "amid", "0")
        self.assertRegex(
            done.stderr,
            r"hvdrun: rank 1 on host \S+ ended while others worked with it: exit code 0; rank [02] on",
        )
        self.assertEqual(done.returncode, 1)

    def test_an_exception_is_told_on_other_nodes(self):
        fails = (
            "import os, hvd\nhvd.init(start_timeout=60)\n"
            "if os.environ['HVD_RANK'] == '1':\n    raise ValueError('boom')\n"
            "while True:\n    hvd.barrier()\n"
        )
        job = jobs.start(["-np", "3", "--nodes", "3"], [sys.executable, "-c", fails])
        _, errors = job.communicate(timeout=jobs.LIMIT_S)
        said = r"rank 1 on host \S+ is lost: its program ended with ValueError: boom"
        self.assertEqual(len(set(re.findall(rf"\[\d\].*{said}", errors))), 2, errors)

    def test_the_first_rank_of_a_node_that_stands_still_is_blamed_by_all(self):
        stops = (
            "import os, signal, hvd\nhvd.init(start_timeout=60)\nhvd.barrier()\n"
            "if os.environ['HVD_RANK'] == '2':\n    os.kill(os.getpid(), signal.SIGSTOP)\n"
            "while True:\n    hvd.barrier()\n"
        )
        job = jobs.start(
            ["-np", "4", "--nodes", "2", "--grace", "2"],
            [sys.executable, "-c", stops],
            HVD_SILENCE_TIMEOUT_SECONDS="4",
        )
        _, errors = job.communicate(timeout=jobs.LIMIT_S)
        lost = re.findall(r"PeerLostError: rank (\d) on host", errors)
        self.assertEqual(lost, ["2"] * 3, errors)
        self.assertRegex(errors, "hvdrun: rank 2 on host \\S+ was lost, and is still there")

    def test_a_pipe_that_hides_a_failure_is_told(self):
        script = f'{sys.executable} -c "$0" amid 7 2>&1 | cat'
        done = self.run_leaving("bash", "-c", script, LEAVES)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, "hvdrun: warning: rank [02] lost rank 1, and all programs")
        self.assertIn("`set -o pipefail`", done.stderr)


class GraceToSave(unittest.TestCase):
    """Ranks that were told to end have the whole grace, whatever else happens to hvdrun."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.saved = os.path.join(folder.name, "rank-")

    def start(self, *command, **options):
        job = subprocess.Popen(
            [jobs.arguments()[0], "-np", "2", "--grace", "20", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=jobs.clean_environment(),
            **options,
        )
        self.addCleanup(job.__exit__, None, None, None)
        self.addCleanup(job.kill)
        ready = set()
        while len(ready) < 2:
            line = job.stdout.readline()
            if "ready" in line:
                ready.add(line)
        return job

    def assert_saved(self, job, code):
        self.assertEqual(job.wait(jobs.LIMIT_S), code)
        for rank in "0", "1":
            self.assertTrue(os.path.exists(self.saved + rank), f"rank {rank} was killed unasked")

    def test_where_the_reader_of_the_output_goes_first(self):
        # Ctrl-C with `| tee`: tee dies of it, and the ranks still write.
        job = self.start(sys.executable, "-c", SAVES, self.saved)
        job.send_signal(signal.SIGINT)
        job.stdout.close()
        self.assert_saved(job, 130)

    def test_where_a_signal_comes_twice(self):
        # coreutils' timeout signals its child and then the group, to which the child belongs.
        job = self.start(sys.executable, "-c", SAVES, self.saved)
        job.send_signal(signal.SIGTERM)
        time.sleep(0.05)
        job.send_signal(signal.SIGTERM)
        job.communicate(timeout=jobs.LIMIT_S)
        self.assert_saved(job, 143)

    def test_where_the_terminal_hangs_up_meanwhile(self):
        job = self.start(sys.executable, "-c", SAVES, self.saved)
        job.send_signal(signal.SIGTERM)
        time.sleep(1.1)
        job.send_signal(signal.SIGHUP)
        job.communicate(timeout=jobs.LIMIT_S)
        self.assert_saved(job, 143)

    def test_with_a_helper_process(self):
        # A worker of a data loader dies of these signals; its end is an error in the rank.
        job = self.start(sys.executable, "-c", CAREFUL, self.saved)
        job.send_signal(signal.SIGTERM)
        job.communicate(timeout=jobs.LIMIT_S)
        self.assert_saved(job, 143)

    def test_behind_a_shell(self):
        # The shell dies of SIGTERM at once, and waits through SIGINT; Python is the one that saves,
        # and its helper must not die before it has.
        for shell, number in itertools.product(("bash", "sh"), (signal.SIGINT, signal.SIGTERM)):
            with self.subTest(shell=shell, signal=number):
                script = f'{shell} -c \'"$0" -c "$1" "$2"; true\' "$0" "$1" "$2"; true'
                self.saved += shell + number.name
                job = self.start(shell, "-c", script, sys.executable, CAREFUL, self.saved)
                job.send_signal(number)
                job.communicate(timeout=jobs.LIMIT_S)
                self.assert_saved(job, 128 + number)

    @unittest.skipUnless(shutil.which("fish"), "no fish here")
    def test_behind_a_shell_that_is_no_descendant_of_sh(self):
        script = "$argv[1] -c $argv[2] $argv[3]; true"
        job = self.start("fish", "-c", script, sys.executable, CAREFUL, self.saved)
        job.send_signal(signal.SIGTERM)
        job.communicate(timeout=jobs.LIMIT_S)
        self.assert_saved(job, 143)

    def test_a_request_for_a_checkpoint_passes_the_shell(self):
        # SIGUSR1 kills a shell that has no trap for it, and so the rank.
        program = SAVES.replace("signal.SIGINT, signal.SIGTERM", "signal.SIGUSR1,")
        command = ("bash", "-c", '$0 -c "$1" $2; true', sys.executable, program, self.saved)
        job = self.start(*command)
        job.send_signal(signal.SIGUSR1)
        job.communicate(timeout=jobs.LIMIT_S)
        self.assert_saved(job, 0)

    def test_a_second_signal_that_comes_too_soon_is_answered(self):
        job = self.start(sys.executable, "-c", SAVES, self.saved)
        job.send_signal(signal.SIGINT)
        # Two that are pending at once would be one.
        while "the ranks have" not in job.stderr.readline():
            self.assertIsNone(job.poll())
        job.send_signal(signal.SIGINT)
        _, errors = job.communicate(timeout=jobs.LIMIT_S)
        self.assert_saved(job, 130)
        # Where this test is held up for a second between the two, they are two.
        self.assertIn("again within 1 s, which counts as once", errors)


class OthersProcesses(unittest.TestCase):
    """What is not below the ranks is left alone."""

    def test_a_process_with_the_marker_that_is_no_descendant_lives_on(self):
        # As a job that a rank submitted, or a server that it asked to start something, would.
        with tempfile.TemporaryDirectory() as folder:
            note = os.path.join(folder, "marker")
            os.mkfifo(note)
            script = 'echo $HVD_JOB_MARKER >"$0"; read x <"$0"'
            job = subprocess.Popen(
                [jobs.arguments()[0], "-np", "1", "sh", "-c", script, note],
                stdin=subprocess.DEVNULL,
                env=jobs.clean_environment(),
            )
            self.addCleanup(job.__exit__, None, None, None)
            self.addCleanup(job.kill)
            with open(note, encoding="ascii") as text:
                marker = text.read().strip()
            self.assertTrue(marker)
            other = subprocess.Popen(
                ["sleep", "300"], env=jobs.clean_environment(HVD_JOB_MARKER=marker)
            )
            self.addCleanup(other.wait)
            self.addCleanup(other.kill)
            with open(note, "w", encoding="ascii") as text:
                text.write("end\n")
            self.assertEqual(job.wait(jobs.LIMIT_S), 0)
            self.assertIsNone(other.poll())


class Inherited(unittest.TestCase):
    """Signals that whoever started hvdrun had ignored."""

    def run_with(self, ignored, act, *command):
        job = subprocess.Popen(
            [jobs.arguments()[0], *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env=jobs.clean_environment(),
            preexec_fn=lambda: signal.signal(ignored, signal.SIG_IGN),
        )
        self.addCleanup(job.__exit__, None, None, None)
        self.addCleanup(job.kill)
        act(job)
        output, _ = job.communicate(timeout=jobs.LIMIT_S)
        return job.returncode, output

    def test_a_hang_up_under_nohup_ends_nothing(self):
        def hang_up(job):
            job.stdout.readline()
            job.send_signal(signal.SIGHUP)

        script = "echo begun; sleep 1; echo done"
        code, output = self.run_with(signal.SIGHUP, hang_up, "-np", "1", "sh", "-c", script)
        self.assertEqual((code, output), (0, "done\n"))

    def test_ends_of_ranks_are_told_where_sigchld_is_ignored(self):
        command = ("-np", "2", "--grace", "0.1", "sh", "-c", "exit 7")
        self.assertEqual(self.run_with(signal.SIGCHLD, lambda job: None, *command)[0], 7)


class Sinks(unittest.TestCase):
    """Where output goes may be full, slow or gone; the job is not its prisoner."""

    def test_a_full_disk_is_said_once_and_the_job_goes_on(self):
        with tempfile.NamedTemporaryFile() as note, open("/dev/full", "wb") as full:
            script = f"for i in 1 2 3; do echo $i; sleep 0.1; done; echo done >{note.name}"
            done = subprocess.run(
                [jobs.arguments()[0], "-np", "1", "--prefix", "sh", "-c", script],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=jobs.LIMIT_S,
                env=jobs.clean_environment(),
                check=False,
            )
            self.assertEqual(note.read(), b"done\n")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.count("No space left on device"), 1, done.stderr)

    def test_output_that_was_not_written_is_a_failure(self):
        with open("/dev/full", "wb") as full:
            for streams in ({"stdout": full}, {"stderr": full}):
                done = subprocess.run(
                    [jobs.arguments()[0], "-np", "1", "sh", "-c", "echo hi; echo ho >&2"],
                    **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
                    timeout=jobs.LIMIT_S,
                    env=jobs.clean_environment(),
                    check=False,
                )
                self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stdout, b"hi\n")
            done = subprocess.run(
                [jobs.arguments()[0], "-np", "1", "sh", "-c", "echo hi; exit 7"],
                stdout=full,
                timeout=jobs.LIMIT_S,
                env=jobs.clean_environment(),
                check=False,
            )
            self.assertEqual(done.returncode, 7, "a failed rank comes first")

    def test_a_lost_reader_of_one_stream_leaves_the_other(self):
        script = (
            "import signal, sys, time\n"
            "def save(number, frame):\n"
            "    time.sleep(0.5)\n    print('saved', flush=True)\n    sys.exit(0)\n"
            "signal.signal(signal.SIGTERM, save)\n"
            "while True:\n    sys.stderr.write('at work\\n')\n    time.sleep(0.01)\n"
        )
        job = subprocess.Popen(
            [jobs.arguments()[0], "-np", "1", sys.executable, "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=jobs.clean_environment(),
        )
        self.addCleanup(job.__exit__, None, None, None)
        self.addCleanup(job.kill)
        job.stderr.readline()
        job.stderr.close()
        self.assertEqual(job.stdout.read(), b"saved\n")

    def test_a_slow_reader_costs_no_time_where_a_process_holds_the_pipe(self):
        script = "echo $$ >&2; read line <$0; exec seq 40000"
        with tempfile.TemporaryDirectory() as folder:
            fifo = os.path.join(folder, "fifo")
            os.mkfifo(fifo)
            job, reader = self.start_unread("-np", "1", "sh", "-c", script, fifo)
            rank = int(job.stderr.readline())
            # This process is none of the job's, and so outlives it.
            with open(f"/proc/{rank}/fd/2", "wb", buffering=0) as pipe:
                with open(fifo, "wb") as go_on:
                    go_on.write(b"now\n")
                time.sleep(1)
                with self.assertRaises(BrokenPipeError):
                    pipe.write(b"late\n")
                    time.sleep(1)
                    pipe.write(b"later\n")
        self.assertIsNone(job.poll())
        os.set_blocking(reader, True)
        with open(reader, "rb") as output:
            output.read()
        _, status, usage = os.wait4(job.pid, 0)
        job.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(job.returncode, 0)
        self.assertLess(usage.ru_utime + usage.ru_stime, 0.5)

    def test_a_sink_that_does_not_block_gets_all(self):
        # Another program may switch the terminal, or the pipe, that we share to non-blocking.
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        job = subprocess.Popen(
            [jobs.arguments()[0], "-np", "1", "seq", "200000"],
            stdout=writer,
            env=jobs.clean_environment(),
        )
        os.close(writer)
        time.sleep(0.5)
        with open(reader, encoding="ascii") as output:
            self.assertEqual(sum(1 for _ in output), 200000)
        self.assertEqual(job.wait(jobs.LIMIT_S), 0)

    def start_unread(self, *command):
        """Starts a job whose output is a FIFO that nobody reads; returns it and the FIFO's end."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        fifo = os.path.join(folder.name, "fifo")
        os.mkfifo(fifo)
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        with open(fifo, "wb") as writer:
            job = subprocess.Popen(
                [jobs.arguments()[0], "--grace", "2", *command],
                stdin=subprocess.DEVNULL,
                stdout=writer,
                stderr=subprocess.PIPE,
                text=True,
                env=jobs.clean_environment(),
            )
        self.addCleanup(job.__exit__, None, None, None)
        self.addCleanup(job.kill)
        return job, reader

    def test_signals_are_served_where_nobody_reads(self):
        job, reader = self.start_unread("-np", "2", "yes")
        time.sleep(1)
        job.send_signal(signal.SIGINT)
        _, errors = job.communicate(timeout=jobs.LIMIT_S)
        os.close(reader)
        self.assertEqual(job.returncode, 130, errors)

    def test_a_failure_ends_the_others_where_nobody_reads(self):
        script = "[ $HVD_RANK = 1 ] || exec yes; sleep 1; exit 7"
        job, reader = self.start_unread("-np", "2", "--prefix", "sh", "-c", script)
        line = ""
        while "failed first" not in line:
            line = job.stderr.readline()
            self.assertTrue(line)
        os.set_blocking(reader, True)
        with open(reader, "rb") as output:
            while output.read(1024 * 1024):
                pass
        job.communicate(timeout=jobs.LIMIT_S)
        self.assertEqual(job.returncode, 7)

    def test_a_reader_that_comes_late_gets_all(self):
        job, reader = self.start_unread("-np", "1", "seq", "400000")
        time.sleep(1)
        self.assertIsNone(job.poll())
        os.set_blocking(reader, True)
        with open(reader, encoding="ascii") as output:
            self.assertEqual([int(line) for line in output], list(range(1, 400001)))
        job.communicate(timeout=jobs.LIMIT_S)
        self.assertEqual(job.returncode, 0)

    def test_a_child_that_writes_for_ever_does_not_hold_up_the_end(self):
        done = subprocess.run(
            [jobs.arguments()[0], "-np", "1", "sh", "-c", "yes & exit 0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=jobs.LIMIT_S,
            env=jobs.clean_environment(),
            check=False,
        )
        self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    jobs.main()
