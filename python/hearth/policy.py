"""A policy written in Python."""

from __future__ import annotations

from typing import Any, Protocol


class Policy:
    """Derive a class from this to try an idea for a replacement policy.

    ``capacity`` is the number of blocks that the cache may hold. Keys are the numbers of the trace's blocks,
    counted from 0 in the order of their first access; all blocks are of one size.

    >>> from collections import OrderedDict
    >>> class Fifo(Policy):
    ...     def __init__(self, capacity):
    ...         self.blocks = OrderedDict()  # in order of arrival
    ...
    ...     def access(self, key):
    ...         if key in self.blocks:
    ...             return True
    ...         if len(self.blocks) == self.capacity:
    ...             oldest, _ = self.blocks.popitem(last=False)
    ...             self.evict(oldest)
    ...         self.blocks[key] = None
    ...         return False

    Results carry the name of the class, or its attribute ``name``. What a policy says is compared with what it
    did: a hit on a block that is not in the cache, more blocks than the capacity, or an eviction of what is not
    there raise :class:`hearth.PolicyError` with the access at which it was seen.
    """

    capacity: int
    _evicted: list[int]

    def __new__(cls, capacity: int, *args: Any, **kwargs: Any) -> Policy:
        self = super().__new__(cls)
        self.capacity = capacity
        self._evicted = []
        return self

    def __init__(self, capacity: int) -> None:
        """Nothing to do; a subclass may make its queues here, and need not call this."""

    def access(self, key: int) -> bool:
        """A block is read or written: True if it was in the cache.

        If it was not, it is from now on; call :meth:`evict` for the blocks that had to leave for it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method access(self, key)")

    def evict(self, key: int) -> None:
        """Says that a block leaves the cache. Not for the block that is being accessed."""
        self._evicted.append(key)

    def remove(self, key: int) -> None:
        """A block that is in the cache is no longer wanted: a discard, or a write around the cache.

        It leaves without :meth:`evict`. Needed for traces with discards and for ``write_policy="around"``.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no method remove(self, key), which this trace's discards or the write policy "
            "'around' need"
        )


class PolicyMaker(Protocol):
    """Anything that makes a policy of a capacity: a subclass of :class:`Policy`, or a function."""

    def __call__(self, capacity: int, /) -> Policy: ...
