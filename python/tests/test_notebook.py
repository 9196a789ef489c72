"""The notebook runs from its first cell to its last, on a generated trace."""

from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).resolve().parents[1] / "notebooks" / "report.ipynb"


def test_the_notebook_makes_every_plot(monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("matplotlib")
    monkeypatch.delenv("HEARTH_TRACE", raising=False)
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "it is stored without outputs"
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    pictures = [
        output for cell in notebook.cells for output in cell.get("outputs", []) if "image/png" in output.get("data", {})
    ]
    assert len(pictures) == 5
