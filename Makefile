# Every target needs only Python 3.11+, make and pip. CONTRIBUTING.md describes them.
PYTHON ?= python3
BIN := .venv/bin
# A local run, unless the environment or .env says otherwise.
ifeq (,$(shell grep -s '^SHORTURL_LOCAL=' .env))
export SHORTURL_LOCAL ?= on
endif
export DJANGO_SETTINGS_MODULE := project.settings

run: .venv/installed-to-run
	@mkdir -p .local
	@SHORTURL_DELIVER=$${SHORTURL_DELIVER:-on} SERVED_AT=.local/served-at exec $(BIN)/python -m gunicorn -c project/gunicorn.py

# If Python writes no bytecode, each of the many processes compiles all tests again.
test prove: export PYTHONDONTWRITEBYTECODE =
test: .venv/installed
	$(BIN)/python -m pytest --numprocesses=3 --dist=worksteal $(OPTIONS)
prove: .venv/installed
	$(BIN)/python -m pytest -m exhaustive --numprocesses=3 --dist=worksteal $(OPTIONS)
	$(MAKE) discover

# The tests whose requests write, beside each other for at most 10 minutes.
SENDING := project/tests/accounts shorturl/tests/api shorturl/tests/limits shorturl/tests/pages
discover: .venv/installed
	$(BIN)/python -m pytest $(SENDING) --interleave-requests --interleave-minutes=10 --numprocesses=3 --dist=loadscope

LINES := --interleave-coverage=shorturl --interleave-coverage=project
coverage:
	$(MAKE) prove OPTIONS="$(LINES)"
	$(MAKE) test OPTIONS="$(LINES) --interleave-coverage-append --interleave-coverage-fail-under=100"

# The required settings of a production, with dummy values.
PRODUCTION := SHORTURL_LOCAL=off DATABASE_URL=postgres://shorturl@localhost/shorturl \
	SECRET_KEY=$(shell od -An -tx1 -N32 /dev/urandom | tr -d ' \n') ALLOWED_HOSTS=sho.rt BEHIND_PROXY=on
lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .
	$(BIN)/mypy packages/embedded_postgres
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python -W error manage.py makemigrations --check
	$(PRODUCTION) $(BIN)/python manage.py collectstatic --noinput --verbosity 0
	$(PRODUCTION) $(BIN)/python -W error manage.py check --deploy --fail-level WARNING

SCRIPT := lost_update
locust: .venv/installed-to-load
	$(BIN)/locust -f loadtests/$(SCRIPT).py
races faults bench: .venv/installed
	$(BIN)/python -m loadtests.$@
record: .venv/installed-to-run
	$(BIN)/python manage.py race record $(RACE)
docs: .venv/installed
	$(BIN)/python -m project.docs

# pip checks the hashes of the locks, and installs only wheels. Python compiles a module at its import.
# The packages belong into .venv, whatever pip's settings user, target and prefix say.
unexport PIP_PREFIX
PIP_INSTALL := $(PYTHON) -m pip --python .venv install --quiet --disable-pip-version-check --no-deps --no-compile --no-user --target=
LOCKED := --require-hashes --only-binary=:all: -r
.venv/installed-to-run: requirements/local.txt requirements/parser.txt $(wildcard packages/*/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	@echo "Installing $$(grep -c == $<) packages into .venv, about 150 MB; this happens once."
	@$(PYTHON) -m venv --without-pip .venv
	@$(PIP_INSTALL) $(LOCKED) $<
	@test -x $(BIN)/gunicorn || { echo "pip installed elsewhere: unset prefix in pip.conf, see: pip config list"; exit 1; }
	@$(PIP_INSTALL) --no-index --no-build-isolation $(patsubst %/pyproject.toml,--editable ./%,$(filter packages/%,$^))
	@$(PIP_INSTALL) --require-hashes --no-build-isolation -r requirements/parser.txt >.venv/parser.log 2>&1 || \
	    echo "gunicorn parses requests in Python, because its parser in C could not be built."
	@touch $@
.venv/installed-to-load: .venv/installed-to-run requirements/loadtests.txt
	@$(PIP_INSTALL) $(LOCKED) requirements/loadtests.txt && touch $@
.venv/installed: .venv/installed-to-run requirements/development.txt
	@echo "Installing the packages for tests and tools, about 300 MB; this happens once."
	@$(PIP_INSTALL) $(LOCKED) requirements/development.txt && touch $@

.PHONY: run test prove discover coverage lint locust races faults bench record docs
