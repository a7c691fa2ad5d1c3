// The options of an export as the rooms take them, checked.
#pragma once

#include "annotator/exporter/export.h"
#include "annotator/write/onnx_writer.h"
#include "schema/program.h"
#include "whence/options.h"

namespace whence::app {

// Throws Error(usage) for an opset that is not supported or a domain that cannot be one.
exporter::ExportOptions conversion_options(const Options& options);

// Throws Error(usage) for an alignment that is not a power of two.
write::WriteOptions write_options(const Program& program, const Options& options);

}  // namespace whence::app
