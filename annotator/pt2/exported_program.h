// Reads what torch.export.save wrote (.pt2) into a Program, without LibTorch: the archive's JSON, its weights mapped.
#pragma once

#include <string>

#include "schema/program.h"
#include "schema/recorder_api.h"
#include "schema/result.h"

namespace whence::pt2 {

// True if the file is a torch.export archive, by its content; by its name where that cannot be read.
bool is_exported_program(const std::string& path);

// Only `path` and `dynamic` of the options count: the archive holds every shape, and --dynamic renames its symbols.
// Notes: state_not_kept for buffers that the program writes back.
// Errors: those of ZipArchive; newer_version, unsupported_feature (older schemas, custom objects, dtypes ONNX lacks),
// corrupt_file with the entry's name, baked_size where --dynamic names an axis that is fixed.
Result<Program> read_exported_program(const ReadOptions& options);

}  // namespace whence::pt2
