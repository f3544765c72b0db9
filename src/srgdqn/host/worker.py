"""A process that trains the rounds it is told to: `python -m srgdqn.host.worker`, started by `workers`."""

from __future__ import annotations

import os
import queue
import sys
import threading
from typing import IO, Any, NamedTuple

from srgdqn.host.failures import RAISED, told
from srgdqn.host.messages import receive, send


class Job(NamedTuple):
    """What all rounds of a run have in common."""

    configuration: Any
    recipe: Any  # of the environment
    specs: dict[str, Any]  # what Gymnasium is to know
    estimators: dict[str, Any]  # the user's own
    network: Any  # the user's own
    jax_options: dict[str, Any]
    measure_noise: bool
    keeping: Any  # where its rounds are kept; None if they are not


def main() -> None:
    """Reads a job and then numbers of rounds from standard input, and writes what comes of them."""
    inward = os.fdopen(os.dup(0), "rb")
    outward = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what an environment prints is not ours to read
    job: Job = receive(inward)
    numbers: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    stop = threading.Event()
    threading.Thread(target=_listen, args=(inward, numbers, stop), daemon=True).start()
    try:
        _train(job, numbers, stop, outward)
    except RAISED as error:
        send(outward, ("error", told(error)))
    # Whatever an environment has left running must not keep this process alive.
    outward.close()
    sys.stderr.flush()
    os._exit(0)


def _listen(inward: IO[bytes], numbers: queue.SimpleQueue[int | None], stop: threading.Event) -> None:
    try:
        while True:
            word = receive(inward)
            if word == "stop":
                stop.set()
            numbers.put(None if word == "stop" else word)
    except EOFError:
        # Who told us what to do is gone. Whoever goes on with the run must not find us still writing.
        os._exit(1)


def _train(job: Job, numbers: queue.SimpleQueue[int | None], stop: threading.Event, outward: IO[bytes]) -> None:
    import gymnasium
    import jax

    for name, value in job.jax_options.items():
        jax.config.update(name, value)

    from srgdqn.estimators import register_estimator
    from srgdqn.host.environments import source_of
    from srgdqn.host.task import host_task
    from srgdqn.host.training import train_round

    for name, estimator in job.estimators.items():
        register_estimator(name, estimator)
    for identifier, spec in job.specs.items():
        gymnasium.registry.setdefault(identifier, spec)
    task = host_task(job.configuration, source_of(job.recipe))
    while (number := numbers.get()) is not None:

        def tell(progress: Any, number: int = number) -> None:
            send(outward, ("progress", number, progress._replace(reports=None), progress.reports()))

        outcome = train_round(
            job.configuration,
            task,
            number,
            job.network,
            listener=tell,
            stopping=stop.is_set,
            measure_noise=job.measure_noise,
            keeping=job.keeping,
        )
        send(outward, ("outcome", number, outcome))
    if job.keeping is not None:
        job.keeping.flush()


if __name__ == "__main__":
    main()
