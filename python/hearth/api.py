"""Reading traces, running policies over them, drawing their curves."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any, Literal

from hearth import _native
from hearth.policy import PolicyMaker
from hearth.results import Curve, Results, read_runs

Path = str | os.PathLike[str]
#: A name with parameters, as ``hearth sim --policy`` takes it, or a class derived from :class:`hearth.Policy`.
PolicyLike = str | PolicyMaker


def read_trace(
    path: Path,
    format: str | None = None,
    *,
    columns: str | None = None,
    block: str | int = "4KiB",
) -> _native.Trace:
    """Opens a trace of any format, packed or not, or a generator (``gen:zipf,requests=1000,blocks=500``).

    What comes back hands its records to everything that takes an Arrow stream, some ten thousand at a time;
    it is never whole in memory unless the taker keeps it:

    >>> import pyarrow
    >>> trace = read_trace("gen:loop,requests=1000,blocks=50")
    >>> pyarrow.table(trace).num_rows
    1000
    >>> sum(len(batch) for batch in pyarrow.RecordBatchReader.from_stream(trace))
    1000

    Columns: ``time_us``, ``vm``, ``volume``, ``op`` (read, write, flush, discard, write-zeroes),
    ``offset_bytes``, ``length_bytes``, ``response_us``. In formats that number blocks instead of addressing
    bytes, block k is at k times ``block``. ``columns`` names the columns of a csv as libCacheSim does
    (``time-col=1,obj-id-col=2,obj-size-col=3``).

    Raises :class:`hearth.TraceError`, or what the system says (:class:`FileNotFoundError`, ...), with the place
    and the remedy. A fault behind the beginning is raised by whoever takes the stream, in its own words.
    """
    return _native.Trace(os.fspath(path), format, columns, _size(block))


def simulate(
    traces: Path | Iterable[Path],
    policies: PolicyLike | Iterable[PolicyLike] = "daemon",
    sizes: str | Iterable[str] = "10%",
    *,
    block: str | int = "4KiB",
    write_policy: Literal["around", "through", "back"] = "through",
    write_miss: Literal["allocate", "bypass"] | None = None,
    warmup: str = "none",
    interval: str | int | None = None,
    latency: bool = False,
    flash: str | None = None,
    origin: str | None = None,
    speed: float | None = None,
    depth: int | None = None,
    footprint_map: bool = False,
    seed: int = 0,
    threads: int | None = None,
    format: str | None = None,
    columns: str | None = None,
    stop: _native.Stop | None = None,
) -> Results:
    """Passes traces through caches: each trace by itself, each policy at each size.

    >>> runs = simulate("gen:loop,requests=1000,blocks=50", ["lru", "random"], ["49blk", "100%"])
    >>> [(run.policy, run.size, run.misses) for run in runs if run.policy == "lru"]
    [('lru', '49blk', 1000), ('lru', '100%', 50)]

    Arguments mean what the options of ``hearth sim`` mean. ``daemon`` is what ``hearth serve`` does by default. ``sizes`` are bytes with a unit (``4MiB``), blocks
    (``27000blk``) or a part of the trace's distinct blocks (``10%``). ``interval`` (``auto``, ``60s``, a number
    of accesses) adds a ``series`` to each result. ``latency=True``, or any of ``flash``, ``origin``, ``speed`` and
    ``depth``, models how long requests would have taken. ``threads`` is the number of threads that the runs are
    spread over; one for each processor if not given. Other threads of Python run meanwhile, and Ctrl-C ends it;
    so does ``stop.set()`` from another thread.

    Policies may be written in Python: see :class:`hearth.Policy`. They hold the interpreter's lock while they run.
    """
    asked = {
        "sizes": [sizes] if isinstance(sizes, str) else [_text(size) for size in sizes],
        "block": _size(block),
        "format": format,
        "columns": columns,
        "write_policy": write_policy,
        "write_miss": write_miss,
        "warmup": warmup,
        "interval": None if interval is None else str(interval),
        "latency": latency,
        "flash": flash,
        "origin": origin,
        "speed": speed,
        "depth": depth,
        "footprint_map": footprint_map,
        "seed": seed,
        "threads": threads,
    }
    wanted = _policies(policies)
    results = Results()
    for trace in _paths(traces):
        results += read_runs(_native.simulate(trace, wanted, asked, stop), trace)
    return results


def mrc(
    trace: Path,
    *,
    exact: bool = False,
    sample: float | None = None,
    samples: int | None = None,
    policy: str | None = None,
    sizes: str | Iterable[str] = (),
    reads: bool = False,
    writes: Literal["allocate", "invalidate", "exclude"] = "allocate",
    block: str | int = "4KiB",
    seed: int = 0,
    format: str | None = None,
    columns: str | None = None,
) -> Curve:
    """The miss-ratio curve of a trace.

    >>> curve = mrc("gen:loop,requests=1000,blocks=50", exact=True, sizes=["49blk", "50blk"])
    >>> curve.miss_ratios
    [1.0, 0.05]

    ``exact`` counts every access, and is what is done if nothing else is said; ``sample=0.01`` samples that part
    of all blocks (SHARDS), ``samples=8192`` at most so many. All sizes of LRU come from one pass; any other
    ``policy`` is simulated in miniature, at each of the ``sizes``. ``reads`` counts reads alone.
    """
    return _curves(trace, exact, sample, samples, policy, sizes, reads, writes, block, seed, format, columns, False)[0]


def mrc_by_volume(
    trace: Path,
    *,
    exact: bool = False,
    sample: float | None = None,
    samples: int | None = None,
    policy: str | None = None,
    sizes: str | Iterable[str] = (),
    reads: bool = False,
    writes: Literal["allocate", "invalidate", "exclude"] = "allocate",
    block: str | int = "4KiB",
    seed: int = 0,
    format: str | None = None,
    columns: str | None = None,
) -> dict[str, Curve]:
    """As :func:`mrc`, a curve for each volume, as if it had a cache to itself; by ``vm/volume``."""
    curves = _curves(trace, exact, sample, samples, policy, sizes, reads, writes, block, seed, format, columns, True)
    return {curve["volume"]: curve for curve in curves[1:]}


def _curves(
    trace: Path,
    exact: bool,
    sample: float | None,
    samples: int | None,
    policy: str | None,
    sizes: str | Iterable[str],
    reads: bool,
    writes: str,
    block: str | int,
    seed: int,
    format: str | None,
    columns: str | None,
    per_volume: bool,
) -> list[Curve]:
    if exact and (sample is not None or samples is not None):
        raise ValueError("exact=True counts every access; leave out sample= and samples=, or exact=")
    if policy is not None and not isinstance(policy, str):
        raise TypeError("a curve takes the name of a policy; run one that is written in Python with hearth.simulate")
    asked = {
        "sample": sample,
        "samples": samples,
        "policy": policy or "lru",
        "sizes": [sizes] if isinstance(sizes, str) else [_text(size) for size in sizes],
        "reads": reads,
        "writes": writes,
        "block": _size(block),
        "format": format,
        "columns": columns,
        "per_volume": per_volume,
        "seed": seed,
    }
    return [Curve(curve) for curve in json.loads(_native.mrc(os.fspath(trace), asked))]


def policies() -> list[dict[str, Any]]:
    """The built-in policies: ``name``, ``parameters``, ``queues`` and ``paper`` of each."""
    known: list[dict[str, Any]] = json.loads(_native.policies())
    return known


def formats() -> dict[str, str]:
    """The formats of traces that can be read, each with a word about it."""
    return _native.formats()


def _paths(traces: Path | Iterable[Path]) -> list[str]:
    if isinstance(traces, (str, os.PathLike)):
        traces = [traces]
    return [os.fspath(trace) for trace in traces]


def _policies(policies: PolicyLike | Iterable[PolicyLike]) -> list[PolicyLike]:
    # A class can be called, and might well be iterable too.
    if isinstance(policies, str) or callable(policies):
        return [policies]
    return list(policies)


def _size(size: str | int) -> str:
    return f"{size}B" if isinstance(size, int) else size


def _text(size: object) -> str:
    if isinstance(size, str):
        return size
    raise TypeError(f"{size!r} is not a cache size: write bytes with a unit ('4MiB'), blocks ('27000blk') or '10%'")
