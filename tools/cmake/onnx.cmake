# Finds ONNX C++ in ONNX_ROOT, else in the user's cache, where tools/setup/onnx.sh builds it. The build of a wheel runs
# that script itself, because `make` does not prepare it.
set(WHENCE_ONNX_VERSION 1.23.2)

set(cache_folder $ENV{XDG_CACHE_HOME})
if(NOT cache_folder)
  set(cache_folder $ENV{HOME}/.cache)
endif()
if(CMAKE_CROSSCOMPILING)
  set(onnx_default ${cache_folder}/whence/onnx-${WHENCE_ONNX_VERSION}-${CMAKE_SYSTEM_PROCESSOR})
elseif(DEFINED ENV{ONNX_ROOT})
  set(onnx_default $ENV{ONNX_ROOT})
else()
  set(onnx_default ${cache_folder}/whence/onnx-${WHENCE_ONNX_VERSION})
endif()
set(ONNX_ROOT ${onnx_default} CACHE PATH "ONNX C++ ${WHENCE_ONNX_VERSION}, as tools/setup/onnx.sh builds it")

if(SKBUILD)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env PYTHON=${Python_EXECUTABLE} CMAKE=${CMAKE_COMMAND}
                          ${CMAKE_SOURCE_DIR}/tools/setup/onnx.sh
                  RESULT_VARIABLE failed ERROR_VARIABLE onnx_error)
  if(failed)
    message(FATAL_ERROR "ONNX C++ ${WHENCE_ONNX_VERSION} could not be built: ${onnx_error}")
  endif()
endif()
find_package(ONNX CONFIG PATHS ${ONNX_ROOT} NO_DEFAULT_PATH)
if(NOT ONNX_FOUND)
  message(FATAL_ERROR "no ONNX C++ ${WHENCE_ONNX_VERSION} in ${ONNX_ROOT}: run tools/setup/onnx.sh, or set ONNX_ROOT")
endif()
