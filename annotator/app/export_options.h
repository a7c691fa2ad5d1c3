// The options of an export as the rooms take them, checked.
#pragma once

#include "annotator/exporter/export.h"
#include "annotator/write/onnx_writer.h"
#include "schema/program.h"
#include "whence/options.h"

namespace whence::app {

// Throws Error(usage) for an opset that is not supported or a domain that cannot be one.
exporter::ExportOptions conversion_options(const Options& options);

// The place of the weights: an option about the files beside the model asks for them, too. Throws Error(usage) for an
// alignment that is not a power of two.
ExternalData external_data(const Options& options);

// Throws what external_data() throws.
write::WriteOptions write_options(const Program& program, const Options& options);

}  // namespace whence::app
