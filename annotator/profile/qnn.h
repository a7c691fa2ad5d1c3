// Reads files of Qualcomm's QNN execution provider:
//   profiling_file_path with profiling_level=detailed: a CSV of events. Layers are rows with the message NODE:
//     Msg Timestamp,Message,Time,Unit of Measurement,Timing Source,Event Level,Event Identifier[,ONNX Source Ops]
//     2,NODE,25,CYCLES,BACKEND,SUB-EVENT,Conv_1:OpId_7 (cycles),/layer1/Conv;/layer1/Relu
//   qnn_op_trace.json (enable_framework_op_trace), which lists the nodes of a layer if the CSV does not:
//     {"schema_version": 2, "subgraph_traces": [{"op_mappings": [
//       {"dst_name": "Conv_1", "dst_qnn_op_type": "Conv2d", "sources": [{"name": "/layer1/Conv", "type": "OP"}]}]}]}
// Prefers the column "Original ONNX Source Ops" and `original_sources` (QNN's op_trace_matcher), which name nodes of
// the model before ONNX Runtime optimised it. QNN does not run on our machines: tests read files written by hand in the
// format that its source code prints.
#pragma once

#include "annotator/profile/profile_reader.h"

namespace whence::profile {

extern const ProfileReader qnn_profile_reader, qnn_trace_reader;

}  // namespace whence::profile
