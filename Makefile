# Every target needs only Python 3.11+, make and pip. `make` alone lists them.
PYTHON ?= python3
BIN := .venv/bin
# A local run, unless the environment or .env says otherwise.
ifeq (,$(shell grep -s '^SHORTURL_LOCAL=' .env))
export SHORTURL_LOCAL ?= on
endif
export DJANGO_SETTINGS_MODULE := project.settings

help:  ## this list
	@sed -nE 's/^([a-z]+):.*  ## (.*)/make \1\t\2/p' Makefile | expand -t 16

run: .venv/installed-to-run  ## install what is needed, migrate, and serve (HOST, PORT, WORKERS, THREADS)
	@mkdir -p .local && echo $${PORT:-$$(sed -n 's/^PORT=//p' .env 2>/dev/null | grep . || echo 8000)} >.local/served-at
	@SHORTURL_DELIVER=$${SHORTURL_DELIVER:-on} exec $(BIN)/python -m gunicorn -c project/gunicorn.py

# If Python writes no bytecode, each of the many processes compiles all tests again.
test prove: export PYTHONDONTWRITEBYTECODE =

# Three processes on two cores, as one of them mostly waits.
test: .venv/installed  ## the whole test suite
	$(BIN)/python -m pytest --numprocesses=3 --dist=loadfile $(OPTIONS)

# The required settings of a production, with dummy values.
PRODUCTION := SHORTURL_LOCAL=off DATABASE_URL=postgres://shorturl@localhost/shorturl \
	SECRET_KEY=$(shell od -An -tx1 -N32 /dev/urandom | tr -d ' \n') ALLOWED_HOSTS=sho.rt

lint: .venv/installed  ## style, types, imports, migrations, and the checks of a production
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .
	$(BIN)/mypy packages/embedded_postgres
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python -W error manage.py makemigrations --check
	$(PRODUCTION) $(BIN)/python manage.py collectstatic --noinput --verbosity 0
	$(PRODUCTION) $(BIN)/python -W error manage.py check --deploy --fail-level WARNING

prove: .venv/installed  ## the slow tests: every schedule of every race, against the tables and the documents
	$(BIN)/python -m pytest -m exhaustive --numprocesses=3 --dist=worksteal $(OPTIONS)

LINES := --interleave-coverage=shorturl --interleave-coverage=project
coverage:  ## make prove and make test: every line that writes rows was explored, or says why not
	$(MAKE) prove OPTIONS="$(LINES)"
	$(MAKE) test OPTIONS="$(LINES) --interleave-coverage-append --interleave-coverage-fail-under=100"

races: .venv/installed  ## every strategy under load, and a table of the losses
	$(BIN)/python -m loadtests.races

SCRIPT := lost_update
locust: .venv/installed-to-load  ## beside make run: a script of loadtests/ in Locust's web UI, with its ledger (SCRIPT=toctou)
	$(BIN)/locust -f loadtests/$(SCRIPT).py

faults: .venv/installed  ## injected faults under load, and the longest wait of a request; about three minutes
	$(BIN)/python -m loadtests.faults

bench: .venv/installed  ## requests per second of the service, beside known programs; about six minutes
	$(BIN)/python -m loadtests.bench

record: .venv/installed-to-run  ## explore every race, and write what the lab shows: lab/recordings/ (RACE=lost_update)
	$(BIN)/python manage.py race record $(RACE)

BUNDLE := shorturl-offline
KIND = $(shell $(PYTHON) -c 'import sys, sysconfig as s; print("Python %d.%d" % sys.version_info[:2], s.get_platform())')
PIP_DOWNLOAD := $(PYTHON) -m pip download --quiet --disable-pip-version-check \
	--no-deps --require-hashes --only-binary=:all:

