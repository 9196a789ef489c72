"""Many traces, policies and sizes, or many fleets: on the processors of this machine, or on a Ray cluster."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from hearth import _native
from hearth.api import Path, PolicyLike, _paths, _policies, simulate
from hearth.fleet import FleetRun, FleetRuns, Rule, simulate_fleet
from hearth.results import Results

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Part:
    """A part of a sweep: one trace with all policies and sizes, which is read once for all of them."""

    trace: str
    results: Results
    #: Where it ran: the name of the machine, and of the Ray node if there is one.
    node: str


@dataclass(frozen=True)
class FleetPart:
    """A part of a sweep over fleets: one run."""

    run: FleetRun
    #: Where it ran: the name of the machine, and of the Ray node if there is one.
    node: str


class _Task(Protocol[T_co]):
    """What is done in one place; it travels to other machines. ``stop`` ends it early."""

    def __call__(self, *, stop: _native.Stop | None = None) -> T_co: ...


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
    wanted = _policies(policies)
    widths = [sizes] if isinstance(sizes, str) else list(sizes)
    # The traces fill the processors; more threads for each would only get in each other's way.
    options = {"threads": 1, **options}
    tasks = [partial(simulate, path, wanted, widths, **options) for path in paths]

    def told(place: int, results: Results, node: str) -> None:
        if each is not None:
            each(Part(paths[place], results, node))

    return sum(_spread(tasks, workers, ray, told), Results())


def sweep_fleet(
    seeds: int | Iterable[int] = 1,
    rules: Rule | Iterable[Rule] = ("none", "paper", "hearth", "gain"),
    settings: Iterable[Mapping[str, Any]] = ({},),
    *,
    workers: int | None = None,
    ray: str | None = None,
    each: Callable[[FleetPart], None] | None = None,
    **options: Any,
) -> FleetRuns:
    """Runs many fleets at a time: for each of the settings each seed under each rule, in this order.

    >>> runs = sweep_fleet([1, 2], ["none", "hearth"], hosts=10, vms=5, windows=6, faults="none")
    >>> [(run.seed, run.rule) for run in runs]
    [(1, 'none'), (1, 'hearth'), (2, 'none'), (2, 'hearth')]

    ``settings`` are arguments of :func:`hearth.simulate_fleet` by name, such as ``[{"vms": 10}, {"vms": 20}]``;
    ``options`` are those that all runs have. ``workers``, ``ray`` and ``each`` are as those of :func:`sweep`.
    """
    numbers = [seeds] if isinstance(seeds, int) else list(seeds)
    words: list[Rule] = [rules] if isinstance(rules, str) else list(rules)
    tasks = [
        partial(simulate_fleet, rule, seed=seed, **{**options, **one})
        for one in settings
        for seed in numbers
        for rule in words
    ]
    if not tasks:
        raise ValueError("no fleets: give at least one seed, one rule and one of the settings")

    def told(place: int, run: FleetRun, node: str) -> None:
        if each is not None:
            each(FleetPart(run, node))

    return FleetRuns(_spread(tasks, workers, ray, told))


def _spread(
    tasks: Sequence[_Task[T]],
    workers: int | None,
    ray: str | None,
    each: Callable[[int, T, str], None],
) -> list[T]:
    """What the tasks answer, in their order. ``each`` hears of a task's place, its answer and where it ran."""
    if workers is not None and workers < 1:
        raise ValueError(f"workers={workers}: at least one must work")
    if ray is None:
        return _here(tasks, workers, each)
    return _on_ray(tasks, workers, ray, each)


def _here(tasks: Sequence[_Task[T]], workers: int | None, each: Callable[[int, T, str], None]) -> list[T]:
    stop = _native.Stop()
    host = socket.gethostname()
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:

        def run(place: int, task: _Task[T]) -> T:
            answer = task(stop=stop)
            each(place, answer, host)
            return answer

        futures = [pool.submit(run, place, task) for place, task in enumerate(tasks)]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            failed = next((future for future in futures if future in done and future.exception()), None)
            if failed:
                failed.result()
        except BaseException:
            # Ctrl-C, or an error of one: what still runs is of no use.
            for future in futures:
                future.cancel()
            stop.set()
            raise
    return [future.result() for future in futures]


def _on_ray(
    tasks: Sequence[_Task[T]], workers: int | None, address: str, each: Callable[[int, T, str], None]
) -> list[T]:
    try:
        import ray
    except ImportError as error:
        raise ImportError("ray= needs the package ray: pip install 'ray>=2.40'") from error
    begun = not ray.is_initialized()
    if begun:
        ray.init(address=address, log_to_driver=False)
    running: dict[Any, int] = {}
    try:
        remote: Any = ray.remote(num_cpus=1, max_retries=1, scheduling_strategy="SPREAD")(_on_node)
        limit = workers or len(tasks)
        waiting = list(enumerate(tasks))
        answers: dict[int, T] = {}
        while waiting or running:
            while waiting and len(running) < limit:
                place, task = waiting.pop(0)
                running[remote.remote(task)] = place
            done, _ = ray.wait(list(running))
            for future in done:
                try:
                    answer, node = ray.get(future)
                except ray.exceptions.RayTaskError as error:
                    # Ray wraps what was raised there; the caller wants the error itself.
                    raise error.cause from error
                place = running.pop(future)
                answers[place] = answer
                each(place, answer, node)
        return [answers[place] for place in range(len(tasks))]
    except BaseException:
        # Ctrl-C, or an error of one: what still runs is of no use.
        for future in running:
            ray.cancel(future, force=True)
        raise
    finally:
        if begun:
            ray.shutdown()


def _on_node(task: _Task[T]) -> tuple[T, str]:
    import ray

    node = ray.get_runtime_context().get_node_id()
    return task(), f"{socket.gethostname()} node {node[:12]}"
