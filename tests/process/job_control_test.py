# SPDX-License-Identifier: Apache-2.0
"""hvdrun at a terminal, behind a shell's `&`, and on machines that lack memory, files or a disk that answers.

Usage: job_control_test.py HVDRUN LIBHVD [unittest arguments]
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import pty
import re
import resource
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import jobs

# Ranks that add up until a file says that it is enough.
ADDS = """
hvd.init()
note_pid()


def add(value):
    one = (ctypes.c_float * 1)(value)
    place = ctypes.addressof(one)
    tensor = api.tensor_struct(FLOAT32, (1,), source=place, target=place)
    handle = api.submit(Work(_lib.ALLREDUCE, "enough"), [tensor])
    try:
        api.wait(handle)
    finally:
        api.release(handle)
    return one[0]


while add(float(os.path.exists(SCRATCH + "/enough"))) == 0:
    pass
say("done")
"""


def state_of(pid: int) -> str:
    """The letter of /proc/PID/stat: "T" for stopped; empty: gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(") ", 1)[1][0]
    except OSError:
        return ""


def await_true(condition, what: str) -> None:
    """Looks again and again, for what no descriptor tells."""
    deadline = time.monotonic() + jobs.LIMIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not in {jobs.LIMIT_S} s")
        time.sleep(0.02)


class Stopped(jobs.JobCase):
    """Ctrl-Z stops hvdrun and the ranks, `fg` continues both."""

    def pids(self):
        notes = [Path(self.scratch) / f"pid.{rank}" for rank in range(2)]
        await_true(lambda: all(note.exists() for note in notes), "two ranks")
        return [int(note.read_text(encoding="ascii")) for note in notes]

    def test_the_ranks_stop_with_hvdrun_and_go_on_with_it(self):
        began = time.monotonic()
        job = self.launch(["-np", "2"], ADDS)
        pids = self.pids()
        job.send_signal(signal.SIGTSTP)
        _, status = os.waitpid(job.pid, os.WUNTRACED)
        self.assertTrue(os.WIFSTOPPED(status), status)
        await_true(lambda: all(state_of(pid) == "T" for pid in pids), "stopped ranks")
        job.send_signal(signal.SIGCONT)
        Path(self.scratch, "enough").touch()
        ended = self.finish(job, began)
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(ended.lines, {0: ["done"], 1: ["done"]})

    def test_a_stopped_job_ends_when_it_is_told_to(self):
        # `kill %1` of a shell: SIGTERM, then SIGCONT.
        began = time.monotonic()
        job = self.launch(["-np", "2", "--grace", "5"], ADDS)
        pids = self.pids()
        job.send_signal(signal.SIGTSTP)
        os.waitpid(job.pid, os.WUNTRACED)
        await_true(lambda: all(state_of(pid) == "T" for pid in pids), "stopped ranks")
        job.send_signal(signal.SIGTERM)
        job.send_signal(signal.SIGCONT)
        self.assertEqual(self.finish(job, began).code, 143)

    def test_a_stopped_hvdrun_that_is_killed_leaves_nothing(self):
        began = time.monotonic()
        job = self.launch(["-np", "2"], ADDS)
        self.pids()
        job.send_signal(signal.SIGTSTP)
        os.waitpid(job.pid, os.WUNTRACED)
        job.kill()
        job.wait(jobs.LIMIT_S)
        await_true(lambda: not jobs.marked_processes(self.mark), "end of all")
        self.finish(job, began)


