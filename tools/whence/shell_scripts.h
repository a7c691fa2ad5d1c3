// Scripts that complete a command line of `whence` in a shell, from the descriptions of its subcommands alone.
#pragma once

#include <string>
#include <vector>

#include "tools/whence/description.h"

namespace whence {

std::string bash_script(const std::vector<CommandDescription>& commands);
std::string zsh_script(const std::vector<CommandDescription>& commands);
std::string fish_script(const std::vector<CommandDescription>& commands);

}  // namespace whence
