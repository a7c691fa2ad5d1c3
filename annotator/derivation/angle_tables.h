// Tables of angles: the cosines and sines of all positions, which rotary embeddings read. Exporters of language models
// compute them for the longest text, the recorded program for its own length.
#pragma once

#include "annotator/derivation/file_tensors.h"
#include "annotator/derivation/program_constants.h"
#include "schema/tensor_data.h"

namespace whence::derivation {

// Returns true if the tensor, [positions, frequencies], holds cos(position * frequency) or sin(position * frequency)
// for frequencies of the program, perhaps times a number of the program, and if rotary embeddings read it as such.
// Tools round as single precision does.
bool is_angle_table(const FileTensors& tensors, TensorNumber tensor, const TensorData& data,
                    const ProgramConstants& constants);

}  // namespace whence::derivation
