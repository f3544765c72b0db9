"""How each format is read, and what is then done with what was read; content that two readings can be compared by."""

from __future__ import annotations

import ast
import contextlib
import ctypes
import dataclasses
import hashlib
import io
import os
import socket
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

_LIBC = ctypes.CDLL(None)


def load(kind: str, place: Path) -> Any:
    """Reads the input in a folder."""
    return _FORMATS[kind].load(place)


def use(kind: str, loaded: Any, thorough: bool) -> None:
    """Does with it what anybody would; `thorough` where that takes compiling a program."""
    _FORMATS[kind].use(loaded, thorough)


def content(kind: str, loaded: Any) -> str:
    """A digest of what was read."""
    total = hashlib.sha256()
    for part in _FORMATS[kind].parts(loaded):
        total.update(part if isinstance(part, bytes) else repr(part).encode("utf-8", "surrogatepass"))
        total.update(b"\0")
    return total.hexdigest()


# Runs


def _run(place: Path) -> Any:
    from srgdqn.results.result import load_result

    return load_result(place / "run")


def _run_parts(result: Any) -> Any:
    run = result.run
    yield run.configuration
    yield sorted(run.provenance.items())
    for name, table in sorted(run.tables.items()):
        yield name
        yield table.schema
        yield table.rows()
    for arrays in (run.parameters, run.best):
        for name, array in sorted(arrays.items()):
            yield name, array.dtype.str, array.shape
            yield array.tobytes()


def _use_run(result: Any, thorough: bool) -> None:
    from srgdqn.cli.presentation import summary_rows
    from srgdqn.cli.show import _about
    from srgdqn.errors import InputError, printable
    from srgdqn.integrations.export_formats import python_bytes
    from srgdqn.integrations.policy import policy_of
    from srgdqn.integrations.watching import state_of_result
    from srgdqn.results.comparison import summarise
    from srgdqn.results.curves import curve, points_of

    repr(result)
    for line in _about(result):
        printable(" ".join(line)).encode()
    rounds = result.rounds["round"].to_list()[:1]
    for number in rounds:
        result.parameters_of(number)
    _view(state_of_result(result))
    curve(result, points=points_of([result]))
    if not thorough:
        return
    summary_rows(result, summarise(result))
    with contextlib.suppress(InputError):
        repr(result.best)
    for number in rounds:
        try:
            exported = python_bytes(policy_of(result, number), "policy").decode()
        except InputError:
            pass
        else:
            _exported.append(exported)
        size = result.run.provenance.get("observation_size", 1)
        for which in ("last", "best") if result.run.best else ("last",):
            policy = result.policy(number, which)
            if size < 10**6:
                policy(np.zeros((1, size), np.float32))


_exported: list[str] = []
_MODULES = ("__future__", "base64", "io", "math", "numpy", "typing", "collections.abc")


def check_exported() -> None:
    """Whatever a run calls itself, the programs that were made of runs have the statements that such programs have."""
    while _exported:
        allowed = ast.Import | ast.ImportFrom | ast.ClassDef | ast.FunctionDef | ast.Assign | ast.AnnAssign | ast.With
        document, *statements = ast.parse(_exported.pop()).body
        assert isinstance(document, ast.Expr)
        for statement in statements:
            assert isinstance(statement, allowed), ast.unparse(statement)
            if isinstance(statement, ast.Import | ast.ImportFrom):
                assert ast.unparse(statement).split()[1] in _MODULES, ast.unparse(statement)


# Agents


def _agent(place: Path) -> Any:
    from srgdqn.agent import Agent

    return Agent.load(place / "agent.safetensors")


def _agent_parts(agent: Any) -> Any:
    from srgdqn.runs.snapshots import snapshot_of

    round_ = agent._round
    yield agent.configuration, agent._task.observations, agent._task.actions.table, agent._task.evaluation_limit
    kept = {} if round_.best is None else {"best": round_.best}
    yield from _stored(snapshot_of({}, {"state": round_, "memory": round_.memory, **kept}))


def _stored(snapshot: Any) -> Any:
    """Everything that would be stored of it, bit for bit."""
    yield snapshot.about, snapshot.spans
    for name, array in sorted(snapshot.tensors.items()):
        yield name, array.dtype.str, array.shape
        yield array.tobytes()
    for name, stream in sorted(snapshot.streams.items()):
        if stream.stop > stream.first:
            yield name, [array.tobytes() for array in stream.read(stream.first, stream.stop).values()]


def _use_agent(agent: Any, thorough: bool) -> None:
    repr(agent)
    given = agent._task.observations.given
    observation = 0 if agent._task.observations.kind == "one-hot" else np.zeros(given, agent._task.observations.dtype)
    agent.predict(observation)
    repr(agent.exploration_rate)
    if agent.configuration.training.keep_best:
        agent.policies.rows()
    if thorough:
        agent.to_numpy()


# Measurements, sweeps, evidence


def _measurement(place: Path) -> Any:
    from srgdqn.runs.measurement import load as load_measurement

    return load_measurement(place / "measurement")


