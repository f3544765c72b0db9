"""A process that trains the rounds it is told to: `python -m srgdqn.engines.worker`, started by `workers`."""

from __future__ import annotations

import os
import queue
import sys
import threading
from typing import IO, TYPE_CHECKING, Any

from srgdqn.adapters.failures import RAISED, described
from srgdqn.engines.messages import receive, send
from srgdqn.runs.interrupts import left_to_the_parent

if TYPE_CHECKING:
    from srgdqn.engines.host_job import Job


def main() -> None:
    """Reads a job and then numbers of rounds from standard input, and writes what comes of them."""
    inward = os.fdopen(os.dup(0), "rb")
    outward = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what an environment prints is not ours to read
    left_to_the_parent()
    job, jax_options = receive(inward)
    numbers: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    stop = threading.Event()
    threading.Thread(target=_listen, args=(inward, numbers, stop), daemon=True).start()
    try:
        _train(job, jax_options, numbers, stop, outward)
    except RAISED as error:
        send(outward, ("error", described(error)))
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


def _train(
    job: Job,
    jax_options: dict[str, Any],
    numbers: queue.SimpleQueue[int | None],
    stop: threading.Event,
    outward: IO[bytes],
) -> None:
    import jax

    for name, value in {"jax_enable_x64": job.double, **jax_options}.items():
        jax.config.update(name, value)

    from srgdqn.training.host.train_round import train_round

    task = job.task()
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
            manager=job.manager,
        )
        send(outward, ("outcome", number, outcome))


if __name__ == "__main__":
    main()
