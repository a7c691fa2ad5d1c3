// The recorder library, loaded on first use of LibTorch: loading costs a quarter of a second and needs PyTorch on the
// machine. annotate, validate and show need neither.
//
// Search order: WHENCE_RECORDER (the file itself), then lib/ next to the command's bin/.
// LibTorch: WHENCE_TORCH_DIR or TORCH_DIR (the folder with lib/libtorch_cpu.so), then the LibTorch that whence was
// built with.
#pragma once

#include <csignal>
#include <string>
#include <vector>

#include "schema/program.h"
#include "schema/recorder_api.h"

namespace whence::app {

// Loads the recorder once; never unloads it, because LibTorch cannot be unloaded. Throws Error(needs_libtorch) if the
// library or LibTorch cannot be loaded, or if the library is from another build.
const RecorderApi& recorder();

// Loads libraries with a user's operators (TORCH_LIBRARY), which registers the operators in LibTorch.
// Throws Error: missing_file, wrong_kind for a library that cannot be loaded, needs_libtorch as recorder() does.
void load_operators(const std::vector<std::string>& libraries);

// Calls RecorderApi::trace_composite; loads LibTorch on first use. Throws Error(needs_libtorch) as recorder() does.
bool trace_composite(const CompositeCall& call, Program& steps, Diagnostics& diagnostics);

// True while LibTorch reads an archive. Read by signal handlers: a crash is then attributed to LibTorch.
extern volatile std::sig_atomic_t reading_archive;

// Reads an archive, and runs it if it is TorchScript. Appends to `notes`; throws Error with all errors found.
Program read_archive(const ReadOptions& options, Diagnostics& notes);

}  // namespace whence::app
