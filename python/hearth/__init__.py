"""Block traces, cache policies and miss-ratio curves: Hearth's simulator for notebooks.

>>> import hearth
>>> hearth.simulate("gen:zipf,requests=2000,blocks=500", ["lru", "s3-fifo"], "10%")[0].accesses
2000

- :func:`read_trace`: any trace into Arrow, batch by batch
- :func:`simulate`: policies over traces; :class:`Policy`: one of your own
- :func:`mrc`: miss-ratio curves, exact or sampled
- :func:`simulate_fleet`: hosts whose flash is balanced by moves of VMs
- :func:`sweep`, :func:`sweep_fleet`: many traces, or many fleets, on all processors or on a Ray cluster
"""

from hearth._native import PolicyError, Stop, Trace, TraceError, __version__
from hearth.api import formats, mrc, mrc_by_volume, policies, read_trace, simulate
from hearth.fleet import FleetRun, FleetRuns, simulate_fleet
from hearth.policy import Policy
from hearth.results import Curve, Result, Results, TraceFacts
from hearth.sweep import FleetPart, Part, sweep, sweep_fleet

__all__ = [
    "Curve",
    "FleetPart",
    "FleetRun",
    "FleetRuns",
    "Part",
    "Policy",
    "PolicyError",
    "Result",
    "Results",
    "Stop",
    "Trace",
    "TraceError",
    "TraceFacts",
    "__version__",
    "formats",
    "mrc",
    "mrc_by_volume",
    "policies",
    "read_trace",
    "simulate",
    "simulate_fleet",
    "sweep",
    "sweep_fleet",
]
