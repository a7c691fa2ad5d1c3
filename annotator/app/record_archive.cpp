#include "annotator/app/record_archive.h"

#include <utility>

#include "annotator/app/read_options.h"
#include "annotator/app/recorder_library.h"
#include "schema/sidecar/file_names.h"
#include "schema/sidecar/sidecar.h"

namespace whence::app {

RecordReport record_archive(const std::string& archive, const std::string& output, const Options& options, bool run) {
  require_sidecar_name(output);
  ReadOptions read = read_options(archive, options);
  read.digests = true;
  read.run = run;
  load_operators(options.libraries);
  Diagnostics notes;
  Sidecar sidecar;
  sidecar.program = read_archive(read, notes);
  write_sidecar(sidecar, output);
  return {std::move(sidecar.program), std::move(notes)};
}

}  // namespace whence::app
