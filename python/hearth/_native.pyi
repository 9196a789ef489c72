from collections.abc import Sequence
from pathlib import Path
from typing import Any

__version__: str

class TraceError(ValueError):
    """A trace cannot be read, is not what its format says, or has not what is asked of it."""

class PolicyError(RuntimeError):
    """A policy written in Python did what no cache can do."""

class Stop:
    """Tells runs in other threads to end."""

    def __init__(self) -> None: ...
    def set(self) -> None:
        """Ends every run that was given this; it raises KeyboardInterrupt there."""

class Trace:
    """An opened trace, for everything that takes an Arrow stream. Each stream begins at the trace's beginning."""

    path: Path
    format: str
    recognised_by: str | None
    packing: str
    def __init__(
        self, path: str, format: str | None = None, columns: str | None = None, block_size: str = "4KiB"
    ) -> None: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class Table:
    """Results as an Arrow table."""

    def __init__(self, runs: Sequence[dict[str, Any]]) -> None: ...
    @staticmethod
    def of_fleets(runs: Sequence[dict[str, Any]]) -> Table:
        """Runs of fleets instead, a row each."""

    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

def formats() -> dict[str, str]: ...
def policies() -> str: ...
def simulate(trace: str, policies: Sequence[Any], asked: dict[str, Any], stop: Stop | None = None) -> str: ...
def simulate_fleet(asked: dict[str, Any], stop: Stop | None = None) -> str: ...
def mrc(trace: str, asked: dict[str, Any], stop: Stop | None = None) -> str: ...
