// Converts the options of a use case to options of the recorder and of the torch.export reader.
#pragma once

#include <string>

#include "schema/recorder_api.h"
#include "whence/options.h"

namespace whence::app {

// Throws Error: bad_input_spec; usage if `inputs` and `inputs_file` are both given.
ReadOptions read_options(const std::string& archive, const Options& options);

}  // namespace whence::app
