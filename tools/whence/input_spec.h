// Example inputs and dynamic axes as the command line writes them.
//
//   input   [NAME=]DTYPE[DIMS][>=LOW][<HIGH]    'input_ids=int64[1,16]<30522', 'x=float32[2,3]>=0<1',
//   'float32[1,3,224,224]' dynamic NAME:AXIS=SYMBOL[,AXIS=SYMBOL]...   'input_ids:0=batch,1=seq'
//
// An input without a name stands for the forward's argument in the same place.
#pragma once

#include <string>
#include <vector>

#include "schema/recorder_api.h"
#include "tools/whence/cli.h"

namespace whence {

InputSpec parse_input_spec(const std::string& text);              // throws Error(bad_input_spec)
std::vector<DynamicAxis> parse_dynamic(const std::string& text);  // throws Error(bad_input_spec)

// The options --inputs, --input, --library and (for export) --dynamic: declared the same way wherever they occur.
void declare_inputs(CommandLine& line, bool dynamic);
ReadOptions parse_read_options(const CommandLine& line);  // of an archive given as positional "archive"

}  // namespace whence
