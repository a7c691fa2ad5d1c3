// Checks the options of an export and converts them to the options of exporter/ and write/.
#pragma once

#include "annotator/exporter/export.h"
#include "annotator/write/onnx_writer.h"
#include "schema/program.h"
#include "whence/options.h"

namespace whence::app {

// Throws Error(usage) for an unsupported opset or an invalid domain.
exporter::ExportOptions conversion_options(const Options& options);

// Returns where to write the weights; any option about external data enables it. Throws Error(usage) for an alignment
// that is not a power of two.
ExternalData external_data(const Options& options);

// Throws like external_data().
write::WriteOptions write_options(const Program& program, const Options& options);

}  // namespace whence::app
