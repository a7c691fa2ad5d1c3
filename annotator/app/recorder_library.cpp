// Reads archives; the recorder reads those of TorchScript.
#include "annotator/app/recorder_library.h"

#include <string>

#include "annotator/lower/pipeline.h"
#include "annotator/pt2/exported_program.h"
#include "schema/files/torchscript_file.h"
#include "schema/result.h"

namespace whence::app {

volatile std::sig_atomic_t reading_archive = 0;

bool trace_composite(const CompositeCall& call, Program& steps, Diagnostics& diagnostics) {
  return recorder().trace_composite(call, steps, diagnostics);
}

Program read_archive(const ReadOptions& options, Diagnostics& notes) {
  if (pt2::is_exported_program(options.path)) {
    if (!options.inputs_file.empty() || !options.inputs.empty() || options.default_dtype != DType::float32) {
      throw Error(Code::usage, "a torch.export archive takes no example inputs: it has its own dtypes and sizes",
                  "leave out --input, --inputs and --default-dtype", {.file = options.path, .stage = "command line"});
    }
    return unwrap(pt2::read_exported_program(options), notes);
  }
  reject_other_than_torchscript(*MappedFile::open(options.path));  // before LibTorch is loaded or reported missing
  Program program;
  Diagnostics diagnostics;
  ReadOptions observed = options;
  observed.reading = &reading_archive;
  const bool read = recorder().read_torchscript(observed, program, diagnostics);
  if (!read) throw Error(std::move(diagnostics));
  notes.insert(notes.end(), diagnostics.begin(), diagnostics.end());
  lower::write_out_kernels(program);
  return program;
}

}  // namespace whence::app
