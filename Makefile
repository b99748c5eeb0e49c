# Everything a developer runs. Needs make and Python 3.11 or newer; `make help` lists the targets.

# Tests start hundreds of processes, and each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
UV ?= uv
WORKERS ?= auto

VENV := .venv
BIN := $(VENV)/bin
NOVA := .venv-nova
PLACEMENT := .venv-placement
CLIENTS := .venv-clients
KEYSTONE := .venv-keystone
TEMPEST := .venv-tempest
RALLY := .venv-rally
SITE := .venv-site
DIST := dist
KERNEL_GUEST := .cache/kernel-guest
PROMETHEUS := .cache/prometheus
INTERPRETER := $(VENV)/.interpreter
DEPENDENCIES := $(VENV)/.dependencies
INSTALLED := $(VENV)/.installed
KERNEL := $(VENV)/.kernel
INSTALL := -m pip --disable-pip-version-check --no-input install -qq
DOWNLOAD := -m pip --disable-pip-version-check --no-input download -qq --require-hashes --no-deps

# No fast test is made of a schema, and to import what makes them takes each process two seconds.
FAST_OPTIONS = -q -n $(WORKERS) -p no:schemathesis

# Folders that do not exist yet are left out.
FAST := $(wildcard tests/unit tests/property tests/tidy)
SLOW := $(wildcard tests/integration tests/conformance tests/differential tests/simulation tests/e2e)

# Slow tests wait for processes, servers and guests a quarter of their time or more, so half as many
# workers again as processors keep these busy.
SLOW_WORKERS ?= $(if $(filter auto,$(WORKERS)),$(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 3 / 2))),$(WORKERS))

# What the slow tests need; whatever cannot be had is said, and they do without.
PREPARED := kernel nova placement-peer clients keystone tempest rally site-tools prometheus guests

# The nightly form of the differential tests: how many cases or queries, and which.
CASES ?= 5000
QUERIES ?= 2000
SEED ?= $(shell date -u +%Y%m%d)

# What `make conformance-placement` asks.
SERVER ?= berth

# Random examples for each property test of `make fuzz`.
EXAMPLES ?= 1000

COMPILE = $(UV) pip compile -q --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header $(if $(UPGRADE),--upgrade)

# Say in a few words what the next command does.
say = @printf '%-8s %s\n'

# Fail with a clear message when $(PYTHON) is missing or too old.
define require_python
@command -v $(PYTHON) >/dev/null || { \
	echo "No '$(PYTHON)' here. Berth needs Python 3.11 or newer: make PYTHON=/path/to/python" >&2; exit 1; }
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	echo "'$(PYTHON)' is $$($(PYTHON) --version 2>&1), and Berth needs Python 3.11 or newer:" \
		"make PYTHON=/path/to/python" >&2; exit 1; }
endef

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv kernel check lint types mypy pyright layers fast affected affected-types test slow slow-alone outages openb dist reference site site-tools nova placement-peer clients keystone tempest rally differential differential-placement \
	conformance-placement fuzz demo demo-zones bench lock fmt clean virt-packages stub-guest kernel-guest guests prometheus FORCE

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-22s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  PYTHON=$(PYTHON) WORKERS=$(WORKERS) UV=$(UV); ALL=1, PYTEST_ARGS, TRACE, DEMO_ARGS, BENCH_ARGS, CASES, QUERIES, SEED, EXAMPLES, SERVER, FILES, SUITE_ARGS, UPGRADE=1"

venv: $(INSTALLED) ## make .venv from requirements/dev.lock, or do nothing when it is up to date

# An interpreter named by the caller replaces a virtualenv made with another one.
ifneq ($(origin PYTHON),file)
ifneq ($(PYTHON),$(shell cat $(INTERPRETER) 2>/dev/null))
$(INTERPRETER): FORCE
endif
endif

$(INTERPRETER):
	$(require_python)
	$(say) venv "$(VENV), with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear $(VENV)
	@echo '$(PYTHON)' >$@

$(DEPENDENCIES): $(INTERPRETER) requirements/dev.lock
	$(say) install "what requirements/dev.lock names"
	@$(BIN)/python $(INSTALL) --require-hashes --no-deps -r requirements/dev.lock
	@touch $@

