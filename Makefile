# Every target needs only Python 3.11+, make and pip.
PYTHON ?= python3
BIN := .venv/bin
# A local run, unless the environment or .env says otherwise.
ifeq (,$(shell grep -s '^SHORTURL_LOCAL=' .env))
export SHORTURL_LOCAL ?= on
endif
export DJANGO_SETTINGS_MODULE := project.settings

run: .venv/installed-to-run  ## install what is needed, migrate, and serve (HOST, PORT, WORKERS, THREADS)
	@SHORTURL_LAB_EXPLORE=$${SHORTURL_LAB_EXPLORE:-on} SHORTURL_DELIVER=$${SHORTURL_DELIVER:-on} exec $(BIN)/python -m gunicorn -c project/gunicorn.py

# If Python writes no bytecode, each of the many processes compiles all tests again.
test prove marathon: export PYTHONDONTWRITEBYTECODE =

# Three processes on two cores, as one of them mostly waits.
test: .venv/installed  ## the whole test suite
	$(BIN)/python -m pytest --numprocesses=3 --dist=loadfile

# The required settings of a production, with dummy values.
PRODUCTION := SHORTURL_LOCAL=off DATABASE_URL=postgres://shorturl@localhost/shorturl \
	SECRET_KEY=$(shell od -An -tx1 -N32 /dev/urandom | tr -d ' \n') ALLOWED_HOSTS=sho.rt \
	HSTS_INCLUDE_SUBDOMAINS=off HSTS_PRELOAD=off

lint: .venv/installed  ## style, types, imports, migrations, and the checks of a production
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python -W error manage.py makemigrations --check
	$(PRODUCTION) $(BIN)/python manage.py collectstatic --noinput --verbosity 0
	$(PRODUCTION) $(BIN)/python -W error manage.py check --deploy --fail-level WARNING

prove: .venv/installed  ## the slow tests: every schedule of every race, against the tables and the documents
	$(BIN)/python -m pytest -m "exhaustive and not marathon" --numprocesses=3 --dist=worksteal

marathon: .venv/installed  ## the longest of those, up to minutes each
	$(BIN)/python -m pytest -m marathon --numprocesses=logical --maxprocesses=4 --dist=worksteal

explorer:  ## the explorer's own tests, with each installed Python, Django, driver and PostgreSQL
	pginterleave/run-matrix

# Neither in the lock nor in CI: the packages are of one day, and pinned beside their tests.
FOUND := pginterleave/.local/found
found:  ## published packages of Django, in every schedule and in threads; updates the page's table
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 12) and "Python 3.12 or newer is needed: make found PYTHON=python3.12")'
	$(PYTHON) -m venv $(FOUND)
	$(FOUND)/bin/pip install --quiet --disable-pip-version-check \
	    -r pginterleave/examples/found/requirements.txt --editable ./pginterleave
	cd pginterleave/examples/found && env -u DJANGO_SETTINGS_MODULE \
	    $(CURDIR)/$(FOUND)/bin/python -m pytest --write-table

copies:  ## every right strategy, copied into another project, with psycopg 3 and with psycopg2
	copying/run

races: .venv/installed  ## every strategy under load, and a table of the losses
	$(BIN)/python -m loadtests.every_strategy

faults: .venv/installed  ## injected faults under load, and the longest wait of a request; under ten minutes
	$(BIN)/python -m loadtests.faults

bench: .venv/installed  ## the speed of each right strategy, beside PostgreSQL's own benchmark; BENCH="--quick"
	$(BIN)/python -m benchmarks.service $(BENCH)

workshop: .venv/installed-to-load  ## beside make run: install Locust, and explore the races of the pages
	$(BIN)/python manage.py record --missing

handout: .venv/installed-to-run  ## the predictions of WORKSHOP.md to print: reports/handout.html
	$(BIN)/python manage.py migrate --verbosity 0
	$(BIN)/python manage.py handout

BUNDLE := shorturl-offline
EXPLORED := all
KIND = $(shell $(PYTHON) -c 'import sys, sysconfig as s; print("Python %d.%d" % sys.version_info[:2], s.get_platform())')
PIP_DOWNLOAD := $(PYTHON) -m pip download --quiet --disable-pip-version-check \
	--no-deps --require-hashes --only-binary=:all:

