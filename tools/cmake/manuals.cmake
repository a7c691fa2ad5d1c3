# Generates completions and manual pages with the built command, and installs them where shells and man look for them.
# Skipped if the command is compiled for another machine and cannot run here: there, run `whence man` and
# `whence completions`.
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  return()
endif()

set(manuals ${CMAKE_BINARY_DIR}/share)
set(completions ${manuals}/bash-completion/completions/whence ${manuals}/zsh/site-functions/_whence
                ${manuals}/fish/vendor_completions.d/whence.fish)
list(GET completions 0 bash_completion)
list(GET completions 1 zsh_completion)
list(GET completions 2 fish_completion)
add_custom_command(
  OUTPUT ${completions} ${manuals}/man/man1/whence.1
  COMMAND ${CMAKE_COMMAND} -E make_directory ${manuals}/bash-completion/completions ${manuals}/zsh/site-functions
          ${manuals}/fish/vendor_completions.d
  COMMAND whence completions bash -o ${bash_completion}
  COMMAND whence completions zsh -o ${zsh_completion}
  COMMAND whence completions fish -o ${fish_completion}
  COMMAND whence man --all ${manuals}/man/man1
  DEPENDS whence
  COMMENT "Making completions and manual pages"
  VERBATIM)
add_custom_target(whence_manuals ALL DEPENDS ${manuals}/man/man1/whence.1)

install(DIRECTORY ${manuals}/ DESTINATION ${CMAKE_INSTALL_DATADIR})
install(FILES SKILL.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(SKBUILD)
  # share/ of the environment: man and bash-completion look there for commands on PATH.
  install(DIRECTORY ${manuals}/ DESTINATION ${SKBUILD_DATA_DIR}/share COMPONENT python)
  install(FILES SKILL.md DESTINATION . COMPONENT python)
endif()
