// The options of a use that the recorder and the reader of torch.export archives need.
#pragma once

#include <string>

#include "schema/recorder_api.h"
#include "whence/options.h"

namespace whence::app {

// Throws Error: bad_input_spec; usage where `inputs` and `inputs_file` are both given.
ReadOptions read_options(const std::string& archive, const Options& options);

}  // namespace whence::app