room: bundle
# `git stash create` makes a commit of the changes, and prints nothing without changes.
bundle: .venv/installed-to-run  ## an archive for machines of the same kind without a network; there, unpack it and make run
	@rm -rf .local/$(BUNDLE) && mkdir -p .local/$(BUNDLE)/wheels
	@git archive -o .local/$(BUNDLE).tar $$(git stash create | grep . || echo HEAD)
	@tar -xf .local/$(BUNDLE).tar -C .local/$(BUNDLE)
	@$(PIP_DOWNLOAD) -r locks/local.txt -d .local/$(BUNDLE)/wheels
	@$(PIP_DOWNLOAD) -r locks/loadtests.txt -d .local/$(BUNDLE)/wheels
	@echo "$(KIND)" >.local/$(BUNDLE)/wheels/made-for
	@$(BIN)/python manage.py migrate --verbosity 0
	@$(BIN)/python manage.py record --missing $(EXPLORED)
	@$(BIN)/python manage.py dumpdata lab.recording lab.recordedschedule \
	    -o .local/$(BUNDLE)/recordings.json.gz
	@tar -cf .local/$(BUNDLE).tar -C .local $(BUNDLE) && rm -r .local/$(BUNDLE)
	@echo ".local/$(BUNDLE).tar, $$(du -m .local/$(BUNDLE).tar | cut -f1) MB, for $(KIND)."
	@echo "There: tar xf $(BUNDLE).tar && cd $(BUNDLE) && make run"

docs: .venv/installed  ## update the output of commands in the documents
	$(BIN)/python -m cogapp -r --verbosity=1 -p "from project.docs import shown" \
	    *.md docs/*.md pginterleave/README.md pginterleave/docs/*.md

screenshots: .venv/installed  ## take the README's pictures of a service that runs on port 8000
	$(BIN)/python docs/screenshots.py

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

.venv/installed-to-run: locks/local.txt locks/parser.txt pginterleave/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(if $(WHEELS),$(REFUSE_ANOTHER_KIND))
	@echo "Installing $$(grep -c == $<) packages into .venv, about 150 MB; this happens once."
	@$(PYTHON) -m venv --without-pip .venv
	@$(PIP_INSTALL) $(FROM_WHEELS) --require-hashes --only-binary=:all: -r $<
	@$(PIP_INSTALL) --no-index --no-build-isolation --editable ./pginterleave
	$(if $(WHEELS),,@$(PIP_INSTALL) --require-hashes --no-build-isolation -r locks/parser.txt \
	    >.venv/parser.log 2>&1 || echo "Without a C compiler gunicorn parses requests in Python.")
	@touch $@

.venv/installed-to-load: .venv/installed-to-run locks/loadtests.txt
	@$(PIP_INSTALL) $(FROM_WHEELS) --require-hashes --only-binary=:all: -r locks/loadtests.txt
	@touch $@

.venv/installed: .venv/installed-to-run locks/development.txt
	@echo "Installing the packages for tests and tools, about 300 MB; this happens once."
	@$(PIP_INSTALL) --require-hashes --only-binary=:all: -r locks/development.txt
	@touch $@

lock:  ## lock the packages of requirements*.txt, for every platform; UPGRADE=--upgrade for newest versions
	$(PYTHON) -m venv .local/lock
	.local/lock/bin/pip install --quiet --disable-pip-version-check uv==0.13.9
	$(COMPILE) $(UPGRADE) requirements.txt -o locks/development.txt
	for group in production local loadtests parser; do \
	    $(COMPILE) -c locks/development.txt requirements-$$group.txt -o locks/$$group.txt || exit; done

COMPILE := .local/lock/bin/uv pip compile --quiet --universal --python-version 3.11 \
	--generate-hashes --no-emit-package pginterleave --no-annotate --custom-compile-command "make lock"

.PHONY: run handout workshop bundle room test explorer found copies prove marathon lint races faults bench docs screenshots lock
