# From a bare machine to a result: `make demo`. Each target installs what it needs and keeps existing files.
#
#   make demo      build only the command, then record, export, annotate and validate a real model (all-MiniLM-L6-v2)
#   make build     the command at build/bin/whence, the virtual environment at build/venv
#   make test      build, then every test; with MATRIX=3/16 also that shard of the matrix
#   make test-full build, then the test matrix: every operator at other opsets and dtypes, and other tools on whence's
#                  outputs, each in its own environment; about ten minutes
#   make install   the command, libraries, headers and CMake package under PREFIX (/usr/local)
#   make wheel     the wheel whence-onnx with a fully static command in build/wheels, tried in an empty environment
#   make wheel-aarch64 the wheel for aarch64, cross-compiled and tried under qemu; about ten minutes
#   make wheel-recorder VERSIONS="2.9.1 2.13.0"   the wheel whence-onnx-recorder for these versions of PyTorch
#   make release VERSIONS="2.9.1 2.13.0"   wheels, sdist, static commands, C++ SDK, SHA256SUMS and bills of materials
#   make test-source   `pip install` of the source with PyTorch, in an empty environment: tests/python/test_source_install.py
#   make test-torch VERSION=2.15.0   the recorder and its tests with another PyTorch (versions: tools/cmake/torch.cmake)
#   make accuracy  build, then measure how often annotate is right on foreign files: tests/accuracy
#   make real-bugs BUGS="onnxscript-2892"   real bugs of other tools, all or some: what whence says of them: tests/real_bugs
#   make right-files MODELS="attention lstm"   right files of other tools, all or some: whence names no module: tests/right_files
#   make attest MODELS="text llama"   files of exporters and tools, all or some: whence attest accounts for them;
#                  OPTIONS=--planted: it finds changes; OPTIONS=--refit: whence refit against the tools: tests/derivation
#   make bench     build, then the benchmarks of tests/bench
#   make fuzz SECONDS=60   fuzz each reader with libFuzzer for this time; TARGETS=npz,zip: only these
#   make random N=20000     compare N random programs by all routes with PyTorch, on all cores: tests/random
#   make test-sanitized    C++ tests, kept fuzz inputs and foreign ONNX files under sanitizers, without LibTorch
#   make lint      format and clang-tidy
#   make clean     remove build outputs, keep the virtual environment and the cache
#
# Environment variables: TORCH_DIR (LibTorch), ONNX_ROOT (ONNX C++ 1.23.2), VENV (a virtual environment),
# PIP_EXTRA_INDEX_URL (for example PyTorch's index of CPU wheels, which are ten times smaller).

PREFIX ?= /usr/local
SECONDS ?= 60
N ?= 2000

.PHONY: demo build test test-full test-source test-torch test-sanitized fuzz random wheel wheel-aarch64 wheel-recorder release accuracy real-bugs right-files attest install bench lint clean setup

build: setup
	@tools/setup/build.sh release

setup:
	@tools/setup/packages.sh
	@tools/setup/python.sh
	@tools/setup/onnx.sh

# Does not install packages that only tests need, such as a browser.
demo:
	@tools/setup/packages.sh build speed
	@tools/setup/python.sh demo
	@tools/setup/onnx.sh
	@tools/setup/build.sh release whence whence_recorder
	@samples/minilm/demo.sh

test: build
	@tools/setup/test.sh

test-full: build
	@tools/setup/test_full.sh

wheel: build
	@tools/setup/wheel.sh

wheel-aarch64: build
	@tools/setup/wheel.sh aarch64

wheel-recorder: build
	@tools/setup/recorder_wheel.sh $(VERSIONS)

release: build
	@tools/setup/release.sh $(VERSIONS)

test-source: build
	@WHENCE_SOURCE_WHEEL=build build/venv/bin/python -m pytest tests/python/test_source_install.py -q

test-torch: build
	@tools/setup/test_torch.sh "$(VERSION)"

accuracy: build
	@tools/setup/accuracy.sh

real-bugs: build
	@tools/setup/real_bugs.sh $(BUGS)

right-files: build
	@tools/setup/right_files.sh $(MODELS)

attest: build
	@tools/setup/attest.sh $(OPTIONS) $(MODELS)

install: build
	@tools/setup/install.sh "$(PREFIX)"

bench: build
	@tools/setup/bench.sh

fuzz: setup
	@tools/setup/fuzz.sh "$(SECONDS)" "$(TARGETS)"

random: build
	@tools/setup/random.sh "$(N)"

test-sanitized: setup
	@tools/setup/test_sanitized.sh

lint: setup
	@tools/setup/lint.sh

clean:
	@tools/setup/clean.sh
