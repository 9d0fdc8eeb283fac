# Everything a developer types. `make help` prints itself from the `##` remarks below.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet

# Folder with datasets and port of `make serve`.
ROOT ?= demo/data
PORT ?= 8815
# Processes of the test runs: four on two processors, since tests wait for disks, networks and other processes.
JOBS ?= 4

# The part of the long tests that `make test-share` runs: 7/8 is the last of eight. The commit decides which.
SHARES ?= 8
SHARE  ?= $(shell echo $$((0x$$(git rev-parse HEAD | cut -c 1-7) % $(SHARES)))/$(SHARES))

# The tests start hundreds of processes. Without bytecode, each process would compile our sources again.
unexport PYTHONDONTWRITEBYTECODE

KERNEL_SOURCES := $(shell find lance_core/kernels -name '*.[ch]pp' -o -name '*.h' 2>/dev/null)
# An editable install remembers the file of each module: a module that became a package is installed again.
PACKAGES       := $(shell find lance_core flight_server flight_client spark_pipeline -name __init__.py 2>/dev/null)
BUILD_INPUTS   := pyproject.toml CMakeLists.txt $(KERNEL_SOURCES) $(PACKAGES)
RUN_READY      := $(VENV)/.ready-to-run
DEV_READY      := $(VENV)/.ready-to-develop

.DEFAULT_GOAL := help
# The emulator of Azure's storage, from the registry of npm, where the tests find it.
AZURITE_VERSION := 3.35.0
AZURITE         := .emulators/azurite-$(AZURITE_VERSION)/node_modules/.bin/azurite-blob

.PHONY: emulators help demo serve test test-all test-wheel test-image image image-parts test-azure test-share test-spark test-torch sanitize check fmt names bench build clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(RUN_READY) ## start a server on the demo dataset, query it, show how to connect
	@$(BIN)/lance-flight demo

serve: $(RUN_READY) ## serve the datasets below ROOT=demo/data on PORT=8815
	@$(BIN)/lance-flight serve $(ROOT) --port $(PORT)

# Each process runs neighbours, which share fixtures, and takes tests of another when it has none left. Tests that
# share something dear, such as a Spark session, name their group: it comes first, so that nobody takes it apart.
test: $(DEV_READY) ## the default tests (minutes)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test-all: $(DEV_READY) ## the default tests and the long ones
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m ""

test-share: $(DEV_READY) ## the part of the long tests whose turn it is at this commit
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m long --long-share $(SHARE)

test-spark: $(DEV_READY) ## all tests of Spark, the long ones included
	$(BIN)/python -m pytest -m "" tests/spark_pipeline

test-torch: $(DEV_READY) ## the tests that need PyTorch, which is installed first (0.75 GB)
	$(PIP) install --no-build-isolation --editable '.[torch]'
	$(BIN)/python -m pytest -m "" tests/lance_core/api/torch tests/lance_core/api/test_sampler.py

test-azure: $(DEV_READY) emulators ## commits to the emulator of Azure, which `make emulators` installs
	$(BIN)/python -m pytest -k az tests/lance_core/storage/test_conditional_puts.py

test-wheel: $(DEV_READY) ## build the wheel, install it elsewhere, run its demo
	$(BIN)/python -m pytest -m long tests/test_wheel.py

image: $(DEV_READY) ## the image of the server in dist/, for `docker load`; needs root and Debian's buildah, no engine
	$(BIN)/python scripts/build_image.py --archive dist/lance-flight-image.tar

image-parts: $(DEV_READY) ## fetch the tools, the base and the packages that the image is built with
	$(BIN)/python scripts/build_image.py --prepare

test-image: $(DEV_READY) ## build the image, start it on a read-only root, read and write through it
	$(BIN)/python -m pytest -m long tests/docker

emulators: $(AZURITE) ## install the emulator of Azure's storage into .emulators (needs Node.js with npm)

$(AZURITE):
	@command -v npm > /dev/null || { echo "no npm: the tests of Azure are skipped" >&2; exit 1; }
	@rm -rf .emulators/azurite-*
	timeout 180 npm install --silent --no-audit --no-fund --prefix .emulators/azurite-$(AZURITE_VERSION) azurite@$(AZURITE_VERSION)

sanitize: $(DEV_READY) ## the kernel tests under the address and undefined-behaviour sanitizers (GCC)
	$(BIN)/python scripts/sanitize.py

check: $(DEV_READY) ## lint, formatting, types, generated protos up to date
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(KERNEL_SOURCES)
	$(BIN)/python scripts/generate_protos.py --check

fmt: $(DEV_READY) ## format Python and C++, apply lint fixes, list tests on the reliability page
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(KERNEL_SOURCES)
	$(BIN)/python scripts/update_reliability_page.py

names: $(DEV_READY) ## list the public names of the packages anew, after an intended change
	$(BIN)/python scripts/update_public_names.py
	$(BIN)/python scripts/update_names_pages.py

bench: $(DEV_READY) ## compare speed with the reference and with a plain Flight server, draw docs/performance.md
	$(PIP) install --no-build-isolation --editable '.[bench]'
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.series --page docs/performance.md

# Needs the compiler's tools only, not the environment of developers: users install the wheel elsewhere.
build: | $(BIN)/cmake ## a wheel in dist/
	$(PIP) wheel --no-build-isolation --no-deps --wheel-dir dist .

clean: ## remove the environment and everything that was built
	rm -rf $(VENV) .emulators build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

# The build requirements live in the environment itself (no build isolation), so CMake finds the same
# compiler inputs each time and only compiles what changed. PySpark comes as sources: pip builds them with this
# setuptools, and the one that Python's venv brings cannot make wheels.
$(BIN)/cmake:
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade pip
	$(PIP) install 'scikit-build-core>=0.11' 'nanobind>=2.9' cmake ninja 'setuptools>=77'

# An editable install: Python sources are used in place; the kernels are rebuilt when one of BUILD_INPUTS is newer.
$(RUN_READY): $(BUILD_INPUTS) | $(BIN)/cmake
	@echo "building (the first time takes a minute)"
	$(PIP) install --no-build-isolation --editable '.[server,client]'
	@touch $@

$(DEV_READY): $(BUILD_INPUTS) | $(BIN)/cmake
	@echo "building (the first time takes a minute)"
	$(PIP) install --no-build-isolation --editable '.[dev]'
	@touch $@ $(RUN_READY)
