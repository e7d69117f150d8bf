# SPDX-License-Identifier: Apache-2.0
"""The lint command on files and environments: exit codes, mending in place, colour.

Usage: lint_command_test.py HVDRUN
"""

import json
import os
import pathlib
import pty
import stat
import subprocess
import sys
import tempfile

WRONG = "#!/bin/bash\n#SBATCH --nodes=2 --time=1:00\nexport NCCL_P2P_LEVEL=nvl\nsrun hvdrun x\n"
RIGHT = WRONG.replace("nvl", "NVL")


def lint(*words: str, **variables: str) -> subprocess.CompletedProcess:
    """Run the command in an environment of our own."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **variables}
    return subprocess.run(
        [sys.argv[1], "lint", *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def expect(what: str, condition: bool) -> None:
    """End with what does not hold."""
    if not condition:
        sys.exit(f"failed: {what}")


def check_files(folder: pathlib.Path) -> None:
    """What --fix writes, and how."""
    job = folder / "a job.sbatch"
    job.write_text(WRONG)
    job.chmod(0o750)
    link = folder / "link.sbatch"
    link.symlink_to(job)

    found = lint("--site", "generic", str(job))
    expect("something is wrong: 1", found.returncode == 1)
    expect("the line is named", f"{job}:3: error: NCCL_P2P_LEVEL" in found.stdout)
    expect("without --fix nothing is written", job.read_text() == WRONG)

    mended = lint("--site", "generic", "--fix", str(link))
    expect("mended: 0", mended.returncode == 0)
    expect("it says what changed", "mended: line 3: NCCL_P2P_LEVEL: write NVL" in mended.stdout)
    expect("mended as expected", job.read_text() == RIGHT)
    expect("the rights stay", stat.S_IMODE(job.stat().st_mode) == 0o750)
    expect("the link stays a link", link.is_symlink())
    expect(
        "nothing is left beside it",
        sorted(p.name for p in folder.iterdir()) == [job.name, link.name],
    )

    before = job.stat().st_ino
    again = lint("--site", "generic", "--fix", str(job))
    expect("again: nothing to do", again.returncode == 0 and "mended" not in again.stdout)
    expect("a right file is not written", job.stat().st_ino == before)

    several = lint("--site", "generic", "--format", "json", str(job), str(link))
    expect("several files", len(json.loads(several.stdout)["files"]) == 2)

    lost = folder / "lost.sbatch"
    lost.write_text("#!/bin/bash\n#SBATCH -N 1 -t 1 -o logs/%j.out\nsrun hvdrun x\n")
    noted = lint("--site", "generic", str(lost))
    expect("a folder of the output that is not there: 0", noted.returncode == 0)
    expect("and a note", f"{lost}:2: note: -o: folder 'logs' is neither here" in noted.stdout)
    (folder / "logs").mkdir()
    noted = lint("--site", "generic", str(lost))
    expect("none where it is beside the script", "output-folder" not in noted.stdout)

    for name, content, said in (
        ("empty.sbatch", b"", "empty"),
        ("binary.sbatch", bytes(range(256)) * 20, "binary"),
        ("notes.txt", b"buy milk\n", "no job script"),
    ):
        path = folder / name
        path.write_bytes(content)
        done = lint(str(path))
        expect(f"{name} is not a script: 1, not {done.returncode}", done.returncode == 1)
        expect(f"{name}: '{said}' in {done.stdout}", said in done.stdout)
        json.loads(lint("--format", "sarif", str(path)).stdout)


def check_programs(folder: pathlib.Path) -> None:
    """Python programs, by themselves and as what a job script starts."""
    right = "import hvd.torch as hvd\nhvd.init()\nprint(hvd.rank())\n"
    program = folder / "train.py"
    program.write_text(right + "import torch\ntorch.save(model, 'a.pt')\n")
    alone = lint(str(program))
    expect("a program is judged: 1", alone.returncode == 1)
    expect("with its line", f"{program}:5: error: torch.save" in alone.stdout)
    job = folder / "job.sbatch"
    job.write_text("#!/bin/bash\n#SBATCH -N 1\nsrun hvdrun python3 train.py\n")
    both = lint("--site", "generic", "--format", "json", str(job))
    expect("found beside the job script", both.returncode == 1)
    files = json.loads(both.stdout)["files"]
    expect("as a file of its own", [one["path"] for one in files] == [str(job), str(program)])

    program.write_text("from common import start\nimport hvd.torch as hvd\nstart()\nhvd.rank()\n")
    (folder / "common.py").write_text("import hvd.torch as hvd\ndef start():\n    hvd.init()\n")
    joined = lint(str(program))
    expect(f"modules beside it count: {joined.stdout}", joined.returncode == 0)
    expect("nothing more is said than was seen", "as far as the text" in joined.stdout)
    program.unlink()
    alone = lint("--site", "generic", str(job))
    expect("a program that is not there: 0", alone.returncode == 0)
    expect("and a note", "train.py: not found from here" in alone.stdout)
    alone = lint("--site", "generic", "--format", "json", str(job))
    files = json.loads(alone.stdout)["files"]
    expect("and it is not a file that was read", [one["path"] for one in files] == [str(job)])


def check_looks(folder: pathlib.Path) -> None:
    """The cluster is asked for job scripts alone, and once for all of them."""
    commands = folder / "bin"
    commands.mkdir()
    asked = folder / "asked"
    for name in ("scontrol", "sacctmgr"):
        command = commands / name
        command.write_text(f'#!/bin/sh\necho "$0 $*" >>{asked}\necho refused >&2\nexit 1\n')
        command.chmod(0o755)
    conf = folder / "slurm.conf"
    conf.write_text("ClusterName=test\n")
    here = {"PATH": f"{commands}:{os.environ['PATH']}", "SLURM_CONF": str(conf)}
    program = folder / "look.py"
    program.write_text("import hvd.torch as hvd\nhvd.init()\nprint(hvd.rank())\n")
    job = folder / "look.sbatch"
    job.write_text(RIGHT)
    alone = lint("--site", "generic", str(program), **here)
    expect("nothing is wrong with the program", alone.returncode == 0)
    expect("no cluster is asked for a program", not asked.exists() and alone.stderr == "")
    both = lint("--site", "generic", str(program), str(job), str(job), **here)
    expect(f"it is asked for a job script: {both.stderr}", asked.exists())
    expect("what failed is printed once", both.stderr.count("limits that the cluster") == 1)
    expect("and decides nothing", both.returncode == 0)


def check_real_programs(root: pathlib.Path) -> None:
    """Programs that are right are found to be: the examples, and scripts written for Horovod."""
    programs = [
        *root.glob("examples/*/*.py"),
        *root.glob("tests/python/horovod_scripts/*.py"),
        *root.glob("tests/python/founding/*.py"),
    ]
    programs = [path for path in programs if "hvd" in path.read_text()]
    expect("there are programs", len(programs) > 30)
    done = lint("--format", "json", *(str(path) for path in programs))
    for file in json.loads(done.stdout)["files"]:
        for finding in file["findings"]:
            may_be = finding["rule"] in ("unscaled-rate", "not-judged")
            expect(f"{file['path']}: {finding}", may_be and finding["severity"] == "note")
    expect("nothing is wrong with them", done.returncode == 0)


def check_usage(folder: pathlib.Path) -> None:
    """What cannot be done is said in one sentence, with exit code 2."""
    for words, said in (
        ([], "nothing to check"),
        (["--env", "x"], "--env"),
        (["--format", "xml", "x"], "not 'xml'"),
        ([str(folder / "absent")], "absent"),
        ([str(folder)], "job script"),
        (["--site", "nowhere", "x"], "nowhere"),
        (["--slurm", "new", "x"], "'new' is not a version"),
    ):
        done = lint(*words)
        expect(f"{words}: exit code 2, not {done.returncode}", done.returncode == 2)
        expect(f"{words}: '{said}' in '{done.stderr}'", said in done.stderr)
        expect(f"{words}: nothing on standard output", done.stdout == "")


def check_environment() -> None:
    """--env, and its formats."""
    expect("nothing is wrong: 0", lint("--env").returncode == 0)
    noted = lint("--env", MPICH_OFI_NIC_POLICY="GPU", FI_CXI_DISABLE_CQ_HUGETLB="1")
    expect("notes alone: 0", noted.returncode == 0 and "note: FI_CXI" in noted.stdout)
    wrong = lint("--env", FI_CXI_RX_MATCH_MODE="hybird")
    expect("something is: 1", wrong.returncode == 1)
    expect("no colour in a pipe", "\033" not in wrong.stdout)
    expect("it says what to write", "hint: write hybrid" in wrong.stdout)
    for name in ("json", "sarif"):
        json.loads(lint("--env", "--format", name, FI_LOG_LEVEL="loud").stdout)
    annotated = lint("--env", "--format", "github", FI_LOG_LEVEL="loud").stdout
    expect("an annotation", annotated.startswith("::error title=hvdrun lint wrong-value::FI_LOG"))


def lint_on_terminal(**variables: str) -> str:
    """What the command writes on a terminal."""
    ours, its = pty.openpty()
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm", "FI_LOG_LEVEL": "loud", **variables}
    subprocess.run(
        [sys.argv[1], "lint", "--env"], env=environment, stdout=its, timeout=60, check=False
    )
    os.close(its)
    written = b""
    try:
        while part := os.read(ours, 4096):
            written += part
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    return written.decode()


def check_colour() -> None:
    """Colour on a terminal, unless it is not wanted."""
    expect("colour on a terminal", "\033[1;31merror" in lint_on_terminal())
    expect("none with NO_COLOR", "\033" not in lint_on_terminal(NO_COLOR="1"))
    expect("an empty NO_COLOR is none", "\033" in lint_on_terminal(NO_COLOR=""))


def main() -> None:
    """Run every check."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_usage(folder)
        check_files(folder)
        check_programs(folder)
        check_looks(folder)
    check_real_programs(pathlib.Path(__file__).resolve().parents[4])
    check_environment()
    check_colour()


main()
