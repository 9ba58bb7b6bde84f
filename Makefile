# `make demo` and `make test` are all a newcomer needs: each sets up .venv first, once.

VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Empty: the first suitable Python on the path. To choose one: make PYTHON=/opt/python3.12 test
PYTHON ?=
# Examples of each property test in `make soak`, as a multiple of those in `make test`.
SOAK   ?= 20

# A folder that was moved or copied is installed again: its environment still points to the old place.
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(CURDIR))
.PHONY: $(STAMP)
endif

.DEFAULT_GOAL := help
.PHONY: help demo test lint types soak clean

help:
	@echo "make demo   install into $(VENV), then solve eight problems with the embedded model"
	@echo "make test   install into $(VENV), then every check: ruff, mypy, pytest"
	@echo "make soak   every property test with $(SOAK) times its examples, and what make test leaves out"
	@echo "make clean  remove $(VENV) and every cache"

demo: $(STAMP)
	@$(BIN)/reasoner demo

test: lint types
	$(BIN)/python -m pytest

lint: $(STAMP)
	$(BIN)/python -m ruff check .

types: $(STAMP)
	$(BIN)/python -m mypy

soak: $(STAMP)
	$(BIN)/python -m pytest --soak $(SOAK) -s --timeout=7200

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find engine reasoner verifiers tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml constraints.txt .ci/setup
	@sh .ci/setup "$(VENV)" "$(PYTHON)"
	@echo "$(CURDIR)" > $@