class Terminal(unittest.TestCase):
    """A pseudo-terminal, with a user who reads and types."""

    def open(self, *command):
        """hvdrun as the foreground of a new terminal; returns our end of it."""
        pid, master = pty.fork()
        if pid == 0:
            os.execve(command[0], command, jobs.clean_environment())
        self.addCleanup(os.close, master)
        self.addCleanup(self.reap, pid)
        self.shown = ""
        return master

    def reap(self, pid):
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except ProcessLookupError:
            pass

    def await_text(self, master, text):
        deadline = time.monotonic() + jobs.LIMIT_S
        while text not in self.shown:
            ready = select.select([master], [], [], max(0, deadline - time.monotonic()))[0]
            try:
                part = os.read(master, 4096) if ready else b""
            except OSError as problem:
                if problem.errno != errno.EIO:
                    raise
                part = b""
            self.assertTrue(part, f"{text!r} never came:\n{self.shown}")
            self.shown += part.decode().replace("\r\n", "\n")

    def test_a_prompt_shows_before_its_line_ends(self):
        script = (
            "[ $HVD_RANK = 0 ] || exit 0; printf 'name? '; read name; echo; echo so it is $name"
        )
        master = self.open(jobs.arguments()[0], "-np", "2", "sh", "-c", script)
        self.await_text(master, "[0] name? ")
        os.write(master, b"Ada\n")
        self.await_text(master, "[0] so it is Ada\n")

    def test_equal_lines_of_all_ranks_lose_no_rank(self):
        script = "echo same; echo $HVD_RANK; echo same; [ $HVD_RANK = 2 ] && echo end"
        master = self.open(jobs.arguments()[0], "-np", "3", "sh", "-c", f"{script}; true")
        self.await_text(master, "[2] end\n")
        said = {0: [], 1: [], 2: []}
        deadline = time.monotonic() + jobs.LIMIT_S
        while any(len(lines) < 3 for lines in said.values()):
            said = {0: [], 1: [], 2: []}
            for ranks, text in re.findall(r"^\[([-,\d]+)\] (.*)\n", self.shown, re.M):
                for part in ranks.split(","):
                    first, _, last = part.partition("-")
                    for rank in range(int(first), int(last or first) + 1):
                        said[rank].append(text)
            if any(len(lines) < 3 for lines in said.values()):
                self.assertLess(time.monotonic(), deadline, self.shown)
                self.shown += os.read(master, 4096).decode().replace("\r\n", "\n")
        for rank, lines in said.items():
            self.assertEqual(lines[:3], ["same", str(rank), "same"], self.shown)

    def test_a_job_in_the_background_leaves_the_keyboard_to_the_shell(self):
        # A rank is in another session: the kernel would let it read what is typed for the shell.
        shell = (
            "import os, subprocess, sys\n"
            "job = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, preexec_fn=os.setpgrp)\n"
            "print('job said', job.communicate()[0], flush=True)\n"
        )
        script = 'read line && echo "stole $line"; echo over'
        job = (jobs.arguments()[0], "-np", "1", "sh", "-c", script)
        master = self.open(sys.executable, "-c", shell, *job)
        self.await_text(master, r"job said b'over\n'")


class Background(unittest.TestCase):
    """`hvdrun ... &` in a script: the shell ignores SIGINT for it."""

    def test_it_can_be_interrupted_as_other_launchers_can(self):
        job = subprocess.Popen(
            [jobs.arguments()[0], "-np", "2", sys.executable, "-c", WAITS],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env=jobs.clean_environment(),
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )
        self.addCleanup(job.__exit__, None, None, None)
        self.addCleanup(job.kill)
        for _ in range(2):
            self.assertIn("ready", job.stdout.readline())
        job.send_signal(signal.SIGINT)
        output, _ = job.communicate(timeout=jobs.LIMIT_S)
        self.assertEqual(job.returncode, 130)
        self.assertEqual(output.count("interrupted"), 2, output)


