# Defines LibTorch as the target whence_torch. TORCH_DIR is the folder of the `torch` package, from a wheel or a LibTorch
# archive.
#
# Looks in this order: -DTORCH_DIR, the environment's TORCH_DIR, the Python that a wheel is built for (SKBUILD), the
# virtual environment of `make build`, the active one, the python3 on PATH.
# Does not use PyTorch's TorchConfig.cmake: it adds unneeded flags, and in a CUDA build requires the CUDA compiler.

# The supported versions: `make test-torch VERSION=...` tests any of them. The oldest is the first one that writes
# torch.export archives in their current form. Only this file contains the range.
set(WHENCE_TORCH_OLDEST 2.9.1)
set(WHENCE_TORCH_NEWEST 2.15.0)
set(torch_range "PyTorch ${WHENCE_TORCH_OLDEST} to ${WHENCE_TORCH_NEWEST}")

# Sets `result` to the folder of the torch package that a Python would import. -E ignores environment variables: pip's
# build isolation (PEP 517) uses them to hide the caller's environment, which contains torch.
function(find_torch_of python result)
  execute_process(COMMAND ${python} -E -c "import importlib.util as u, os; print(os.path.realpath(u.find_spec('torch').submodule_search_locations[0]))"
                  WORKING_DIRECTORY ${CMAKE_BINARY_DIR} OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(${result} "${folder}" PARENT_SCOPE)
endfunction()

set(torch_default $ENV{TORCH_DIR})
file(GLOB pythons ${CMAKE_SOURCE_DIR}/build/venv/bin/python)
if(SKBUILD)
  list(PREPEND pythons ${Python_EXECUTABLE})
endif()
if(DEFINED ENV{VIRTUAL_ENV})
  list(APPEND pythons $ENV{VIRTUAL_ENV}/bin/python)
endif()
list(APPEND pythons python3)
foreach(python IN LISTS pythons)
  if(NOT torch_default)
    find_torch_of(${python} torch_default)
  endif()
endforeach()
set(TORCH_DIR "${torch_default}" CACHE PATH "folder of the torch package: include/ and lib/ are in it")

if(NOT EXISTS ${TORCH_DIR}/lib/libtorch_cpu.so)
  set(missing "no LibTorch in '${TORCH_DIR}'")
  if(NOT TORCH_DIR)
    string(REPLACE ";" ", " searched "${pythons}")
    set(missing "no LibTorch: none of these has the package torch: ${searched}")
  endif()
  message(FATAL_ERROR "${missing}. Install torch (${torch_range}) in the environment that whence is built for, or set "
                      "TORCH_DIR to the folder that `python -c 'import torch; print(torch.__path__[0])'` prints; or build "
                      "without the recorder (-DWHENCE_RECORDER=OFF)")
endif()
foreach(header headeronly/version.h csrc/api/include/torch/version.h)  # since 2.10, before
  if(EXISTS ${TORCH_DIR}/include/torch/${header} AND NOT torch_version)
    file(STRINGS ${TORCH_DIR}/include/torch/${header} torch_version REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  endif()
endforeach()
string(REGEX REPLACE "[^0-9;]" "" torch_version "${torch_version}")
string(REPLACE ";" "." torch_version "${torch_version}")
if(torch_version VERSION_LESS WHENCE_TORCH_OLDEST)
  message(FATAL_ERROR "LibTorch in ${TORCH_DIR} is ${torch_version}; whence builds with ${torch_range}: install one of them")
elseif(torch_version VERSION_GREATER WHENCE_TORCH_NEWEST)
  message(WARNING "LibTorch in ${TORCH_DIR} is ${torch_version}; whence is tested with ${torch_range}")
endif()
message(STATUS "LibTorch ${torch_version} in ${TORCH_DIR}")

add_library(whence_torch INTERFACE)
target_include_directories(whence_torch SYSTEM INTERFACE ${TORCH_DIR}/include ${TORCH_DIR}/include/torch/csrc/api/include)
target_link_directories(whence_torch INTERFACE ${TORCH_DIR}/lib)
target_link_libraries(whence_torch INTERFACE torch_cpu c10)
# LibTorch's checks contain __FILE__: removes the build folder from these paths.
target_compile_options(whence_torch INTERFACE -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
