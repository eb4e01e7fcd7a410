# Every target needs only Python 3.11+, make and pip.
PYTHON ?= python3
BIN := .venv/bin
export SHORTURL_LOCAL ?= on
export DJANGO_SETTINGS_MODULE := project.settings

run: .venv/installed-to-run  ## install what is needed, migrate, and serve (HOST, PORT, WORKERS, THREADS)
	@exec $(BIN)/python -m gunicorn -c project/gunicorn.py

test: .venv/installed  ## the whole test suite; one of three processes mostly waits
	$(BIN)/python -m pytest --numprocesses=3 --dist=loadfile

# What a production has to set, with values of no meaning.
PRODUCTION := SHORTURL_LOCAL=off DATABASE_URL=postgres://shorturl@localhost/shorturl \
	SECRET_KEY=$(shell od -An -tx1 -N32 /dev/urandom | tr -d ' \n') ALLOWED_HOSTS=sho.rt \
	HSTS_INCLUDE_SUBDOMAINS=off HSTS_PRELOAD=off

lint: .venv/installed  ## style, types, imports, migrations, and what a production would be warned of
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python -W error manage.py makemigrations --check
	$(PRODUCTION) $(BIN)/python manage.py collectstatic --noinput --verbosity 0
	$(PRODUCTION) $(BIN)/python -W error manage.py check --deploy --fail-level WARNING

prove: .venv/installed  ## what takes long: every schedule of every race, against the tables and the README
	$(BIN)/python -m pytest -m "exhaustive and not marathon" --numprocesses=logical --maxprocesses=4 --dist=worksteal

marathon: .venv/installed  ## the longest of those, up to minutes each
	$(BIN)/python -m pytest -m marathon --numprocesses=logical --maxprocesses=4 --dist=worksteal

explorer:  ## the explorer's own tests, with each Python, Django, driver and PostgreSQL that is here
	pginterleave/run-matrix

copies:  ## every right strategy, copied into another project, with psycopg 3 and with psycopg2
	copying/run

races: .venv/installed  ## every strategy under load, and a report of what each lost
	$(BIN)/python -m loadtests.every_strategy

faults: .venv/installed  ## what fails on purpose under load, and how long anybody waits; some five minutes
	$(BIN)/python -m loadtests.faults

bench: .venv/installed  ## how fast each right strategy is, beside PostgreSQL's own benchmark; BENCH="--quick"
	$(BIN)/python -m benchmarks.service $(BENCH)

workshop: .venv/installed-to-load  ## beside make run: install Locust, and explore what the pages show
	$(BIN)/python manage.py record --missing

handout: .venv/installed-to-run  ## the predictions of WORKSHOP.md to print: reports/handout.html
	$(BIN)/python manage.py migrate --verbosity 0
	$(BIN)/python manage.py handout

room:  ## an archive for machines of the same kind without a network; there, unpack it and make run
	@$(PYTHON) -m project.room

docs: .venv/installed  ## bring what the documents show of a command up to date
	$(BIN)/python -m project.docs

screenshots: .venv/installed  ## take the README's pictures of a service that runs on port 8000
	$(BIN)/python docs/screenshots.py

# The locks hold every package with its hashes, which pip checks. Only wheels: to build a package pip
# would fetch tools that nothing pins. Python compiles what it imports, which is a quarter of it.
PIP_INSTALL := $(PYTHON) -m pip --python .venv install --quiet --disable-pip-version-check \
	--no-compile --no-deps
# Unpacked from an archive of `make room`, everything is here, and no network is asked.
WHEELS := $(wildcard wheels)
FROM_WHEELS := $(if $(WHEELS),--no-index --find-links wheels)

.venv/installed-to-run: locks/local.txt pginterleave/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(if $(WHEELS),@$(PYTHON) -m project.room wheels)
	@echo "Installing $$(grep -c == $<) packages into .venv, about 150 MB; this happens once."
	@$(PYTHON) -m venv --without-pip .venv
	@$(PIP_INSTALL) $(FROM_WHEELS) --require-hashes --only-binary=:all: -r $<
	@$(PIP_INSTALL) --no-index --no-build-isolation --editable ./pginterleave
	@touch $@

.venv/installed-to-load: .venv/installed-to-run locks/loadtests.txt
	@$(PIP_INSTALL) $(FROM_WHEELS) --require-hashes --only-binary=:all: -r locks/loadtests.txt
	@touch $@

.venv/installed: .venv/installed-to-run locks/development.txt
	@echo "Installing what tests and tools need on top, about 300 MB; this happens once."
	@$(PIP_INSTALL) --require-hashes --only-binary=:all: -r locks/development.txt
	@touch $@

lock:  ## lock what requirements*.txt need, for every platform; UPGRADE=--upgrade for newest versions
	$(PYTHON) -m venv .local/lock
	.local/lock/bin/pip install --quiet --disable-pip-version-check uv==0.13.9
	$(COMPILE) $(UPGRADE) requirements.txt -o locks/development.txt
	for group in production local loadtests; do \
	    $(COMPILE) -c locks/development.txt requirements-$$group.txt -o locks/$$group.txt || exit; done

COMPILE := .local/lock/bin/uv pip compile --quiet --universal --python-version 3.11 \
	--generate-hashes --no-emit-package pginterleave --no-annotate --custom-compile-command "make lock"

.PHONY: run handout workshop room test explorer copies prove marathon lint races faults bench docs screenshots lock
