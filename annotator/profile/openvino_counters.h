// Reads the counters of OpenVINO's benchmark_app -report_type detailed_counters, milliseconds of an average inference:
//
//   layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)
//   /encoder/layer.0/attention/self/key/MatMul;Status.EXECUTED;FullyConnected;brgemm_avx512_bf16;0.009;0.009
//   Total;;;;2.794;2.794
//
// A layer has only the name of the last node that was fused into it; the runtime model lists all names
// (openvino_runtime_model.h).
#pragma once

#include "annotator/profile/profile_reader.h"

namespace whence::profile {

extern const ProfileReader openvino_counters_reader;

}  // namespace whence::profile
