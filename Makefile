# make demo: two worlds, one page.  make test: lint, types, doctests, tests.  Both build .venv when needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_OUT ?= demo-report
export OMP_NUM_THREADS ?= 1

.PHONY: demo test test-all papers test-machines test-versions adversary bench docs clean

$(VENV)/.user: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(VENV)/.dev: $(VENV)/.user
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(VENV)/.user
	$(BIN)/noumena demo --out $(DEMO_OUT) --force

test: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/python -m pytest -m "not slow" --numprocesses auto --dist loadfile --no-loadscope-reorder

test-all: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt "ray>=2.40"
	$(BIN)/python -m pip check
	$(BIN)/python -m pytest --cov --cov-report=term-missing:skip-covered
	$(MAKE) test-versions

# the studies of the papers: their laws, and that every committed verdict still holds; make test runs them too
papers: $(VENV)/.dev
	$(BIN)/python -m pytest papers
	$(BIN)/noumena study compare

# the oldest and the newest packages that pyproject.toml allows; torch brings gigabytes
test-versions: $(VENV)/.dev
	$(BIN)/python benchmarks/versions.py

# tens of thousands of subjects with a known truth, fresh seeds; resumed from results/adversary/rows.csv
adversary: $(VENV)/.dev
	$(BIN)/python benchmarks/adversary.py --families pinned exact --start 1000000 --count 1000 --workers 2
	$(BIN)/python benchmarks/adversary.py --families laws --start 1000000 --count 200 --workers 2
	$(BIN)/python benchmarks/adversary.py --families "pinned fits" fits --start 1000000 --count 40 --workers 2 --seconds 7200

# the numeric tests and the decisions under several instruction sets and thread counts; MACHINES="Nehalem-default-1 …"
# or MACHINES=all chooses, MACHINES_OPTIONS="--decisions", "--resume" or "--rooms metrics,audits"
test-machines: $(VENV)/.dev
	$(BIN)/python benchmarks/machines.py $(MACHINES) $(MACHINES_OPTIONS)

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/many_seeds.py

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "The site is in site/index.html"

clean:
	rm -rf $(VENV) site demo-report
