"""Engines process models and yield their rows, in the order in which the models finish; at most ``jobs`` run at a time.

An engine is a generator with the parameters (tasks, options, jobs). A task is a model, and whether its earlier results
may be replaced."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from itertools import islice
from typing import Any

from ..errors import error
from .one_model import ModelOptions, Row, process, row_of_lost_worker
from .registry import Model

Task = tuple[Model, bool]


def run_in_processes(tasks: Iterable[Task], options: ModelOptions, jobs: int | None) -> Iterator[Row]:
    """Runs the models on this machine. The work is done by commands in their own processes; a thread waits for each."""
    jobs = jobs or os.cpu_count() or 1
    pending = iter(tasks)
    with ThreadPoolExecutor(jobs) as pool:
        running = {pool.submit(process, model, options, replace) for model, replace in islice(pending, jobs)}
        try:
            while running:
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                running |= {pool.submit(process, model, options, replace)
                            for model, replace in islice(pending, len(ended))}
                for future in ended:
                    yield future.result()
        finally:  # if interrupted, running commands also get the signal and end
            pool.shutdown(wait=False, cancel_futures=True)


# Ray restarts a task if its node is lost. If a worker dies for another reason, the model may be the cause.
_NODE_RETRIES, _ATTEMPTS = 10, 3


def run_on_ray(tasks: Iterable[Task], options: ModelOptions, jobs: int | None) -> Iterator[Row]:
    """Runs the models on the Ray cluster in $RAY_ADDRESS, which needs the same paths and the same package, else on this
    machine."""
    try:
        import ray
    except ImportError:
        raise error("E0307", "needs_libtorch", "--engine ray needs ray", "pip install ray, or --engine process") from None
    if os.environ.get("RAY_ADDRESS"):
        ray.init(log_to_driver=False, configure_logging=False)
    else:
        ray.init(num_cpus=jobs or os.cpu_count(), include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        yield from _rows_from_ray(ray, iter(tasks), options, jobs)
    finally:
        ray.shutdown()


def _rows_from_ray(ray: Any, pending: Iterator[Task], options: ModelOptions, jobs: int | None) -> Iterator[Row]:
    remote = ray.remote(num_cpus=1, max_retries=_NODE_RETRIES)(process)
    running: dict[str, Any] = {}

    def start(model: Model, replace: bool, attempt: int) -> None:
        running[remote.remote(model, options, replace)] = (model, replace, attempt)

    def fill() -> None:
        """Starts tasks up to the limit: ``jobs``, or the current number of the cluster's cores."""
        limit = jobs or max(int(ray.cluster_resources().get("CPU", 1)), 1)
        for model, replace in islice(pending, max(limit - len(running), 0)):
            start(model, replace, 1)

    fill()
    while running:
        (ready, *_), _ = ray.wait(list(running), num_returns=1)
        model, replace, attempt = running.pop(ready)
        try:
            yield ray.get(ready)
        except ray.exceptions.RayError as failure:
            if attempt < _ATTEMPTS:
                start(model, replace, attempt + 1)
            else:
                yield row_of_lost_worker(
                    model, options, f"its worker was lost {attempt} times: {type(failure).__name__}",
                    "check the memory of the nodes, or use fewer --jobs")
        fill()


ENGINES: dict[str, Callable[[Iterable[Task], ModelOptions, int | None], Iterator[Row]]] = {
    "process": run_in_processes, "ray": run_on_ray}
