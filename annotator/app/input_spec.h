// Parses example inputs and dynamic axes as users write them:
//
//   input    [NAME=]DTYPE[DIMS][>=LOW][<HIGH]         'input_ids=int64[1,16]<30522', 'x=float32[2,3]>=0<1'
//   dynamic  NAME:AXIS[=SYMBOL][,AXIS[=SYMBOL]]...    'input_ids:0=batch,1=seq', 'x:0=2*batch+1', 'x:0=past+seq'
//
// One text may have several inputs: 'x:0=batch,y:0=batch,1=seq'. An input without a name is the argument of forward()
// at the same position.
#pragma once

#include <string>
#include <vector>

#include "schema/recorder_api.h"

namespace whence::app {

InputSpec parse_input_spec(const std::string& text);              // throws Error(bad_input_spec)
std::vector<DynamicAxis> parse_dynamic(const std::string& text);  // throws Error(bad_input_spec)
DType parse_default_dtype(const std::string& word);               // throws Error(usage); "" is float32

}  // namespace whence::app
