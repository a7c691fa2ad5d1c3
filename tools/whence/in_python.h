// Subcommands that are written in Python. They run a model, which needs PyTorch or a runtime, or many commands, on one
// machine or a cluster.
#pragma once

#include <array>
#include <span>
#include <string>

namespace whence {

struct PythonCommand {
  const char *name, *summary;
};
// The subcommands that are written entirely in Python.
inline constexpr std::array<PythonCommand, 4> python_commands = {{
    {"accuracy", "find the first module of an ONNX file whose values differ from PyTorch's"},
    {"sensitivity", "measure the error and the savings of quantising each module of an ONNX file"},
    {"fleet", "annotate, validate and report a whole registry of models"},
    {"recorder", "compile the recorder for the installed PyTorch"},
}};

// Returns the Python that runs them: $WHENCE_PYTHON, else the one in the build tree's virtual environment, else
// python3. In a build tree, adds the source tree's package to PYTHONPATH.
std::string python_of_command();
bool is_in_build_tree();

bool is_in_python(std::span<char*> arguments);

// Replaces this process with `python -m whence` with these arguments, in the Python of python_of_command(). Throws
// Error(usage) if that Python has no package whence.
[[noreturn]] void run_in_python(std::span<char*> arguments);

}  // namespace whence
