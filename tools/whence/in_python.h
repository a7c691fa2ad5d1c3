// Subcommands that are written in Python: they run a model, which takes PyTorch or a runtime, or
// many commands, on one machine or a cluster.
#pragma once

#include <array>
#include <span>
#include <string>

namespace whence {

struct PythonCommand {
  const char *name, *summary;
};
// Those that are written in Python as a whole.
inline constexpr std::array<PythonCommand, 4> python_commands = {{
    {"accuracy", "which module of an ONNX file is the first whose values differ from PyTorch's"},
    {"sensitivity", "what quantising one module of an ONNX file costs and saves"},
    {"fleet", "annotates, validates and reports a whole registry of models"},
    {"recorder", "compiles the recorder for the PyTorch that is installed"},
}};

// The Python that runs them: $WHENCE_PYTHON, else that of the build tree's virtual environment, else python3. In a
// build tree, it is given the package of the source tree.
std::string python_of_command();
bool is_in_build_tree();

bool is_in_python(std::span<char*> arguments);

// Runs `python3 -m whence` with these arguments in the place of this process; $WHENCE_PYTHON names another Python. A
// command that was built and not installed takes the package of its source tree, and the Python of its build tree's
// virtual environment.
// Throws Error(usage) where that has no package whence.
[[noreturn]] void run_in_python(std::span<char*> arguments);

}  // namespace whence
