# make demo: set up and run the main job.  make test: set up and run every check.
# A torch that is already in .venv is kept (see README: the CPU build).
PYTHON ?= python3
BIN := .venv/bin
THREADS ?= 3
PROCESSORS ?= default avx2
SEEDS ?= 1000

.PHONY: help setup demo docs deploy-demo test check lint types layers pytest test-fast test-long test-processors test-slow torture bench clean

help:
	@echo "make demo             set up .venv and train clustered FL on handwritten digits (about a minute)"
	@echo "make test             set up .venv and run every check: ruff, mypy, import layers, pytest (ten minutes on two cores)"
	@echo "make test-long        the tests of a second and more: whole commands, runs and sweeps (ten minutes more)"
	@echo "make deploy-demo      a coordinator and 14 client processes over TLS on this machine (a minute and a half)"
	@echo "make test-fast        ruff, and the tests that neither train, sweep nor take long (two minutes): for while you write"
	@echo "make test-processors  the tests that train, with the kernels of two other processors: what they assert holds on each"
	@echo "make test-slow        the checks that take longer: ten seeds of the quickstart, large memory runs"
	@echo "make torture          SEEDS=1000 schedules of failures of whole deployments on simulated time (40 to 80 a second on two cores)"
	@echo "make docs             the documentation in build/site: tutorials are played, pages made, links tried (five minutes on one core)"
	@echo "make bench            the benchmarks in tests/benchmarks, as JSON"

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@if $(BIN)/python -c "import torch" 2>/dev/null; then grep -v '^torch==' constraints.txt > .venv/constraints.txt; \
	else cp constraints.txt .venv/constraints.txt; fi
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c .venv/constraints.txt -e ".[dev]"
	touch $@

demo: setup
	$(BIN)/cloister run examples/quickstart.py

lint: setup
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/lint-imports

check: lint types layers

# One more than two cores: tests of links and processes wait, and another is played meanwhile. A worker whose test takes
# minutes prints where each thread is and ends; its test has failed, and the others go on in a new one.
STUCK := -o faulthandler_timeout=300 -o faulthandler_exit_on_timeout=true
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n $(THREADS) --dist worksteal $(STUCK)

# Assertions are rewritten, for their values, only where one has failed: rewriting all files takes a third of a minute.
pytest: setup
	$(PYTEST) -m "not slow and not long" --assert=plain || { $(PYTEST) -m "not slow and not long" --last-failed; exit 1; }

test: check pytest

test-long: setup
	$(PYTEST) -m "long and not slow" --assert=plain || { $(PYTEST) -m "long and not slow" --last-failed; exit 1; }

test-fast: lint
	$(PYTEST) -m "not slow and not long and not trains and not sweeps"

# torch picks its kernels by the processor, and each kind rounds its own way; these two run on every x86 machine of ten years.
test-processors: setup
	for p in $(PROCESSORS); do ATEN_CPU_CAPABILITY=$$p $(PYTEST) -m "trains and not slow" || exit 1; done

test-slow: setup
	$(BIN)/pytest -m slow

# Goes on where it was stopped; `python -m tests.torture --exhaustive` plays every silence pattern of a sum with every crash.
torture: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.torture --seeds $(SEEDS) --workers $(THREADS)

# A small authority, a coordinator and 14 clients, one of which is killed and one late.
deploy-demo: setup
	$(BIN)/python examples/deploy_demo.py

.venv/docs: pyproject.toml constraints.txt .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c .venv/constraints.txt -e ".[docs]"
	touch $@

# Tutorials that were played with the same sources are not played again.
docs: .venv/docs
	$(BIN)/python docs/making/tutorials.py
	$(BIN)/python docs/making/gallery.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/python docs/making/tried.py build/site

bench: setup
	for f in tests/benchmarks/*.py; do $(BIN)/python $$f --json || exit 1; done

clean:
	rm -rf .venv build dist *.egg-info
