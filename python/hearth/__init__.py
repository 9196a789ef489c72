"""Block traces, cache policies and miss-ratio curves: Hearth's simulator for notebooks."""

from hearth._native import __version__

__all__ = ["__version__"]
