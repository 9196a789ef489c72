"""What simulations and curves answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from hearth import _native


class _Record(dict[str, Any]):
    """A dictionary whose keys are attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            known = ", ".join(self)
            raise AttributeError(f"{type(self).__name__} has no {name!r}; it has {known}") from None


class Result(_Record):
    """One run, a policy at a size over a trace, with the keys of ``hearth sim --json``.

    The keys are attributes too: ``result["miss_ratio"]`` and ``result.miss_ratio`` are the same.
    ``series`` is there if ``interval`` was given.
    """

    #: (microseconds, part of the requests that took no longer); None without a latency model.
    latency_cumulative: list[tuple[float, float]] | None = None

    def __repr__(self) -> str:
        return (
            f"<hearth.Result {self['trace']} {self['policy']} {self['size']}: "
            f"miss ratio {self['miss_ratio']:.4f} of {self['accesses']} accesses>"
        )

    def __reduce__(self) -> Any:
        return Result, (dict(self),), {"latency_cumulative": self.latency_cumulative}


@dataclass(frozen=True)
class TraceFacts:
    """What a simulation learned of a trace beside its runs."""

    trace: str
    #: The format that it was read as, and what that was recognised by; the latter is None if it was given.
    format: str
    recognised_by: str | None
    #: Time from the first request to the last; 0 in formats without time.
    duration_us: int
    #: Where the accesses lie, if ``footprint_map=True``: ``axis`` (time_us or accesses) and ``maps``, one a
    #: volume, with ``cells`` in rows of 128 columns, each ``column`` wide and ``row_bytes`` high.
    footprint_map: dict[str, Any] | None = field(default=None, repr=False)


class Results(Sequence[Result]):
    """Runs in order: for each trace each policy at each size.

    A sequence of :class:`Result`, and a table for everything that takes Arrow: ``pyarrow.table(results)``,
    ``polars.DataFrame(results)``, duckdb by the name of the variable.
    """

    def __init__(self, runs: Sequence[Result] = (), traces: Sequence[TraceFacts] = ()) -> None:
        self._runs = list(runs)
        #: Facts about each trace.
        self.traces = list(traces)

    @overload
    def __getitem__(self, place: int) -> Result: ...
    @overload
    def __getitem__(self, place: slice) -> list[Result]: ...
    def __getitem__(self, place: Any) -> Any:
        return self._runs[place]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._runs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Results) and self._runs == other._runs

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        lines = [f"<hearth.Results: {len(self)} runs"]
        lines += [
            f"  {run.trace}  {run.policy:<16} {run.size:>10}  miss ratio {run.miss_ratio:.4f}" for run in self._runs
        ]
        return "\n".join(lines) + ">"

    def __add__(self, other: Results) -> Results:
        return Results(self._runs + other._runs, self.traces + other.traces)

    def to_json(self) -> str:
        """The array that ``hearth sim --json`` prints."""
        return json.dumps(self._runs)

    def __arrow_c_schema__(self) -> object:
        return _native.Table(self._runs).__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return _native.Table(self._runs).__arrow_c_stream__(requested_schema)


class Curve(_Record):
    """A miss-ratio curve, with the keys of ``hearth mrc --json``; they are attributes too.

    ``points`` is a list of dictionaries: ``size_blocks``, ``size_bytes``, ``miss_ratio``, ``read_miss_ratio``.
    """

    def __repr__(self) -> str:
        knee = self["knee_blocks"]
        return (
            f"<hearth.Curve {self['trace']} {self['policy']} ({self['method']}): {len(self['points'])} points, "
            + ("no knee" if knee is None else f"knee at {knee} blocks")
            + ">"
        )

    @property
    def sizes_blocks(self) -> list[int]:
        """The sizes of the points."""
        return [point["size_blocks"] for point in self["points"]]

    @property
    def miss_ratios(self) -> list[float]:
        """The miss ratios of the points."""
        return [point["miss_ratio"] for point in self["points"]]


def read_runs(text: str, trace: str) -> Results:
    """The results in an answer of the native half."""
    answer = json.loads(text)
    runs = []
    for run, curve in zip(answer["runs"], answer["latency_cumulative"], strict=True):
        result = Result(run)
        if curve is not None:
            result.latency_cumulative = [(micros, part) for micros, part in curve]
        runs.append(result)
    facts = TraceFacts(
        trace=trace,
        format=answer["format"],
        recognised_by=answer["recognised_by"],
        duration_us=answer["duration_us"],
        footprint_map=answer["footprint_map"],
    )
    return Results(runs, [facts])
