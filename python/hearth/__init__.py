"""Block traces, cache policies and miss-ratio curves: Hearth's simulator for notebooks.

>>> import hearth
>>> hearth.simulate("gen:zipf,requests=2000,blocks=500", ["lru", "s3-fifo"], "10%")[0].accesses
2000

- :func:`read_trace`: any trace into Arrow, batch by batch
- :func:`simulate`: policies over traces; :class:`Policy`: one of your own
- :func:`mrc`: miss-ratio curves, exact or sampled
- :func:`sweep`: many traces, on all processors or on a Ray cluster
"""

from hearth._native import PolicyError, Stop, Trace, TraceError, __version__
from hearth.api import formats, mrc, mrc_by_volume, policies, read_trace, simulate
from hearth.policy import Policy
from hearth.results import Curve, Result, Results, TraceFacts
from hearth.sweep import Part, sweep

__all__ = [
    "Curve",
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
    "sweep",
]
