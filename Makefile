# Thin: what README.md calls. Programs land in build/bin/.
# Clones in different folders share what was compiled, behind precompiled headers too.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
export CCACHE_SLOPPINESS := pch_defines,time_macros

JOBS ?= $(shell nproc)
LAUNCH = tools/launch.py
RUN_FLAGS ?= --network lenet --kv-store dist_sync --num-epochs 5

# Targets share build folders, and tests share the cores: `make -j` must not mix them.
.NOTPARALLEL:

.PHONY: run test bench soak format build programs configure deps test-deps test-release test-asan test-tsan test-fuzz clean

build: configure
	@cmake --build build -j $(JOBS)

# Without the tests.
programs: configure
	@cmake --build build -j $(JOBS) --target programs

configure: deps
	@cmake --preset release >/dev/null

# The main job: 1 scheduler, 2 servers, 2 workers train LeNet on synthetic digits.
run: programs
	$(LAUNCH) -n 2 -s 2 build/bin/train_mnist $(RUN_FLAGS)

# Everything that must hold. The release tests come last, so that the summary ends the output.
test: test-deps build test-asan test-tsan test-fuzz test-release

test-release: build
	SLUICE_LABS=required ctest --test-dir build --output-on-failure -j $(JOBS)

test-asan: test-deps
	@cmake --preset asan >/dev/null
	@cmake --build build/asan -j $(JOBS) --target tests
	ASAN_OPTIONS=allocator_may_return_null=1 LSAN_OPTIONS=suppressions=$(CURDIR)/tests/lsan.supp \
	  ctest --test-dir build/asan --output-on-failure -j $(JOBS) -LE 'cluster|tools'

test-tsan: test-deps
	@cmake --preset tsan >/dev/null
	@cmake --build build/tsan -j $(JOBS) --target tests
	OMP_THREAD_LIMIT=1 TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan.supp allocator_may_return_null=1" \
	  ctest --test-dir build/tsan --output-on-failure -j $(JOBS) -LE 'cluster|tools'

FUZZ_SECONDS ?= 15
test-fuzz: test-deps
	@tools/fuzz.sh $(FUZZ_SECONDS) $(JOBS)

# A thousand seeds of the simulated cluster, and a minute of each fuzzer.
soak: test-deps build
	SLUICE_SIM_SEEDS=1000 build/tests/sim_tests --gtest_filter='SimRounds.*'
	@tools/fuzz.sh 60 $(JOBS)

bench: programs
	@tools/bench.sh

format:
	@tools/install_deps.sh --develop
	git ls-files '*.h' '*.cc' | xargs clang-format -i

deps:
	@tools/install_deps.sh
test-deps:
	@tools/install_deps.sh --tests

clean:
	rm -rf build
