# Two commands set everything up on a fresh Debian 12 machine with Python 3.11:
#   make demo    run the main job
#   make test    format, lint, layers, C++ and Python tests
.PHONY: demo test test-all check format clean help

help:
	@grep -E '^#' Makefile

demo:
	tools/setup run
	.venv/bin/python examples/demo.py

test:
	tools/setup dev
	tools/check test

# Adds sanitizers, clang-tidy and slow suites.
test-all:
	tools/setup all
	tools/check all

# The gates that need no build: seconds.
check:
	tools/setup dev
	tools/check quick

format:
	tools/check --fix format

clean:
	rm -rf build dist
