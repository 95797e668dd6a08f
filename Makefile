# `make demo` and `make test` are all that a fresh machine needs; they set up .venv by themselves.

VENV := .venv
PY := $(VENV)/bin/python

.PHONY: demo test test-quick sweep check coverage docs site site-pictures pictures docs-check examples native diagnosis lab compare-proof compare-halves history-proof agent-questions try-proof vendor-options weight ranks-proof bench fuzz attack soak gpu-check clean help

help: ## what there is
	@grep -hE '^[a-z-]+:.*##' Makefile | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

demo: $(VENV)/.runtime ## set up, then the main job on the recordings in examples/
	@scripts/demo

test: $(VENV)/.tests ## everything that CI runs: style, types, layers, docs, tests
	@scripts/test

test-quick: $(VENV)/.tests ## at most a minute: the tests that what changed asks for (scripts/choose_tests.py)
	@$(PY) scripts/run_tests.py --quick

sweep: $(VENV)/.tests ## all tests with their campaigns, of which `make test` runs samples; then all as a stranger has them
	@SIGHTLINE_CAMPAIGNS=1 scripts/test
	@scripts/stranger --long=9999 --cases-each=9999

check: $(VENV)/.tests ## style, types, layers and docs only
	@scripts/test --no-pytest

weight: ## how many MB `pip install .` puts on the disk, by package
	@scripts/weight

coverage: $(VENV)/.tests ## how much of each rule and analysis their own tests run
	@$(PY) scripts/measure_coverage.py

docs: $(VENV)/.tests ## write docs/reference.md, what importers declare, the drawing of the rooms and all sentences anew from the code
	@$(PY) scripts/reference.py
	@$(PY) scripts/importers.py
	@$(PY) scripts/rooms.py
	@$(PY) scripts/sentences.py

site: $(VENV)/.tests ## the documentation site and the man pages, under build/: links checked, nothing loaded from elsewhere
	@$(PY) scripts/make_site.py
	@$(PY) scripts/make_man.py

site-pictures: site ## every kind of page of the site, light, dark and on a phone, with sheets of a dozen; axe looks too
	@$(PY) scripts/site_pictures.py

pictures: $(VENV)/.tests ## every panel of the page, light, dark, on a phone and on paper, under build/pictures; axe looks too
	@$(PY) scripts/panel_pictures.py

docs-check: $(VENV)/.tests ## run every block of README.md and docs/, and compare the screen that README shows
	@$(PY) -m pytest -q -rs tests/test_docs.py tests/test_newcomer.py tests/views/test_report.py \
	    -k "test_docs or test_newcomer or readme"

examples: $(VENV)/.tests ## write the simulated example recordings anew
	@$(PY) examples/make_simulated.py

native: $(VENV)/.runtime ## build the compiled reader anew
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --editable .

diagnosis: $(VENV)/.tests ## the first finding on the corpus against independent verdicts
	@$(PY) scripts/diagnose_cases.py

lab: $(VENV)/.tests ## run the lab's exercises here three times, keep recordings and figures, write its pages
	@$(PY) scripts/lab.py --run all
	@$(PY) benchmarks/diagnosis.py --lab

compare-proof: $(VENV)/.tests ## how often `sightline compare` is right on pairs whose change is known
	@$(PY) scripts/compare_proof.py

compare-halves: $(VENV)/.tests ## both halves of real recordings against each other: nothing changed
	@$(PY) scripts/compare_halves.py --window steady

history-proof: $(VENV)/.tests ## how often `sightline history` sees a change where there is one and none
	@$(PY) scripts/history_proof.py

agent-questions: $(VENV)/.tests ## a hundred questions over the corpus, as an agent asks them of `sightline mcp`
	@$(PY) scripts/agent_questions.py --wrong

try-proof: $(VENV)/.tests ## how often `sightline try` is right, though it stops early: 140,000 simulated trials
	@$(PY) scripts/try_proof.py

