// Reads the graph that OpenVINO ran: ov::CompiledModel::get_runtime_model() of a model compiled with PERF_COUNT,
// serialized by ov::serialize after some inferences.
//
//   <net name="..." version="11"><layers>
//     <layer id="15" name="/query/MatMul" type="FullyConnected">
//       <data execOrder="15" execTimeMcs="35" originalLayersNames="/query/MatMul,Multiply_4444," .../>
//   ...
//   <edges><edge from-layer="13" from-port="0" to-layer="15" to-port="1"/>
//
// execTimeMcs is the average of all inferences, or "not_executed". Names are names of ONNX nodes, or of the tensor if
// the node produces an output of the model. Parts of decomposed operators have OpenVINO's own names ("MVN_18").
#pragma once

#include "annotator/profile/profile_reader.h"

namespace whence::profile {

extern const ProfileReader openvino_model_reader;

}  // namespace whence::profile
