# SPDX-License-Identifier: Apache-2.0
"""A small elastic training without a framework, and what its ranks say of each step."""

from __future__ import annotations

import jobs

# A training whose every value depends on all ranks and on all steps before; ranks say what they
# have after each step. DEATHS: "process:step:how" of those that end, once each.
TRAINING = """
import hvd.elastic

DEATHS = [death.split(":") for death in os.environ.get("DEATHS", "").split()]
STEPS = int(os.environ.get("STEPS", "12"))
PROCESS = os.environ["HVD_PROCESS"]


def mix(total):
    # Never comes to rest, and is short enough for sums of powers of two to be exact in any order.
    fraction = total * 0.618034 % 1.0
    return round(3.99 * fraction * (1 - fraction) * 4096) / 4096


def die_if_due(step):
    for process, when, how in DEATHS:
        if process == PROCESS and int(when) <= step:
            say("DIES", step, time.monotonic())
            if how == "raise":
                raise RuntimeError("a fault of its own")
            os.kill(os.getpid(), getattr(signal, how))


@hvd.elastic.run
def train(state):
    say("BEGINS", hvd.rank(), hvd.size(), hvd.local_rank(), state.step, time.monotonic())
    while state.step < STEPS:
        one = Sum("gradient", first=(state.value + hvd.rank() + 1) / hvd.size())
        die_if_due(state.step)
        one.wait()
        state.value = mix(one.values[0])
        state.step += 1
        say("STEP", state.step, state.value, time.monotonic())
        state.commit()


hvd.init()
train(hvd.elastic.ObjectState(step=0, value=0.25))
say("ENDS", hvd.rank(), hvd.size())
hvd.shutdown()
"""


def steps(ended: jobs.Ended, process: int) -> dict[int, str]:
    """The value of each step, as that process says them last."""
    found = {}
    for line in ended.lines.get(process, []):
        if line.startswith("STEP "):
            _, step, value, _ = line.split()
            found[int(step)] = value
    return found


def all_steps(ended: jobs.Ended) -> dict[int, str]:
    """The value of each step, on which all that have said one must agree.

    One rank may have finished a step when another was lost in it, and only the first says it.
    """
    found: dict[int, str] = {}
    for process in ended.lines:
        for step, value in steps(ended, process).items():
            if found.setdefault(step, value) != value:
                raise AssertionError(f"step {step}: {value}, not {found[step]}\n{ended.text()}")
    return found