$(INSTALLED): $(DEPENDENCIES) pyproject.toml src/berth/__init__.py
	$(say) install "berth itself, editable"
	@$(BIN)/python -m pip --disable-pip-version-check uninstall -qq -y berth # its former name
	@$(BIN)/python $(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

# Berth works without its kernel, so a machine without a compiler is no obstacle.
$(KERNEL): $(DEPENDENCIES) kernel/berth_kernel.c kernel/pyproject.toml
	$(say) install "the engine's kernel, from kernel/"
	@cp -R kernel $(VENV)/.build && $(BIN)/python $(INSTALL) --no-deps --no-build-isolation \
		--force-reinstall $(VENV)/.build && touch $@; \
		failed=$$?; rm -rf $(VENV)/.build; exit $$failed

kernel: $(INSTALLED) ## compile the engine's kernel into .venv; Berth works without it
	@$(MAKE) -s $(KERNEL) \
		|| echo "No kernel, so the engine does with numpy what it would do faster; see the error above." >&2

# Style comes first because it is quick. Tests have two processes and the others one, so none waits
# for a core while another is idle.
check: ## style, types, layers and tests without I/O, as far as a change can affect them; ALL=1 for all
	@$(MAKE) --no-print-directory -j 2 lint affected mypy affected-types layers

lint: $(INSTALLED) ## ruff: format and rules
	$(say) format "ruff format --check"
	@$(BIN)/ruff format --check --quiet . || { echo "make fmt repairs this" >&2; exit 1; }
	$(say) lint "ruff check"
	@$(BIN)/ruff check --quiet .

types: mypy pyright ## mypy and pyright, both strict

mypy: $(INSTALLED)
	$(say) types "mypy, src and tests"
	@$(BIN)/mypy

pyright: $(INSTALLED)
	$(say) types "pyright, src"
	@$(BIN)/pyright --project pyproject.toml

layers: $(INSTALLED) ## import-linter: who may import whom
	$(say) layers "lint-imports"
	@$(BIN)/lint-imports --no-logo

fast: $(INSTALLED) kernel ## tests without I/O: unit, property, tidy
	$(say) tests "$(FAST)"
	@$(BIN)/pytest $(FAST_OPTIONS) $(FAST) $(PYTEST_ARGS)

# Both leave out what has passed since it was last affected; tests.affected tells how they know.
affected: $(INSTALLED) kernel
	$(say) tests "$(FAST)"
	@$(BIN)/python -m pytest -p tests.affected.plugin $(if $(ALL),--everything) $(FAST_OPTIONS) $(FAST) $(PYTEST_ARGS)

affected-types: $(INSTALLED)
	@$(BIN)/python -m tests.affected.pyright $(if $(ALL),--everything)

# What peers and guests need comes while styles and types are looked at: each keeps one core busy
# at most, or waits for the network. Tests have all cores for themselves, the slow ones only after
# a good check, whatever -j says.
test: ## check, then all other tests
	@$(MAKE) --no-print-directory -j 2 lint types layers $(PREPARED)
	@$(MAKE) --no-print-directory fast
	@$(MAKE) --no-print-directory slow-alone

slow: $(PREPARED) ## all other tests: integration, conformance, differential, simulation, e2e
	@$(MAKE) --no-print-directory slow-alone

slow-alone:
	$(say) tests "$(SLOW)"
	@$(BIN)/pytest -q -n $(SLOW_WORKERS) --dist loadfile --no-loadscope-reorder $(SLOW) $(PYTEST_ARGS)

outages: $(INSTALLED) kernel ## tests in which the ledger, the broker or a disk is away for a while; minutes each
	$(say) tests "tests/e2e/outages"
	@BERTH_OUTAGES=1 $(BIN)/pytest -q -n 1 tests/e2e/outages $(PYTEST_ARGS)

openb: $(INSTALLED) kernel ## replay the whole openb trace against a service; make test replays one request in eight
	$(say) tests "tests/integration/test_openb_replay.py"
	@BERTH_OPENB_ONE_IN=1 $(BIN)/pytest -q tests/integration/test_openb_replay.py $(PYTEST_ARGS)

# The kernel's wheel is for this platform; the other two fit every platform.
dist: $(INSTALLED) ## build what a release consists of, in dist/: source, wheel, and the wheels of both extras
	$(say) dist "$(DIST)"
	@rm -rf $(DIST) && mkdir -p $(DIST)
	@$(BIN)/python -m hatchling build -d $(abspath $(DIST)) >&2
	@cd packaging/testing && $(abspath $(BIN))/python -m hatchling build -t wheel -d $(abspath $(DIST)) >&2
	@cp -R kernel $(DIST)/.kernel \
		&& { $(BIN)/python -m pip --disable-pip-version-check wheel -qq --no-deps --no-build-isolation \
			-w $(DIST) $(DIST)/.kernel \
			|| echo "No wheel of the kernel, which needs a C compiler; see the error above." >&2; }; \
		rm -rf $(DIST)/.kernel
	@ls $(DIST)

reference: $(INSTALLED) ## write the generated pages and files of docs/reference, the manual pages and the dashboards again
	$(say) write "docs/reference, deploy/man, deploy/completion, deploy/grafana"
	@$(BIN)/python -m berth.cli.commands.reference_files docs/reference
	@$(BIN)/python -m berth.cli.commands.man_pages deploy
	@$(BIN)/python -m berth.cli.commands.monitoring_files .

demo: $(INSTALLED) ## show Berth at work; TRACE=folder replays a trace
	$(say) demo "berth demo$(if $(TRACE), --trace $(TRACE)) $(DEMO_ARGS)"
	@$(BIN)/berth demo $(if $(TRACE),--trace $(TRACE)) $(DEMO_ARGS)

demo-zones: $(INSTALLED) ## show a tree of zones at work
	$(say) demo-zones "berth demo-zones $(DEMO_ARGS)"
	@$(BIN)/berth demo-zones $(DEMO_ARGS)

# Compiling all of Nova takes longer than compiling what is imported of it, and a half-made
# environment must not be taken for one.
$(NOVA)/.dependencies: bench/peers/nova-requirements.lock bench/peers/nova-pike.lock
	$(require_python)
	$(say) venv "$(NOVA), with what $< names (a minute or so)"
	@$(PYTHON) -m venv --clear $(NOVA)
	@$(NOVA)/bin/python $(INSTALL) --no-compile --require-hashes --no-deps -r $< \
		&& $(NOVA)/bin/python $(DOWNLOAD) -d $(NOVA)/pike -r bench/peers/nova-pike.lock \
		|| { rm -rf $(NOVA); exit 1; }
	@touch $@

nova: ## make .venv-nova, in which the real Nova runs; tests do without where that fails
	@$(MAKE) -s $(NOVA)/.dependencies \
		|| echo "No $(NOVA), so Berth is not compared with Nova; see the error above." >&2

$(PLACEMENT)/.dependencies: bench/peers/placement-requirements.lock
	$(require_python)
	$(say) venv "$(PLACEMENT), with what $< names (a minute or so)"
	@$(PYTHON) -m venv --clear $(PLACEMENT)
	@$(PLACEMENT)/bin/python $(INSTALL) --require-hashes --no-deps -r $< \
		|| { rm -rf $(PLACEMENT); exit 1; }
	@touch $@

placement-peer: ## make .venv-placement, with the real Placement, its suite and its clients; tests do without where that fails
	@$(MAKE) -s $(PLACEMENT)/.dependencies \
		|| echo "No $(PLACEMENT), so Berth is not compared with Placement; see the error above." >&2

# A collection of Ansible is not a package of its own; the wheel that has it has a hundred others.
COLLECTION = 'from zipfile import ZipFile; from glob import glob; \
	wheel = ZipFile(glob("$(CLIENTS)/wheels/ansible-*.whl")[0]); \
	wheel.extractall("$(CLIENTS)/collections", [name for name in wheel.namelist() \
		if name.startswith("ansible_collections/openstack/cloud/")])'

$(CLIENTS)/.dependencies: tests/e2e/clients/requirements.lock tests/e2e/clients/ansible.lock
	$(require_python)
	$(say) venv "$(CLIENTS), with what $< names"
	@$(PYTHON) -m venv --clear $(CLIENTS)
	@$(CLIENTS)/bin/python $(INSTALL) --require-hashes --no-deps -r $< \
		&& $(CLIENTS)/bin/python $(DOWNLOAD) --ignore-requires-python -d $(CLIENTS)/wheels \
			-r tests/e2e/clients/ansible.lock \
		&& $(CLIENTS)/bin/python -c $(COLLECTION) && rm -r $(CLIENTS)/wheels \
		|| { rm -rf $(CLIENTS); exit 1; }
	@touch $@

clients: ## make .venv-clients, with OpenStack's own clients; tests do without where that fails
	@$(MAKE) -s $(CLIENTS)/.dependencies \
		|| echo "No $(CLIENTS), so no client of OpenStack is tried; see the error above." >&2

$(KEYSTONE)/.dependencies: bench/peers/keystone-requirements.lock
	$(require_python)
	$(say) venv "$(KEYSTONE), with what $< names (half a minute or so)"
	@$(PYTHON) -m venv --clear $(KEYSTONE)
	@$(KEYSTONE)/bin/python $(INSTALL) --no-compile --require-hashes --no-deps -r $< \
		|| { rm -rf $(KEYSTONE); exit 1; }
	@touch $@

keystone: ## make .venv-keystone, in which the real Keystone runs; tests do without where that fails
	@$(MAKE) -s $(KEYSTONE)/.dependencies \
		|| echo "No $(KEYSTONE), so no token of a real Keystone is validated; see the error above." >&2

$(TEMPEST)/.dependencies: tests/e2e/tempest/requirements.lock
	$(require_python)
	$(say) venv "$(TEMPEST), with what $< names"
	@$(PYTHON) -m venv --clear $(TEMPEST)
	@$(TEMPEST)/bin/python $(INSTALL) --require-hashes --no-deps -r $< \
		|| { rm -rf $(TEMPEST); exit 1; }
	@touch $@

tempest: ## make .venv-tempest, with OpenStack's own test suite; tests do without where that fails
	@$(MAKE) -s $(TEMPEST)/.dependencies \
		|| echo "No $(TEMPEST), so Berth does not run Tempest's tests; see the error above." >&2

$(RALLY)/.dependencies: tests/e2e/rally/requirements.lock
	$(require_python)
	$(say) venv "$(RALLY), with what $< names"
	@$(PYTHON) -m venv --clear $(RALLY)
	@$(RALLY)/bin/python $(INSTALL) --require-hashes --no-deps -r $< \
		|| { rm -rf $(RALLY); exit 1; }
	@touch $@

rally: ## make .venv-rally, with OpenStack's load generator; tests do without where that fails
	@$(MAKE) -s $(RALLY)/.dependencies \
		|| echo "No $(RALLY), so Berth does not run Rally's scenarios; see the error above." >&2

$(SITE)/.dependencies: requirements/site.lock
	$(require_python)
	$(say) venv "$(SITE), with what $< names"
	@$(PYTHON) -m venv --clear $(SITE)
	@$(SITE)/bin/python $(INSTALL) --require-hashes --no-deps -r $< \
		|| { rm -rf $(SITE); exit 1; }
	@touch $@

site-tools: ## make .venv-site, with the generator of the site; tests do without where that fails
	@$(MAKE) -s $(SITE)/.dependencies \
		|| echo "No $(SITE), so the site is not built; see the error above." >&2

site: $(SITE)/.dependencies ## build the documentation as a site, in build/site; a warning is an error
	$(say) site "build/site"
	@$(SITE)/bin/sphinx-build -q -W --keep-going -j auto -b html -c docs -d build/site-cache . build/site

# What the QEMU driver and its tests start; Debian and Ubuntu call these packages so.
VIRT_PACKAGES := qemu-system-x86 qemu-utils iproute2
VIRT_PROGRAMS := qemu-system-x86_64 qemu-img qemu-io qemu-storage-daemon ip

# Where there is no network, or another apt-get, this comes to an end.
APT_GET := DEBIAN_FRONTEND=noninteractive apt-get -qq \
	-o Acquire::http::Timeout=20 -o Acquire::Retries=1 -o DPkg::Lock::Timeout=120

# What the libvirt driver and its tests need on top of that; the binding is compiled.
LIBVIRT_PACKAGES := libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients libvirt-dev pkg-config gcc libc6-dev
LIBVIRT_PROGRAMS := libvirtd virsh pkg-config gcc
LIBVIRT := $(VENV)/.libvirt

virt-packages: ## install QEMU and libvirt for real guests (apt-get, as root), or say what is missing; tests do without
	@missing=; for program in $(VIRT_PROGRAMS); do \
		command -v $$program >/dev/null || missing="$$missing $$program"; done; \
	if [ -z "$$missing" ]; then echo "QEMU is here: $$(qemu-system-x86_64 --version | head -n 1)"; \
	elif ! command -v apt-get >/dev/null; then \
		echo "Missing:$$missing. There is no apt-get here: install QEMU in this system's way." >&2; exit 1; \
	elif [ "$$(id -u)" != 0 ]; then \
		echo "Missing:$$missing. As root: apt-get install --no-install-recommends $(VIRT_PACKAGES)" >&2; exit 1; \
	else $(APT_GET) update && \
		$(APT_GET) install --no-install-recommends $(VIRT_PACKAGES); fi
	@$(MAKE) -s $(LIBVIRT) \
		|| echo "No libvirt, so its driver is not tried; see the error above." >&2

$(LIBVIRT): requirements/libvirt.lock | $(DEPENDENCIES)
	@missing=; for program in $(LIBVIRT_PROGRAMS); do \
		command -v $$program >/dev/null || missing="$$missing $$program"; done; \
	pkg-config --exists libvirt 2>/dev/null || missing="$$missing libvirt.pc"; \
	if [ -z "$$missing" ]; then echo "libvirt is here: $$(libvirtd --version)"; \
	elif ! command -v apt-get >/dev/null || [ "$$(id -u)" != 0 ]; then \
		echo "Missing:$$missing. As root: apt-get install --no-install-recommends $(LIBVIRT_PACKAGES)" >&2; exit 1; \
	else $(APT_GET) update && \
		$(APT_GET) install --no-install-recommends $(LIBVIRT_PACKAGES); fi
	$(say) install "libvirt's binding, which $< names"
	@$(BIN)/python $(INSTALL) --require-hashes --no-deps --no-build-isolation -r $<
	@touch $@

# The distribution's kernel, out of packages that are downloaded and not installed.
$(KERNEL_GUEST)/initrd.gz: $(wildcard $(addprefix src/berth/testing/kernel_guest/,*.py *.sh)) | $(INSTALLED)
	$(say) guest "$(KERNEL_GUEST), of Debian's kernel and busybox"
	@$(BIN)/python -m berth.testing.kernel_guest $(KERNEL_GUEST) </dev/null

kernel-guest: ## make the guest with Debian's kernel that tests boot (apt-get, nothing is installed); tests do without
	@$(MAKE) -s $(KERNEL_GUEST)/initrd.gz \
		|| echo "No $(KERNEL_GUEST), so no guest boots a distribution's kernel; see the error above." >&2

guests: $(INSTALLED) ## virt-packages and kernel-guest, where they can be had; tests do without
	@$(MAKE) -s virt-packages </dev/null \
		|| echo "Not every kind of real guest can be started, see above; tests of the others are skipped." >&2
	@! command -v qemu-system-x86_64 >/dev/null || $(MAKE) -s kernel-guest

# Prometheus and promtool, out of a package that is downloaded and not installed. It is renamed when it
# is complete, so that no test starts half a program.
$(PROMETHEUS)/usr/bin/prometheus:
	$(say) peer "$(PROMETHEUS), of Debian's package"
	@rm -rf $(PROMETHEUS) $(PROMETHEUS).new && mkdir -p $(PROMETHEUS).new
	@cd $(PROMETHEUS).new && { $(APT_DOWNLOAD) || { $(APT_GET) update && $(APT_DOWNLOAD); }; } \
		&& dpkg -x prometheus_*.deb . && rm prometheus_*.deb
	@mv $(PROMETHEUS).new $(PROMETHEUS)

APT_DOWNLOAD = $(APT_GET) -o APT::Sandbox::User=root download prometheus

prometheus: ## unpack Prometheus, which tests alerts and dashboards (apt-get, nothing is installed); tests do without
	@{ command -v prometheus && command -v promtool; } >/dev/null || $(MAKE) -s $(PROMETHEUS)/usr/bin/prometheus \
		|| echo "No Prometheus, so alerts and dashboards are not tried; see the error above." >&2

stub-guest: $(INSTALLED) ## assemble the stub guest, with binutils, after a change of its source
	$(say) assemble "src/berth/adapters/virt/stub_guest"
	@$(BIN)/python -m berth.testing.stub_guest

conformance-placement: $(INSTALLED) $(PLACEMENT)/.dependencies ## Placement's own suite against SERVER (berth, real, none); FILES=aggregate,traits chooses
	$(say) suite "the gabbi files of openstack-placement, against $(SERVER)"
	@$(BIN)/python -m tests.conformance.placement --server $(SERVER) \
		$(if $(FILES),--files $(FILES)) $(SUITE_ARGS)

differential: $(INSTALLED) $(NOVA)/.dependencies ## ask Berth and the real Nova CASES random cases of SEED
	$(say) nova "$(CASES) cases of seed $(SEED)"
	@BERTH_DIFFERENTIAL_CASES=$(CASES) BERTH_DIFFERENTIAL_SEED=$(SEED) \
		$(BIN)/pytest -q -n $(WORKERS) tests/differential --ignore tests/differential/placement \
		--ignore tests/differential/placement_writes $(PYTEST_ARGS)

differential-placement: $(INSTALLED) $(PLACEMENT)/.dependencies ## send Berth and the real Placement QUERIES random queries and as many writes of SEED
	$(say) peer "$(QUERIES) queries of seed $(SEED), and as many writes"
	@BERTH_DIFFERENTIAL_QUERIES=$(QUERIES) BERTH_DIFFERENTIAL_SEED=$(SEED) \
		$(BIN)/pytest -q -n $(WORKERS) tests/differential/placement tests/differential/placement_writes \
		$(PYTEST_ARGS)

fuzz: $(INSTALLED) ## the property tests on EXAMPLES new random examples each, and as many walks; every find is a bug
	$(say) fuzz "tests/property, $(EXAMPLES) examples a test, and $(EXAMPLES) walks through the life of servers and over trees"
	@BERTH_FUZZ_EXAMPLES=$(EXAMPLES) BERTH_WALKS=$(EXAMPLES) \
		$(BIN)/pytest -q -n $(WORKERS) --timeout=0 tests/property tests/unit/lifecycle/test_walks.py \
		tests/unit/services/zoning/test_tree_walks.py tests/integration/zone_leaks $(PYTEST_ARGS)

bench: $(INSTALLED) kernel $(NOVA)/.dependencies placement-peer ## measure Berth and its peers; BENCH_ARGS goes to python -m bench
	$(say) bench "python -m bench $(BENCH_ARGS)"
	@$(BIN)/python -m bench $(BENCH_ARGS)

lock: ## write requirements/*.lock again from pyproject.toml; UPGRADE=1 takes the newest versions
	@command -v $(UV) >/dev/null || { \
		echo "No '$(UV)' here: pip install uv, or make lock UV=/path/to/uv" >&2; exit 1; }
	$(say) lock "requirements/runtime.lock"
	@$(COMPILE) pyproject.toml -o requirements/runtime.lock
	$(say) lock "requirements/dev.lock"
	@$(COMPILE) --extra dev --extra keystone --extra mysql --extra rabbitmq --extra telemetry -c requirements/runtime.lock pyproject.toml -o requirements/dev.lock
	$(say) lock "requirements/extras.lock"
	@$(COMPILE) --extra keystone --extra mysql --extra rabbitmq --extra telemetry -c requirements/runtime.lock pyproject.toml -o requirements/extras.lock
	$(say) lock "requirements/libvirt.lock"
	@$(COMPILE) requirements/libvirt.in -o requirements/libvirt.lock
	$(say) lock "requirements/site.lock"
	@$(COMPILE) requirements/site.in -o requirements/site.lock

fmt: $(INSTALLED) ## format, and repair what ruff can repair
	$(say) format "ruff check --fix, ruff format"
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format --quiet .

clean: ## remove virtualenvs, caches and builds
	$(say) clean "virtualenvs, caches, builds"
	@rm -rf $(VENV) $(NOVA) $(PLACEMENT) $(CLIENTS) $(KEYSTONE) $(TEMPEST) $(RALLY) $(SITE) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache \
		.ruff_cache .schemathesis .cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
