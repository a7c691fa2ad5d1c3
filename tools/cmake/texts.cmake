# Compiles texts into the command, so that it needs no files at run time: the guide for agents, the script that inspects
# a Python environment, and the options of subcommands that are written in Python.
set(text_files SKILL.md python/whence/command/installed.py tools/whence/python_commands.json)
list(TRANSFORM text_files PREPEND ${CMAKE_SOURCE_DIR}/)
set(text_names skill installed_py python_commands)
foreach(name file IN ZIP_LISTS text_names text_files)
  file(READ ${file} text_${name})
endforeach()
configure_file(${CMAKE_SOURCE_DIR}/tools/cmake/whence_texts.h.in ${CMAKE_BINARY_DIR}/generated/whence_texts.h @ONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${text_files})
