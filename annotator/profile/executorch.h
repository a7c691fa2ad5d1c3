// Reads ExecuTorch's table of events, which its Inspector makes from an ETDump and an ETRecord:
//
//   inspector.to_dataframe().to_csv("profile.tsv", sep="\t")
//
// One row is one event: "raw" has its time in each run, "module_hierarchy" the modules of each of its operators. The
// table of Inspector.save_data_to_tsv() lacks both. ExecuTorch runs the PyTorch program, not the ONNX file, so modules
// are found by their names. Operators inside a delegate are left out, because the event of the delegate includes their
// time.
#pragma once

#include "annotator/profile/profile_reader.h"

namespace whence::profile {

extern const ProfileReader executorch_reader;

}  // namespace whence::profile