def _measurement_parts(measured: Any) -> Any:
    yield sorted(measured.about.items())
    for name, table in sorted(measured.tables.items()):
        yield name
        yield table.schema
        yield table.rows()


def _use_measurement(measured: Any, thorough: bool) -> None:
    for table in measured.tables.values():
        repr(table)
        table.head(10).to_dicts()


def _sweep(place: Path) -> Any:
    from srgdqn.sweeps.sweep import load_sweep

    return load_sweep(place / "sweep")


def _sweep_parts(sweep: Any) -> Any:
    for field in dataclasses.fields(sweep):
        if field.name != "results":
            yield field.name, getattr(sweep, field.name)
    for result in sweep.results:
        yield from _run_parts(result)


def _use_sweep(sweep: Any, thorough: bool) -> None:
    repr(sweep)
    for cell in sweep.cells:
        assert "/" not in cell.name
    if sweep.cells:
        sweep.values(0)
    if thorough:
        repr(sweep.table)
        sweep.tied  # noqa: B018


def _evidence(place: Path) -> Any:
    import importlib.readers  # noqa: F401

    import srgdqn.paper.evidence  # noqa: F401, which is read where the folder has no such file
    from srgdqn.paper.claims.evidence import find_evidence

    return find_evidence("confirmation", place)


def _use_evidence(evidence: Any, thorough: bool) -> None:
    from srgdqn.paper.findings import cards, confirmed_section, rules_text

    rules_text(evidence)
    for table in evidence.tables:
        repr(table.frame)
    if thorough:
        cards(evidence)
        confirmed_section(evidence)


# Live rows


def _live(place: Path) -> Any:
    from srgdqn.integrations.watching import LineReader, RunState

    reader, watched = LineReader(place / "rows.jsonl"), RunState()
    while lines := reader.read():
        for line in lines:
            watched.update(line)
    return watched


def _use_live(watched: Any, thorough: bool) -> None:
    from srgdqn.cli.watch import _state

    if watched.header:
        _state(watched)
        _view(watched)


def _view(watched: Any) -> None:
    from rich.console import Console

    from srgdqn.cli.live_view import view

    if watched.header:
        for width in (30, 100):
            out = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
            out.print(view(watched, "state", width=width))


# Configurations


def _configuration(place: Path) -> Any:
    from srgdqn.config.checks import check_stored
    from srgdqn.runs.configurations import loads
    from srgdqn.runs.untrusted import read_file

    try:
        text = read_file(place / "configuration.toml").decode()
    except UnicodeDecodeError:
        return None
    return check_stored(loads(text))


def _use_configuration(configuration: Any, thorough: bool) -> None:
    from srgdqn.config.checks import check
    from srgdqn.runs.configurations import dumps, loads

    if configuration is not None:
        assert loads(dumps(configuration)) == configuration
        check(configuration)


def _options(place: Path) -> Any:
    from srgdqn.cli.train import _read_file

    return _read_file(place / "options.toml")


def _use_options(asked: Any, thorough: bool) -> None:
    from srgdqn.config import Configuration
    from srgdqn.config.checks import check

    check(Configuration().with_options(asked.options))


# Checkpoints


_jobs: dict[str, Any] = {}


def _job(place: Path) -> Any:
    """What the corpus' checkpoint is of, made when it is first read as it was."""
    if "job" not in _jobs:
        from srgdqn import tasks
        from srgdqn.runs.configurations import loads
        from srgdqn.training.job import Job, JobTrainer
        from srgdqn.training.job_split import Share
        from srgdqn.training.loop import configuration_digest

        configuration = loads((place / "configuration.toml").read_text())
        job = Job((Share(configuration_digest(configuration), range(configuration.training.rounds), 0),))
        trainer = JobTrainer((configuration,), tasks.make(configuration.task))
        _jobs["job"] = trainer, job, trainer.programs()[0]
    return _jobs["job"]


def _checkpoint(place: Path) -> Any:
    from srgdqn.errors import InputError
    from srgdqn.runs.checkpoint_manager import CheckpointManager
    from srgdqn.runs.checkpoints import CheckpointFolder
    from srgdqn.training.job import restored_job
    from srgdqn.training.job_split import saved_shares
    from srgdqn.training.loop import configuration_digest

    trainer, job, programs = _job(place)
    folder, found = place / "checkpoints", []
    saved_shares(CheckpointManager(folder), [configuration_digest(trainer.configurations[0])], len(job.rounds))
    for journal in sorted(folder.iterdir()) if folder.is_dir() else ():
        restored = CheckpointFolder(journal).restore(
            lambda checkpoint: restored_job(checkpoint, trainer, job, programs), lambda problem: None
        )
        if restored is not None:
            found.append(restored)
    if not found:
        raise InputError("no checkpoint is good")
    return (trainer, job), found