# `git stash create` makes a commit of the changes, and prints nothing without changes.
bundle: .venv/installed-to-run  ## an archive for machines of the same kind without a network; there, unpack it and make run
	@rm -rf .local/$(BUNDLE) && mkdir -p .local/$(BUNDLE)/wheels
	@git archive -o .local/$(BUNDLE).tar $$(git stash create | grep . || echo HEAD)
	@tar -xf .local/$(BUNDLE).tar -C .local/$(BUNDLE)
	@$(PIP_DOWNLOAD) -r requirements/local.txt -d .local/$(BUNDLE)/wheels
	@$(PIP_DOWNLOAD) -r requirements/loadtests.txt -d .local/$(BUNDLE)/wheels
	@echo "$(KIND)" >.local/$(BUNDLE)/wheels/made-for
	@tar -cf .local/$(BUNDLE).tar -C .local $(BUNDLE) && rm -r .local/$(BUNDLE)
	@echo ".local/$(BUNDLE).tar, $$(du -m .local/$(BUNDLE).tar | cut -f1) MB, for $(KIND)."
	@echo "There: tar xf $(BUNDLE).tar && cd $(BUNDLE) && make run"

docs: .venv/installed  ## update the output of commands in the documents
	$(BIN)/python -m cogapp -r --verbosity=1 -p "from project.docs import shown" \
	    *.md docs/*.md packages/pginterleave/README.md packages/pginterleave/docs/*.md

# The locks have every package with its hashes, which pip checks. Only wheels are installed: to build a
# package pip would fetch tools that are not pinned. Python compiles a quarter of the files, at import.
PIP_INSTALL := $(PYTHON) -m pip --python .venv install --quiet --disable-pip-version-check \
	--no-compile --no-deps
# An unpacked archive of `make bundle` has all wheels, and needs no network.
WHEELS := $(wildcard wheels)
FROM_WHEELS := $(if $(WHEELS),--no-index --find-links wheels)
define REFUSE_ANOTHER_KIND
	@[ "$$(cat wheels/made-for)" = "$(KIND)" ] || { echo >&2 "The wheels are for $$(cat wheels/made-for)," \
	    "and this is $(KIND): run \`make bundle\` on one."; exit 1; }
endef

.venv/installed-to-run: requirements/local.txt requirements/parser.txt $(wildcard packages/*/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(if $(WHEELS),$(REFUSE_ANOTHER_KIND))
	@echo "Installing $$(grep -c == $<) packages into .venv, about 150 MB; this happens once."
	@$(PYTHON) -m venv --without-pip .venv
	@$(PIP_INSTALL) $(FROM_WHEELS) --require-hashes --only-binary=:all: -r $<
	@$(PIP_INSTALL) --no-index --no-build-isolation --editable ./packages/pginterleave \
	    --editable ./packages/embedded_postgres
	$(if $(WHEELS),,@$(PIP_INSTALL) --require-hashes --no-build-isolation -r requirements/parser.txt \
	    >.venv/parser.log 2>&1 || echo "Without a C compiler gunicorn parses requests in Python.")
	@touch $@

.venv/installed-to-load: .venv/installed-to-run requirements/loadtests.txt
	@$(PIP_INSTALL) $(FROM_WHEELS) --require-hashes --only-binary=:all: -r requirements/loadtests.txt
	@touch $@

.venv/installed: .venv/installed-to-run requirements/development.txt
	@echo "Installing the packages for tests and tools, about 300 MB; this happens once."
	@$(PIP_INSTALL) --require-hashes --only-binary=:all: -r requirements/development.txt
	@touch $@

lock:  ## lock the packages of requirements/*.in, for every platform; UPGRADE=--upgrade
	$(PYTHON) -m venv .local/lock
	.local/lock/bin/pip install --quiet --disable-pip-version-check uv==0.13.9
	$(COMPILE) $(UPGRADE) requirements/development.in -o requirements/development.txt
	for group in production local loadtests parser; do \
	    $(COMPILE) -c requirements/development.txt requirements/$$group.in -o requirements/$$group.txt || exit; done

COMPILE := .local/lock/bin/uv pip compile --quiet --universal --python-version 3.11 \
	--generate-hashes --no-annotate --custom-compile-command "make lock"

.PHONY: help run locust record bundle test prove coverage lint races faults bench docs lock
