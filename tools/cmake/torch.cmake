# LibTorch as the target whence_torch. TORCH_DIR is the `torch` package's folder: a wheel's or a LibTorch archive's.
#
# Looked for in: -DTORCH_DIR, the environment's TORCH_DIR, the virtual environment of `make build`, the python on PATH.
# PyTorch's own TorchConfig.cmake is not used: it brings flags, and with a CUDA build the CUDA compiler, for nothing.

set(torch_default $ENV{TORCH_DIR})
if(NOT torch_default)
  file(GLOB torch_default ${CMAKE_SOURCE_DIR}/build/venv/lib/python3*/site-packages/torch)
endif()
if(NOT torch_default)
  execute_process(COMMAND python3 -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
                  OUTPUT_VARIABLE torch_default OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
set(TORCH_DIR "${torch_default}" CACHE PATH "folder of the torch package: include/ and lib/ are in it")

if(NOT EXISTS ${TORCH_DIR}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "no LibTorch in '${TORCH_DIR}': pip install torch==${WHENCE_TORCH_VERSION} and set TORCH_DIR to the "
                      "torch package's folder, or build without the recorder (-DWHENCE_RECORDER=OFF)")
endif()
file(STRINGS ${TORCH_DIR}/include/torch/headeronly/version.h torch_version REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9;]" "" torch_version "${torch_version}")
string(REPLACE ";" "." torch_version "${torch_version}")
if(NOT torch_version VERSION_EQUAL WHENCE_TORCH_VERSION)
  message(WARNING "LibTorch in ${TORCH_DIR} is ${torch_version}; whence is tested with ${WHENCE_TORCH_VERSION}")
endif()

add_library(whence_torch INTERFACE)
target_include_directories(whence_torch SYSTEM INTERFACE ${TORCH_DIR}/include ${TORCH_DIR}/include/torch/csrc/api/include)
target_link_directories(whence_torch INTERFACE ${TORCH_DIR}/lib)
target_link_libraries(whence_torch INTERFACE torch_cpu c10)
