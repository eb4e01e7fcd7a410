# Every target needs only Python 3.11+, make and pip.
PYTHON ?= python3
BIN := .venv/bin
export SHORTURL_LOCAL ?= on
export DJANGO_SETTINGS_MODULE := project.settings

run: .venv  ## install what is needed, migrate, and serve (HOST, PORT, WORKERS, THREADS)
	@exec $(BIN)/gunicorn -c project/gunicorn.py

test: .venv  ## the whole test suite
	$(BIN)/pytest

lint: .venv  ## style, types, migrations
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .
	$(BIN)/python -W error manage.py makemigrations --check

docs: .venv  ## bring what the documents show of a command up to date
	$(BIN)/python -m project.docs

.venv: requirements.txt requirements-production.txt constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	touch .venv

.PHONY: run test lint docs
