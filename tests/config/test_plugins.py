"""Estimators of installed packages, each really installed: a module, and the metadata that installers write."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import srgdqn
from srgdqn.cli import main
from srgdqn.config import plugins
from srgdqn.config.configure import configure
from srgdqn.config.discovery import estimator_names, known_estimator
from srgdqn.errors import InputError
from srgdqn.learner.estimators import ESTIMATORS

HALVED = """\
from srgdqn.estimators import Direction, Estimator


def direction(state, theta, previous, query):
    import jax

    gradient = query.dense(query.on_present(theta))
    return Direction(jax.tree.map(lambda g: g / 2, gradient), gradient, state)


halved = Estimator(direction, queries=lambda work: 1, evaluations=lambda work: 1, formula="Δ_m = g / 2", cost="bM")
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a package of one module into a folder where Python looks, as `pip install --target` does."""
    site = tmp_path / "site-packages"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    estimators, modules = dict(ESTIMATORS), set(sys.modules)

    def installed(package: str, content: str, *lines: str) -> None:
        (site / f"{package}.py").write_text(content)
        about = site / f"{package}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text("\n".join([f"[{plugins.GROUP}]", *lines, ""]))
        plugins.declared.cache_clear()

    yield installed
    plugins.declared.cache_clear()
    ESTIMATORS.clear()
    ESTIMATORS.update(estimators)
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(site)):
            del sys.modules[name]


def test_an_installed_estimator_is_known_by_its_name_and_imported_when_it_is_asked_for(install: Install) -> None:
    install("halving", HALVED, "halved = halving:halved")
    install("breaking", "raise RuntimeError('no GPU')\n", "broken = breaking:estimator")
    assert {"halved", "broken"} <= set(estimator_names())
    configure("CartPole", "svr-dqn")
    with pytest.raises(InputError, match=r"unknown estimator 'halve'\. Did you mean 'halved'\?"):
        configure("CartPole", estimator="halve")
    assert not {"halving", "breaking"} & sys.modules.keys()
    assert configure("CartPole", estimator="halved").estimator.estimator == "halved"
    assert "breaking" not in sys.modules
    assert ESTIMATORS["halved"] is sys.modules["halving"].halved


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        (
            "raise RuntimeError('no GPU')",
            "odd = odd:it",
            r"\(odd:it\) cannot be loaded: RuntimeError: no GPU\. Correct",
        ),
        ("", "odd = odd:it", "cannot be loaded: AttributeError: module 'odd' has no attribute 'it'"),
        ("", "odd = nowhere:it", "cannot be loaded: ModuleNotFoundError: No module named 'nowhere'"),
        ("raise SystemExit", "odd = odd:it", "cannot be loaded: SystemExit"),
        ("it = 3", "odd = odd:it", r"of the package odd \(odd:it\) is a int and no srgdqn\.Estimator"),
    ],
)
def test_a_broken_one_is_an_error_where_it_is_asked_for(install: Install, content: str, line: str, says: str) -> None:
    install("odd", content, line)
    install("halving", HALVED, "halved = halving:halved")
    for _ in range(2):
        with pytest.raises(InputError, match=says):
            configure("CartPole", estimator="odd")
    assert known_estimator("halved")


def test_damaged_metadata_and_names_that_are_taken(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("halving", HALVED, "halved = halving:halved", "srg = halving:halved", "none = halving:halved")
    install("nonsense", "", "no such line")
    install("one", HALVED, "twice = one:halved")
    install("other", HALVED, "twice = other:halved")
    assert known_estimator("srg")
    assert ESTIMATORS["srg"] is not ESTIMATORS.get("halved")
    with pytest.raises(InputError, match="'twice' is declared by several packages: one and other"):
        known_estimator("twice")
    assert main(["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["estimators"]
    assert listed["halved"] == {"direction": "Δ_m = g / 2", "queries": "bM", "numbers": {}}
    assert "several packages" in listed["twice"]["direction"]
    assert listed["none"]["queries"] == "0"
    assert main(["list"]) == 0
    assert "srg of the package halving" in " ".join(capsys.readouterr().out.split())


NUMBERED = HALVED.replace('cost="bM"', 'cost="bM", numbers=(Number("strength", 0.5, "How much of it.", 0, 1),)')
NUMBERED = NUMBERED.replace("import Direction, Estimator", "import Direction, Estimator, Number")


def test_numbers_of_installed_estimators_are_options(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("numbering", NUMBERED, "numbered = numbering:halved")
    install("breaking", "raise RuntimeError('no GPU')\n", "broken = breaking:estimator")
    for given, said in (
        (["--estimator", "numbered", "--strength", "2"], "strength is 2.0, but must be from 0 to 1"),
        (["--strength", "0.25"], "strength is a number of the estimator 'numbered', but estimator = 'srg'"),
        (["--strengt", "0.25"], "unknown option '--strengt' of srgdqn train. Did you mean '--strength'?"),
    ):
        ESTIMATORS.pop("numbered", None)
        assert main(["train", "CartPole", *given]) == 2
        assert said in capsys.readouterr().err
    ESTIMATORS.pop("numbered")
    assert main(["train", "CartPole", "--estimator", "numbered", "--help"]) == 0
    assert "--strength FLOAT" in capsys.readouterr().out


def test_numbers_that_mean_something_else_are_refused(install: Install) -> None:
    install("numbering", NUMBERED.replace('"strength"', '"alpha"'), "numbered = numbering:halved")
    with pytest.raises(InputError, match="the estimator 'numbered' has a number called 'alpha', which means something"):
        configure("CartPole", estimator="numbered")
    assert "numbered" not in ESTIMATORS


def test_what_is_registered_in_a_program_comes_first(install: Install) -> None:
    install("halving", HALVED, "halved = halving:halved")
    srgdqn.register_estimator("halved", ESTIMATORS["svrg"])
    assert known_estimator("halved")
    assert ESTIMATORS["halved"] is ESTIMATORS["svrg"]


def test_runs_are_trained_and_verified_with_an_installed_estimator(install: Install, tmp_path: Path) -> None:
    """The training in a process of its own, so that none but the verification imports it here."""
    install("halving", HALVED, "halved = halving:halved")
    program = f"import sys; sys.path = {sys.path!r}; from srgdqn.cli import main; sys.exit(main())"
    run = str(tmp_path / "run")
    tiny = ("--steps", "400", "--learning-starts", "64", "--rounds", "2", "--hidden", "4", "--inner-iterations", "4")
    words = ["train", "CartPole", "svr-dqn", "--estimator", "halved", *tiny, "--out", run]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert srgdqn.load(run).run.provenance["inputs"]["user_code"]["estimator"]["name"] == "halving.direction"
    assert main(["show", run]) == 0
    assert "halving" not in sys.modules  # reading a run imports nothing
    assert main(["verify", run, "--round", "0"]) == 0
    assert "halving" in sys.modules
