# SPDX-License-Identifier: Apache-2.0
"""examples/interactive.ipynb runs from top to bottom, and is kept without outputs."""

from __future__ import annotations

import unittest
from pathlib import Path

import jupyter_client.manager
import nbclient
import nbformat

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "interactive.ipynb"

ENDLESS = """
import hvd, time
def endless():
    print("up", flush=True)
    time.sleep(600)
hvd.run(endless, np=2, options=["--grace", "1"])
"""


def written(cell) -> str:
    """Everything that a cell printed or showed."""
    texts = [output.get("text", "") for output in cell.outputs]
    return "".join(
        texts + [output.data["text/plain"] for output in cell.outputs if "data" in output]
    )


class Notebook(unittest.TestCase):
    def test_the_cells(self) -> None:
        notebook = nbformat.read(str(NOTEBOOK), as_version=4)
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        for cell in code:
            self.assertEqual((cell.outputs, cell.execution_count), ([], None), "strip outputs")
        folder = {"metadata": {"path": str(NOTEBOOK.parent)}}
        nbclient.NotebookClient(
            notebook, timeout=150, kernel_name="python3", resources=folder
        ).execute()
        trained, rates, failed = (written(cell) for cell in code[-3:])
        for rank in (0, 1):
            self.assertIn(f"[{rank}] epoch 3: ", trained)
        self.assertRegex(trained, r"\[\(0, (0\.\d+)\), \(1, \1\)\]")
        self.assertRegex(rates, r"^\{0\.01: 0\.\d+, 0\.1: 0\.\d+\}$")
        self.assertIn("rank 1 raised ZeroDivisionError", failed)
        # The line of the cell itself, which no file has.
        self.assertIn("mine = 1024 // batches[hvd.rank()]", failed)
        self.assertIn("the cause here: ZeroDivisionError", failed)

    def test_the_stop_button_ends_the_ranks(self) -> None:
        manager, client = jupyter_client.manager.start_new_kernel(kernel_name="python3")
        self.addCleanup(manager.shutdown_kernel, now=True)
        self.addCleanup(client.stop_channels)
        written = ""

        def follow(message) -> None:
            nonlocal written
            content = message["content"]
            if message["msg_type"] == "stream":
                is_up = "] up" in written
                written += content["text"]
                if "] up" in written and not is_up:  # shown while the cell runs
                    manager.interrupt_kernel()

        reply = client.execute_interactive(ENDLESS, timeout=60, output_hook=follow)
        self.assertEqual(reply["content"].get("ename"), "KeyboardInterrupt", written)
        self.assertNotIn("Traceback", written)


if __name__ == "__main__":
    unittest.main()
