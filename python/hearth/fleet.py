"""Fleets of hosts whose flash is balanced by moves of VMs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, overload

from hearth import _native
from hearth.api import Path, _paths
from hearth.results import _Record

Rule = Literal["none", "paper", "hearth", "gain"]


class FleetRun(_Record):
    """A fleet under one rule, with the keys of a run of ``hearth sim fleet --json`` and of what was asked.

    The keys are attributes too. ``samples`` is a list of dictionaries, one a window; ``violations`` what did not
    hold; ``traces`` what each trace says of a VM, empty if demand was generated.
    """

    def __repr__(self) -> str:
        return (
            f"<hearth.FleetRun {self['rule']}, seed {self['seed']}: {self['hosts']} hosts, "
            f"{100 * self['overloaded_part']:.1f} % above 90 %, {self['moves']} moves>"
        )

    def __reduce__(self) -> Any:
        return FleetRun, (dict(self),)


class FleetRuns(Sequence[FleetRun]):
    """Runs of fleets in order, and a table of them for everything that takes Arrow: a row each, with its sums."""

    def __init__(self, runs: Iterable[FleetRun] = ()) -> None:
        self._runs = list(runs)

    @overload
    def __getitem__(self, place: int) -> FleetRun: ...
    @overload
    def __getitem__(self, place: slice) -> list[FleetRun]: ...
    def __getitem__(self, place: Any) -> Any:
        return self._runs[place]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[FleetRun]:
        return iter(self._runs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FleetRuns) and self._runs == other._runs

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "\n".join([f"<hearth.FleetRuns: {len(self)} runs", *(f"  {run!r}" for run in self._runs)]) + ">"

    def __arrow_c_schema__(self) -> object:
        return _native.Table.of_fleets(self._runs).__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return _native.Table.of_fleets(self._runs).__arrow_c_stream__(requested_schema)


def simulate_fleet(
    rule: Rule = "hearth",
    *,
    hosts: int = 500,
    vms: int = 20,
    windows: int = 84,
    seed: int = 1,
    faults: Literal["none", "usual"] = "usual",
    demand_from: Path | Iterable[Path] = (),
    demand_window: str = "2h",
    format: str | None = None,
    columns: str | None = None,
    stop: _native.Stop | None = None,
) -> FleetRun:
    """Runs hosts with their VMs through windows of two hours, under one rule of planning.

    >>> run = simulate_fleet("hearth", hosts=10, vms=5, windows=6, faults="none")
    >>> run.rule, len(run.samples), run.violations
    ('hearth', 6, [])

    Arguments mean what the options of ``hearth sim fleet`` mean. ``demand_from`` names traces that VMs are dealt
    instead of generated demand; ``demand_window`` says how much of them is a window. Demand and faults depend on
    the seed and not on the rule. Other threads of Python run meanwhile; Ctrl-C ends it, and so does ``stop.set()``.
    """
    asked = {
        "rule": rule,
        "hosts": hosts,
        "vms": vms,
        "windows": windows,
        "seed": seed,
        "faults": faults,
        "demand_from": _paths(demand_from),
        "demand_window": demand_window,
        "format": format,
        "columns": columns,
    }
    return FleetRun(json.loads(_native.simulate_fleet(asked, stop)))
