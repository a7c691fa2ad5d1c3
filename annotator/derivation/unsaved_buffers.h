// Unsaved buffers: tensors of a model that its checkpoint does not have, such as the frequencies of rotary positions
// (persistent=False). They belong to the program. A recording of a TorchScript model has only their digests, so their
// elements are taken from the file, where the digest proves them.
#pragma once

#include "annotator/derivation/contents.h"
#include "annotator/derivation/file_tensors.h"
#include "annotator/derivation/weights.h"
#include "schema/program.h"

namespace whence::derivation {

// Marks each buffer that the checkpoint does not have as not persistent, and fills in the elements of those that a
// tensor of the file holds: complete, as a row of a table of their multiples, or rounded to float16.
void complete_unsaved_buffers(Program& program, const Weights& weights, const FileTensors& tensors, Contents& contents);

}  // namespace whence::derivation