VENDORS ?= vendors
vendor-options: $(VENV)/.tests ## each option of the vendors' tools that is typed, against their own help (VENDORS)
	@$(PY) scripts/vendor_options.py $(VENDORS) --write
	@SIGHTLINE_VENDORS=$(VENDORS) $(PY) -m pytest -q tests/test_vendor_options.py

ranks-proof: $(VENV)/.tests ## planted causes, pipelines, hangs and wrong pairings of simulated jobs of many ranks (RANKS, JOBS)
	@$(PY) benchmarks/many_ranks.py truth $(RANKS) --jobs $(JOBS)
	@$(PY) benchmarks/many_ranks.py pipelines $(RANKS) --jobs $(JOBS)
	@$(PY) benchmarks/many_ranks.py hangs $(RANKS) --jobs $(JOBS)
	@$(PY) benchmarks/many_ranks.py pairing $(RANKS) --jobs $(JOBS)
RANKS ?= 8 32 128
JOBS ?= 20

bench: $(VENV)/.runtime ## reading speed and memory against a floor and a peer (benchmarks/README.md)
	@$(PY) benchmarks/kineto_import.py

FUZZ_SECONDS ?= 600
fuzz: $(VENV)/.runtime ## mutated recordings through the compiled readers, with sanitizers (FUZZ_SECONDS)
	@cmake -S . -B build/fuzz -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1 -DNDEBUG" \
	    -DSIGHTLINE_SANITIZE=ON \
	    -DSIGHTLINE_PROGRAMS=ON >/dev/null
	@cmake --build build/fuzz --target sightline-fuzz --parallel >/dev/null
	@mkdir -p build/fuzz/inputs && for f in examples/*.json.gz examples/*/*.json.gz; do \
	    gzip -dc $$f >build/fuzz/inputs/$$(echo $$f | tr / _).json; done
	@rm -f build/fuzz/inputs/db && $(PY) scripts/fuzz_database.py build/fuzz/inputs/db
	@build/fuzz/sightline-fuzz $(FUZZ_SECONDS) 1 build/fuzz/inputs/*

ATTACK_SECONDS ?= 600
ATTACK_LEAST ?= 10000
ATTACK_EACH ?= 150
attack: $(VENV)/.tests ## damaged and hostile inputs through the command line (ATTACK_SECONDS), then faults
	@$(PY) tests/attack/campaign.py --seconds $(ATTACK_SECONDS) --least $(ATTACK_LEAST)
	@$(PY) tests/attack/losses.py --each $(ATTACK_EACH)
	@$(PY) tests/attack/doubling.py
	@$(PY) tests/attack/faults.py
	@SIGHTLINE_CAMPAIGNS=1 $(PY) -m pytest -q tests/attack/test_mcp.py tests/compare/test_claims.py tests/views/notebook/test_displays.py tests/attack/test_capture.py tests/attack/test_cluster.py tests/cluster/test_kill.py tests/capture/test_relay.py tests/fleet/test_rank_file.py tests/record/collect/test_jax_door.py tests/capture/test_profile_push.py tests/attack/test_server_metrics.py tests/attack/test_server_recording.py tests/record/collect/test_server_faults.py

SOAK_SECONDS ?= 600
soak: $(VENV)/.tests ## watch and serve for long: does their memory grow, or what they hold open (SOAK_SECONDS)
	@$(PY) tests/attack/soak.py --seconds $(SOAK_SECONDS)

gpu-check: $(VENV)/.tests ## the tests that need a GPU; keeps their recordings in gpu-examples/
	@SIGHTLINE_SLOW=1 SIGHTLINE_EXAMPLES=$(CURDIR)/gpu-examples $(PY) -m pytest -v -m gpu -rs tests/gpu || [ $$? = 5 ]

clean: ## remove what was built
	rm -rf $(VENV) .demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

NATIVE := CMakeLists.txt $(wildcard native/*.cpp native/*/*.cpp native/*/*.h)

$(VENV)/.runtime: pyproject.toml $(NATIVE)
	@scripts/setup
	@touch $@

$(VENV)/.tests: pyproject.toml $(NATIVE)
	@scripts/setup test
	@touch $@ $(VENV)/.runtime
