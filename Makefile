# Thin: what README.md calls. Programs land in build/bin/.
# The build folders share kernels: a kernel is compiled once, and never with a sanitizer. CCACHE_BASEDIR would undo that, as
# it makes paths relative, and build/ and build/asan differ in depth.
export CCACHE_NOHASHDIR := 1
export CCACHE_SLOPPINESS := pch_defines,time_macros

JOBS ?= $(shell tools/cores.sh)
# Quicker from nothing. `make TOGETHER=OFF` is quicker for whoever changes a file and builds again.
TOGETHER ?= ON
LAUNCH = tools/launch.py
RUN_FLAGS ?= --network lenet --kv-store dist_sync --num-epochs 5

# Targets share build folders, and tests share the cores: `make -j` must not mix them.
.NOTPARALLEL:

.PHONY: build-behind run check test ci wheel deb bench soak soak-tsan format build programs configure deps test-deps test-release test-tidy test-asan test-tsan test-fuzz python-env clean

build: configure
	@cmake --build build -j $(JOBS)

# Without the tests.
programs: configure
	@cmake --build build -j $(JOBS) --target programs

configure: deps
	@cmake --preset release -DSLUICE_TOGETHER=$(TOGETHER) $(cards) $(python) >/dev/null

# The main job: 1 scheduler, 2 servers, 2 workers train LeNet on synthetic digits.
run: programs
	$(LAUNCH) -n 2 -s 2 build/bin/train_mnist $(RUN_FLAGS)

# The quick part of the tests, for every save: under a minute after a build.
check: build
	@$(call ctest,build,-j $$(($(JOBS) + 1)) -L 'quick|style')

# The release build and its tests. What this machine cannot have (namespaces, sshd, batch systems) is skipped, and the
# summary says why.
test: python = $(with_python)
test: test-deps python-env build test-release

# What must hold before a change lands (.ci/run): nothing is skipped; clang-tidy, sanitizers and fuzzers find nothing.
ci: export SLUICE_LABS = required
ci: LEFT_OUT = -LE quick
# The kernels of the packages. The sanitizer builds take them from ccache.
ci: cards = "-DCMAKE_CUDA_ARCHITECTURES=80-real;90-real;100"
ci: python = $(with_python)
ci: test-deps python-env build build-behind test-release test-tidy test-asan test-tsan test-fuzz
	@tools/test_report.py build/tests.xml build/asan/tests.xml build/tsan/tests.xml

# $(call ctest,FOLDER,ARGUMENTS,VARIABLES): the tests of a build; the summary ends the output, whatever comes of them.
ctest = rm -f $(1)/tests.xml; \
  $(3) ctest --test-dir $(1) --output-on-failure --test-output-size-passed 100000 --output-junit tests.xml $(2); \
  code=$$?; tools/test_report.py $(1)/tests.xml; exit $$code

# Two more than there are cores, for the two tests at a time that mostly wait (tests/cluster/CMakeLists.txt). Whether the
# tools that measure still make their tables takes minutes of a quiet machine, and the analyses compile the library
# again: make ci looks at both.
LEFT_OUT = -LE 'bench|analysis|quick'
test-release: build
	@$(call ctest,build,-j $$(($(JOBS) + 2)) $(LEFT_OUT))

# Begins the builds for test-asan and test-tsan: many of the release build's tests mostly wait.
build-behind: test-deps
	@cmake --preset asan $(cards) >/dev/null
	@cmake --preset tsan -DSLUICE_SOAK=OFF $(cards) >/dev/null
	@tools/build_behind.sh $$PPID $(JOBS) build/asan build/tsan

# What changed last; tools/check_tidy.py --all takes half an hour of a core.
TIDY_FILES ?= 5
test-tidy: test-deps build
	@tools/check_tidy.py --most $(TIDY_FILES)

test-asan: test-deps
	@tools/build_behind.sh --end
	@cmake --preset asan $(cards) >/dev/null
	@cmake --build build/asan -j $(JOBS) --target tests
	@$(call ctest,build/asan,-j $$(($(JOBS) + 1)) -LE 'cluster|tools',ASAN_OPTIONS=allocator_may_return_null=1 LSAN_OPTIONS=suppressions=$(CURDIR)/tests/lsan.supp)

test-tsan: test-deps
	@tools/build_behind.sh --end
	@cmake --preset tsan -DSLUICE_SOAK=OFF $(cards) >/dev/null
	@cmake --build build/tsan -j $(JOBS) --target tests
	@$(call ctest,build/tsan,-j $$(($(JOBS) + 1)) -LE 'cluster|tools',OMP_THREAD_LIMIT=1 TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan.supp allocator_may_return_null=1")

FUZZ_SECONDS ?= 5
test-fuzz: test-deps
	@tools/fuzz.sh $(FUZZ_SECONDS) $(JOBS)

# A thousand seeds of the simulated cluster, a minute of each fuzzer, and kernels' contract under TSan.
soak: test-deps build soak-tsan
	SLUICE_SIM_SEEDS=1000 build/tests/sim_tests --gtest_filter='SimRounds.*'
	@tools/fuzz.sh 60 $(JOBS)

soak-tsan: test-deps
	@cmake --preset tsan -DSLUICE_SOAK=ON $(cards) >/dev/null
	@cmake --build build/tsan -j $(JOBS) --target soak_tests
	@$(call ctest,build/tsan,-j $$(($(JOBS) + 1)) -L soak,OMP_THREAD_LIMIT=1 TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan.supp allocator_may_return_null=1")

# build/wheel/sluice-*.whl, which is tried in an empty environment, and build/package/sluice_*.deb. Neither has CUDA.
wheel: deps
	@tools/make_wheel.sh build/wheel

deb: deps
	@cmake --preset cpu-only -B build/package -DSLUICE_TESTS=OFF -DSLUICE_TOGETHER=$(TOGETHER) >/dev/null
	@cmake --build build/package -j $(JOBS)
	@rm -f build/package/sluice_*.deb
	@cpack --config build/package/CPackConfig.cmake -B build/package >build/package/cpack.log 2>&1 || { cat build/package/cpack.log; exit 1; }
	@ls build/package/sluice_*.deb

bench: programs
	@tools/bench.sh

format:
	@tools/install_deps.sh --develop
	git ls-files '*.h' '*.cc' '*.cu' '*.cuh' | xargs clang-format -i

# The package of python/ is built and tested where PyPI can be reached, or once was.
with_python = $(shell [ ! -f build/python-env/packages ] || echo -DSLUICE_PYTHON=ON -DPython_EXECUTABLE=$(CURDIR)/build/python-env/bin/python)
python-env:
	@tools/python_env.sh build/python-env || echo "Python's package is not built: PyPI was not reached" >&2

deps:
	@tools/install_deps.sh
test-deps:
	@tools/install_deps.sh --tests

clean:
	rm -rf build
