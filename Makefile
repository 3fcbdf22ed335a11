# make run: installs what is missing, then trains the default model. make test: the same set-up, then the tests.
.PHONY: run test lint parity bench clean
PYTHON = .venv/bin/python

run:
	@scripts/setup.sh
	@.venv/bin/hierarchos train

test:
	@scripts/setup.sh test
	@$(PYTHON) -m pytest -n 2 --dist worksteal -rs

lint:
	@scripts/setup.sh test
	@.venv/bin/ruff check .
	@.venv/bin/lint-imports --no-logo
	@$(PYTHON) -m shaders.build --check

parity:
	@scripts/setup.sh test
	@scripts/setup.sh oracle
	@$(PYTHON) -m validation.parity --jobs 2

bench:
	@scripts/setup.sh
	@.venv/bin/hierarchos bench

clean:
	@rm -rf .venv outputs build dist
