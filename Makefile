# Everything here sets itself up: Python 3.11 or newer, make and a package registry are all that is needed.
VENV    ?= .venv
PYTHON  ?= python3
OUT     ?= results
WORKERS ?= 2
BIN     := $(VENV)/bin
BENCH   := build/bench

# Compiled programs are stored here between test runs and shared by the test workers.
test test-slow test-cluster test-drill fuzz: export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/$(VENV)/programs

.PHONY: install develop paper paper-quick paper-confirm paper-adam-steps paper-tuned paper-readings paper-fingerprint noise presets atari test test-slow test-cluster test-drill drill fuzz check format wheel bench bench-resolve bench-cluster clean

install: $(VENV)/.installed  ## the package with all its extras

develop: $(VENV)/.developed  ## the same, with what tests and linters need

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[all]'
	touch $@

$(VENV)/.developed: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

paper: install  ## everything the paper shows, at its own scale, and a report with the verdicts
	$(BIN)/srgdqn reproduce --out $(OUT)

paper-quick: install  ## a preview of every figure
	$(BIN)/srgdqn reproduce --out $(OUT)-quick --quick

paper-confirm: install  ## the same as paper, and every claim judged anew on fresh seeds
	$(BIN)/srgdqn reproduce --out $(OUT) --confirm

paper-adam-steps: install  ## the same as paper, and Adam at every inner step along reduced and plain gradients
	$(BIN)/srgdqn reproduce --out $(OUT) --adam-steps

paper-tuned: install  ## the same as paper, and every algorithm with tuned step sizes
	$(BIN)/srgdqn reproduce --out $(OUT) --tuned

paper-readings: install  ## the same as paper, and the algorithms under all combinations of readings
	$(BIN)/srgdqn reproduce --out $(OUT) --readings

noise: install  ## where gradient noise limits learning, what estimators do to it, and what to do (hours; TASK=CartPole)
	$(BIN)/srgdqn reproduce noise --out $(OUT) $(if $(TASK),--task $(TASK))

paper-fingerprint: install  ## the same as paper, and which readings could have printed its Table 2
	$(BIN)/srgdqn reproduce --out $(OUT) --fingerprint

presets: install  ## what the presets of Gymnasium's environments come to on fresh seeds, into docs/presets.md
	$(BIN)/python docs/record_presets.py $(OPTIONS)

atari: install  ## an hour of two games on two cores, into docs/atari.md
	$(BIN)/python docs/record_atari.py

test: develop
	$(BIN)/python -m pytest -n $(WORKERS) --durations=25 -m "not slow and not cluster and not drill" src tests

test-slow: develop
	$(BIN)/python -m pytest -n $(WORKERS) -m slow tests

test-cluster: develop  ## on clusters of several Ray nodes, in a network namespace, with workers, nodes and drivers killed
	$(BIN)/python -m pytest -m cluster tests

test-drill: develop
	$(BIN)/python -m pytest -m drill tests

drill: develop  ## kills, damaged bytes, full disks, rivals, clocks and Ctrl-C, counted in docs/reliability.md
	$(BIN)/python tests/faults/drill.py --report docs/reliability.json $(OPTIONS)
	$(BIN)/python docs/refresh_reliability.py

fuzz: develop  ## hostile files of every format that is loaded
	$(BIN)/python tests/fuzz/run.py --inputs 20000 --seed 0 $(OPTIONS)

check: develop
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: develop
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel: develop  ## builds the wheel and uses it in an environment without extras
	rm -rf build/wheel && mkdir -p build/wheel
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/wheel .
	$(PYTHON) -m venv --clear build/wheel/venv
	build/wheel/venv/bin/python -m pip install --quiet --constraint constraints.txt build/wheel/srgdqn-*.whl
	cd build/wheel && venv/bin/srgdqn train CartPole dqn-adam --steps 2000 --rounds 2 --out run --quiet
	cd build/wheel && venv/bin/srgdqn show run --json > /dev/null

# In an environment of its own, because gymnax needs an older Gymnasium than everything else is tested with. All other
# versions are those of constraints.txt.
$(BENCH)/constraints.txt: constraints.txt
	$(PYTHON) -m venv $(BENCH)
	grep -v '^gymnasium==' constraints.txt > $@

BENCH_INSTALL = $(BENCH)/bin/python -m pip install --quiet --constraint $(BENCH)/constraints.txt \
	--requirement benchmarks/requirements.txt --editable .

bench-resolve: $(BENCH)/constraints.txt  ## whether what bench needs can be installed together; installs nothing
	$(BENCH_INSTALL) --dry-run

bench: $(BENCH)/constraints.txt  ## how fast this is, beside others (OPTIONS=--quick: only whether all of it runs)
	$(BENCH_INSTALL)
	$(BENCH)/bin/python benchmarks/peers.py $(OPTIONS)
	$(BENCH)/bin/python benchmarks/host.py $(OPTIONS)
	$(BENCH)/bin/python benchmarks/frames.py $(OPTIONS)
	$(BENCH)/bin/python benchmarks/checkpoints.py $(OPTIONS)
	$(BENCH)/bin/python benchmarks/cold_start.py $(OPTIONS)
	$(BENCH)/bin/python benchmarks/queries.py $(OPTIONS)
	$(BENCH)/bin/python benchmarks/limit.py $(OPTIONS)
	$(BENCH)/bin/python benchmarks/growth.py $(OPTIONS)

# Not part of bench, as it needs Ray and network namespaces, which only Linux has.
bench-cluster: install  ## what Ray costs, and what is to be expected of many machines (OPTIONS=--quick, likewise)
	$(BIN)/python benchmarks/cluster.py $(OPTIONS)

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
