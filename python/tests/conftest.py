"""Where tests find traces: small generated ones, and the real ones if they are on this machine."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: Two VMs, reads and writes, skewed; the same records on every machine.
MIX = (
    "gen:zipf,requests=20000,blocks=4000,theta=0.9,reads=0.7,rate=1000,vm=web,seed=1"
    "+loop,requests=5000,blocks=600,rate=250,vm=db"
)


@pytest.fixture
def mix() -> str:
    return MIX


@pytest.fixture
def real_trace() -> Callable[[str], str]:
    """The path of a real trace; skips, and in continuous integration fails, if it is not there."""
    folder = Path(os.environ.get("HEARTH_TRACES", ROOT.parent / "shared" / "traces"))

    def find(name: str) -> str:
        path = folder / name
        if not path.exists():
            assert "CI" not in os.environ, f"{path} is missing: set HEARTH_TRACES to the traces' folder"
            pytest.skip(f"{path} is missing; set HEARTH_TRACES to the traces' folder")
        return str(path)

    return find


@pytest.fixture
def golden() -> list[list[str]]:
    """Rows of the table of miss ratios: trace, blocks, policy, accesses, miss ratio."""
    text = (ROOT / "fixtures" / "golden" / "libcachesim_0.3.5_missratio.csv").read_text()
    return [line.split(",") for line in text.splitlines()[1:]]
