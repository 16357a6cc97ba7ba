PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: run quick test test-all package docs results lint format clean

run: $(STAMP)
	$(BIN)/feddiv run quickstart

# One torch thread in each test process: more threads than cores are several times slower.
# What takes long is listed: a test that takes seconds gets the marker `slow`.
quick: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 -m "not slow and not full" --durations=5

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not full"

test-all: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

# The wheel is built from the sdist, so what is missing there shows.
package: $(STAMP)
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist

# The site in site/, to be read from there; a broken link is an error.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "Read site/index.html"

# The tables of docs/results.md, from the rows in benchmarks/results.
results: $(STAMP)
	$(BIN)/python -m docs.generate.results

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests -type d -name __pycache__ -prune -exec rm -rf {} +

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -c constraints.txt \
	    -e '.[benchmarks,dev,encoders,flower-simulation,mlflow,parquet,privacy,review,tensorboard,vision]'
	touch $@
