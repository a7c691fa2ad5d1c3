// The recorder library, loaded when a subcommand needs LibTorch and not before: loading costs a quarter of a second
// and needs PyTorch on the machine, which annotate, validate and show do not.
//
// Searched in this order: WHENCE_RECORDER (the file itself), then lib/ beside the command's bin/.
// LibTorch is searched in WHENCE_TORCH_DIR or TORCH_DIR (the folder that holds lib/libtorch_cpu.so), then in the folder
// it had when whence was built.
#pragma once

#include <csignal>
#include <string>
#include <vector>

#include "schema/program.h"
#include "schema/recorder_api.h"

namespace whence::app {

// Throws Error(needs_libtorch) when the library or LibTorch cannot be loaded, or is of another build.
// Loaded once; never unloaded, since LibTorch does not survive that.
const RecorderApi& recorder();

// Loads libraries of a user's own operators (TORCH_LIBRARY), so that LibTorch knows them when an archive is read.
// Throws Error: missing_file, wrong_kind for what cannot be loaded, needs_libtorch as recorder() does.
void load_operators(const std::vector<std::string>& libraries);

// RecorderApi::trace_composite, which loads LibTorch when it is first called; throws Error(needs_libtorch) as
// recorder() does.
bool trace_composite(const CompositeCall& call, Program& steps, Diagnostics& diagnostics);

// True while LibTorch reads an archive, for a process that handles signals: a crash then is LibTorch's.
extern volatile std::sig_atomic_t reading_archive;

// Reads an archive, and runs it where that is TorchScript. Notes are appended; throws Error with everything that went
// wrong.
Program read_archive(const ReadOptions& options, Diagnostics& notes);

}  // namespace whence::app
