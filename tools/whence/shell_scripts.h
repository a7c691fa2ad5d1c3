// Scripts that complete command lines of `whence` in a shell, made from the descriptions of its subcommands.
#pragma once

#include <string>
#include <vector>

#include "tools/whence/description.h"

namespace whence {

std::string bash_script(const std::vector<CommandDescription>& commands);
std::string zsh_script(const std::vector<CommandDescription>& commands);
std::string fish_script(const std::vector<CommandDescription>& commands);

}  // namespace whence