WAITS = """
import time
try:
    print("ready", flush=True)
    while True:
        time.sleep(0.1)  # a signal between this and a long sleep would go by unseen
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


class Limits(unittest.TestCase):
    def run_hvdrun(self, *arguments, **options):
        return subprocess.run(
            [jobs.arguments()[0], *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=jobs.LIMIT_S,
            env=jobs.clean_environment(),
            check=False,
            **options,
        )

    def test_more_ranks_than_files_may_be_open_is_an_error_at_once(self):
        done = self.run_hvdrun(
            *("-np", "300", "true"),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024)),
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn("300 ranks on this host: ", done.stderr)
        self.assertIn("ulimit -n", done.stderr)

    def test_a_rank_that_the_kernel_killed_for_memory_is_said_to_lack_it(self):
        top = Path("/sys/fs/cgroup")
        is_first = (top / "memory").is_dir()
        group = top / ("memory" if is_first else "") / f"hvd-test-{os.getpid()}"
        limit = "memory.limit_in_bytes" if is_first else "memory.max"
        try:
            group.mkdir()
            self.addCleanup(group.rmdir)
            (group / limit).write_text(str(96 << 20), encoding="ascii")
            if not is_first:
                (group / "memory.swap.max").write_text("0", encoding="ascii")
        except OSError as problem:
            self.skipTest(f"no control group for memory can be made here: {problem}")
        program = (
            "import os, time\nif os.environ['HVD_RANK'] == '1':\n b = bytearray(256 << 20)\n"
            " for i in range(0, len(b), 4096): b[i] = 1\ntime.sleep(300)\n"
        )
        done = self.run_hvdrun(
            *("-np", "2", "--grace", "0.1", sys.executable, "-c", program),
            preexec_fn=lambda: (group / "cgroup.procs").write_text("0", encoding="ascii"),
        )
        self.assertEqual(done.returncode, 137, done.stderr)
        self.assertRegex(
            done.stderr,
            r"rank 1 on host \S+ failed first: signal 9 \(Killed\), probably out of memory: "
            rf"cgroup \S*/{group.name} has a limit of 96 MiB\n",
        )
        await_true(lambda: not (group / "cgroup.procs").read_text(), "an empty group")

    def test_a_kill_by_somebody_is_not_said_to_be_for_memory(self):
        done = self.run_hvdrun("-np", "1", "sh", "-c", "kill -9 $$")
        self.assertIn("failed first: signal 9 (Killed)\n", done.stderr)


def hang_in_mkdir():
    """From here on mkdir() of this process waits for an answer that nobody gives: what a network
    file system does whose server is gone."""
    libc = ctypes.CDLL(None, use_errno=True)
    calls = {"x86_64": (83, 317), "aarch64": (34, 277)}
    mkdir, seccomp = calls[platform.machine()]
    load, equal, give = 0x20, 0x15, 0x06
    allow, notify = 0x7FFF0000, 0x7FC00000
    code = b"".join(
        struct.pack("HBBI", *line)
        for line in (
            (load, 0, 0, 0),
            (equal, 0, 1, mkdir),
            (give, 0, 0, notify),
            (give, 0, 0, allow),
        )
    )
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxP", 4, ctypes.addressof(buffer))
    libc.prctl(38, 1, 0, 0, 0)
    listener = libc.syscall(*(ctypes.c_long(word) for word in (seccomp, 1, 8)), program)
    if listener < 0:
        os._exit(77)
    os.set_inheritable(listener, True)


class HungFileSystem(unittest.TestCase):
    @unittest.skipUnless(platform.machine() in ("x86_64", "aarch64"), "other system call numbers")
    def test_a_start_that_waits_for_it_says_so_and_can_be_interrupted(self):
        with tempfile.TemporaryDirectory() as folder:
            job = subprocess.Popen(
                [jobs.arguments()[0], "-np", "2", "--output-dir", f"{folder}/logs", "true"],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                env=jobs.clean_environment(),
                preexec_fn=hang_in_mkdir,
                close_fds=False,  # the listener's would be closed
            )
            self.addCleanup(job.__exit__, None, None, None)
            self.addCleanup(job.kill)
            line = job.stderr.readline()
            if job.poll() == 77:
                self.skipTest("no seccomp listener can be made here")
            self.assertIn("the file system does not answer", line)
            job.send_signal(signal.SIGINT)
            self.assertEqual(job.wait(jobs.LIMIT_S), 130)


class SaidOnce(unittest.TestCase):
    """The last words of a failing rank are repeated only where others have buried them."""

    def errors_of(self, ranks, script):
        done = subprocess.run(
            [jobs.arguments()[0], "-np", ranks, "--grace", "20", "sh", "-c", script],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=jobs.LIMIT_S,
            env=jobs.clean_environment(),
            check=False,
        )
        self.assertEqual(done.returncode, 3, done.stderr)
        return done.stderr

    def test_what_was_just_shown_is_not_said_again(self):
        for ranks in "1", "2":
            script = "[ $HVD_RANK = 0 ] || exit 0; echo the cause >&2; exit 3"
            errors = self.errors_of(ranks, script)
            self.assertEqual(errors.count("the cause"), 1, errors)
            self.assertNotIn("its last lines", errors)

    def test_what_was_buried_is_said_again(self):
        with tempfile.TemporaryDirectory() as folder:
            gates = [os.path.join(folder, name) for name in ("said", "buried")]
            for gate in gates:
                os.mkfifo(gate)
            said, buried = gates
            script = (
                f"if [ $HVD_RANK = 0 ]; then echo the cause >&2; echo >{said}; read x <{buried}; "
                f"exit 3; fi; read x <{said}; seq 100 >&2; echo >{buried}"
            )
            errors = self.errors_of("2", script)
        self.assertEqual(errors.count("the cause"), 2, errors)
        self.assertIn("its last lines on standard error:\nhvdrun:   the cause\n", errors)


if __name__ == "__main__":
    jobs.main()