def _host_checkpoint(place: Path) -> Any:
    from srgdqn.errors import InputError
    from srgdqn.runs.checkpoints import CheckpointFolder
    from srgdqn.training.host.program import host_program
    from srgdqn.training.host.rounds import restored_round
    from srgdqn.training.host.task import host_task

    if "hosted" not in _jobs:
        from srgdqn.adapters.environments import source_of
        from srgdqn.runs.configurations import loads

        configuration = loads((place / "configuration.toml").read_text())
        task = host_task(configuration, source_of(configuration.task.task))
        program, _ = host_program(configuration, task.network_input, task.actions.count, None)
        _jobs["hosted"] = lambda checkpoint: restored_round(checkpoint, configuration, task, program, 0)
    restored = CheckpointFolder(place / "checkpoints" / "round-0").restore(_jobs["hosted"], lambda problem: None)
    if restored is None:
        raise InputError("no checkpoint is good")
    return restored


def _host_checkpoint_parts(restored: Any) -> Any:
    from srgdqn.training.loop import snapshot

    yield from _stored(snapshot(*restored))


def _use_host_checkpoint(restored: Any, thorough: bool) -> None:
    from srgdqn.runs.tables import SCHEMAS, frame
    from srgdqn.training.host.rounds import outcome_of

    tables = outcome_of(*restored).tables
    for name in SCHEMAS:
        if tables.get(name):
            frame(name, tables[name])


def _checkpoint_parts(loaded: Any) -> Any:
    for restored in loaded[1]:
        yield from _host_checkpoint_parts(restored)


def _use_checkpoint(loaded: Any, thorough: bool) -> None:
    from srgdqn.runs.tables import SCHEMAS, frame

    (trainer, job), found = loaded
    for rounds, records in found:
        tables = records.tables(slice(None), job.rounds, trainer.configurations[0], rounds.divergence)
        for name in SCHEMAS:
            if tables.get(name):
                frame(name, tables[name])


# Unfinished runs


def _unfinished(place: Path) -> Any:
    from srgdqn.errors import InputError
    from srgdqn.runs.unfinished import beside, read_request

    request = read_request(beside(place / "run"))
    if request is None:
        raise InputError("there is no unfinished run")
    return request


def _use_unfinished(request: Any, thorough: bool) -> None:
    from srgdqn.runs.checkpoint_manager import CheckpointManager
    from srgdqn.runs.configurations import loads
    from srgdqn.runs.unfinished import CheckpointOptions
    from srgdqn.session.run_session import _options as options_of

    loads(request.configuration)
    options = options_of(CheckpointOptions(Path("run")), request.options)
    CheckpointManager(Path("jobs"), options["every"], None if options["keep"] == "all" else options["keep"]).job(
        "a"
    ).due()


# Faults that the fuzzer is to find


def _planted(kind: str) -> Any:
    def read(place: Path) -> Any:
        if kind == "runs-code":
            exec(compile("1 + 1", "planted", "exec"), {})
        elif kind == "imports":
            import wave  # noqa: F401
        elif kind == "starts-a-program":
            subprocess.run(["true"], check=True)
        elif kind == "allocates":
            return bytearray(2**29 + 2**28).count(1)
        elif kind == "asks-for-too-much":
            from srgdqn.errors import InputError

            try:
                bytearray(2**44)
            except MemoryError as error:
                raise InputError("masked") from error
        elif kind == "hangs":
            while True:
                pass
        elif kind == "dies":
            os._exit(11)
        elif kind == "writes-outside":
            # Past Python, as a library in C would.
            _LIBC.close(_LIBC.creat(os.fsencode(place.parent / "written"), 0o644))
        elif kind == "writes-inside":
            (place / "written").write_text("")
        elif kind == "connects":
            socket.socket().close()
        elif kind == "raises":
            raise KeyError("planted")
        elif kind == "reads-another-content":
            return (place / "planted.json").read_bytes()
        return 0

    return read


PLANTED = (
    *("runs-code", "imports", "starts-a-program", "allocates", "asks-for-too-much", "hangs", "dies"),
    *("writes-outside", "writes-inside", "connects", "raises", "reads-another-content"),
)


class _Format(NamedTuple):
    load: Callable[[Path], Any]
    use: Callable[[Any, bool], None] = lambda loaded, thorough: None
    parts: Callable[[Any], Iterable[Any]] = lambda loaded: ()


_FORMATS = {
    "run": _Format(_run, _use_run, _run_parts),
    "host-run": _Format(_run, _use_run, _run_parts),
    "agent": _Format(_agent, _use_agent, _agent_parts),
    "measurement": _Format(_measurement, _use_measurement, _measurement_parts),
    "sweep": _Format(_sweep, _use_sweep, _sweep_parts),
    "live": _Format(_live, _use_live),
    "evidence": _Format(_evidence, _use_evidence),
    "configuration": _Format(_configuration, _use_configuration),
    "options": _Format(_options, _use_options),
    "checkpoint": _Format(_checkpoint, _use_checkpoint, _checkpoint_parts),
    "host-checkpoint": _Format(_host_checkpoint, _use_host_checkpoint, _host_checkpoint_parts),
    "unfinished": _Format(_unfinished, _use_unfinished, lambda request: request),
    **{f"planted-{kind}": _Format(_planted(kind), parts=lambda loaded: (loaded,)) for kind in (*PLANTED, "nothing")},
}
