// Reads an archive of torch.export.save (.pt2) into a Program without LibTorch: parses its JSON and maps its weights.
#pragma once

#include <string>

#include "schema/program.h"
#include "schema/recorder_api.h"
#include "schema/result.h"

namespace whence::pt2 {

// Returns true if the file is a torch.export archive, judged by its content, or by its extension if it is unreadable.
bool is_exported_program(const std::string& path);

// Uses only `path` and `dynamic` of the options: the archive contains every shape, and --dynamic renames its symbols.
// Notes: state_not_kept for buffers that the program writes to. Errors: those of ZipArchive; newer_version;
// unsupported_feature (older schemas, custom objects, dtypes that ONNX lacks); corrupt_file with the name of the entry;
// baked_size if --dynamic names a fixed axis.
Result<Program> read_exported_program(const ReadOptions& options);

}  // namespace whence::pt2
