"""Many traces, policies and sizes: on the processors of this machine, or on a Ray cluster."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from hearth import _native
from hearth.api import Path, PolicyLike, _paths, _policies, simulate
from hearth.results import Results


@dataclass(frozen=True)
class Part:
    """A part of a sweep: one trace with all policies and sizes, which is read once for all of them."""

    trace: str
    results: Results
    #: Where it ran: the name of the machine, and of the Ray node if there is one.
    node: str


def sweep(
    traces: Path | Iterable[Path],
    policies: PolicyLike | Iterable[PolicyLike] = "daemon",
    sizes: str | Iterable[str] = "10%",
    *,
    workers: int | None = None,
    ray: str | None = None,
    each: Callable[[Part], None] | None = None,
    **options: Any,
) -> Results:
    """Simulates many traces at a time; the results are those of :func:`hearth.simulate`, in the same order.

    Without ``ray`` the traces are spread over ``workers`` threads of this machine, one for each processor if not
    given; the interpreter's lock is not held, but policies written in Python take turns. ``ray="auto"`` joins the
    Ray cluster that this machine is part of, ``ray="HOST:PORT"`` any other, ``ray="local"`` starts one on this
    machine; if Python is connected to a cluster already, that one is used. Traces are then spread over all nodes,
    one processor each (``workers`` limits how many run at a time); every node must have this package, and see
    each trace under the same path. Policies written in Python travel along.

    ``each`` hears of every part as soon as it is done, wherever it ran. ``options`` are those of
    :func:`hearth.simulate`. The first error ends the sweep and is raised.
    """
    paths = _paths(traces)
    if not paths:
        raise ValueError("no traces: give at least one path or generator")
    if workers is not None and workers < 1:
        raise ValueError(f"workers={workers}: at least one must work")
    wanted = _policies(policies)
    widths = [sizes] if isinstance(sizes, str) else list(sizes)
    # The traces fill the processors; more threads for each would only get in each other's way.
    options = {"threads": 1, **options}
    told = each or (lambda part: None)
    if ray is None:
        parts = _here(paths, wanted, widths, options, workers, told)
    else:
        parts = _on_ray(paths, wanted, widths, options, workers, ray, told)
    results = Results()
    for part in parts:
        results += part.results
    return results


def _here(
    paths: list[str],
    policies: list[PolicyLike],
    sizes: list[str],
    options: dict[str, Any],
    workers: int | None,
    each: Callable[[Part], None],
) -> list[Part]:
    stop = _native.Stop()
    host = socket.gethostname()
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:

        def run(path: str) -> Part:
            part = Part(path, simulate(path, policies, sizes, stop=stop, **options), host)
            each(part)
            return part

        tasks = [pool.submit(run, path) for path in paths]
        try:
            done, _ = wait(tasks, return_when=FIRST_EXCEPTION)
            failed = next((task for task in tasks if task in done and task.exception()), None)
            if failed:
                failed.result()
        except BaseException:
            # Ctrl-C, or an error of one: what still runs is of no use.
            for task in tasks:
                task.cancel()
            stop.set()
            raise
    return [task.result() for task in tasks]


def _on_ray(
    paths: list[str],
    policies: list[PolicyLike],
    sizes: list[str],
    options: dict[str, Any],
    workers: int | None,
    address: str,
    each: Callable[[Part], None],
) -> list[Part]:
    try:
        import ray
    except ImportError as error:
        raise ImportError("ray= needs the package ray: pip install 'ray>=2.40'") from error
    begun = not ray.is_initialized()
    if begun:
        ray.init(address=address, log_to_driver=False)
    running: dict[Any, int] = {}
    try:
        remote = ray.remote(num_cpus=1, max_retries=1, scheduling_strategy="SPREAD")(_on_node)
        limit = workers or len(paths)
        waiting = list(enumerate(paths))
        parts: dict[int, Part] = {}
        while waiting or running:
            while waiting and len(running) < limit:
                place, path = waiting.pop(0)
                running[remote.remote(path, policies, sizes, options)] = place
            done, _ = ray.wait(list(running))
            for task in done:
                try:
                    part = ray.get(task)
                except ray.exceptions.RayTaskError as error:
                    # Ray wraps what was raised there; the caller wants the error itself.
                    raise error.cause from error
                parts[running.pop(task)] = part
                each(part)
        return [parts[place] for place in range(len(paths))]
    except BaseException:
        # Ctrl-C, or an error of one: what still runs is of no use.
        for task in running:
            ray.cancel(task, force=True)
        raise
    finally:
        if begun:
            ray.shutdown()


def _on_node(path: str, policies: list[PolicyLike], sizes: list[str], options: dict[str, Any]) -> Part:
    import ray

    node = ray.get_runtime_context().get_node_id()
    return Part(path, simulate(path, policies, sizes, **options), f"{socket.gethostname()} node {node[:12]}")
