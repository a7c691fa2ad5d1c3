// Names of devices, and the execution providers for them.
#include <gtest/gtest.h>

#include "annotator/placement/device.h"
#include "tests/schema/expect_error.h"

namespace whence {

using placement::require_device;
using placement::serves;

namespace {

TEST(Device, AcceptsNamesOfOnnxRuntime) {
  for (const char* const device : {"cpu", "gpu", "cuda", "npu", "accelerator", "gpu:nvidia", "gpu:0", "gpu:12",
                                   "QNNExecutionProvider", "MyOwnExecutionProvider"}) {
    EXPECT_NO_THROW(require_device(device)) << device;
  }
  for (const char* const device : {"", "gpus", "gpu:", "gpu:ati", "gpu:1a", "CPU", "ExecutionProvider",
                                   "A(B)ExecutionProvider", "A;BExecutionProvider", "QNNExecutionProvider "}) {
    expect_error(Code::usage, [&] { require_device(device); });
  }
  EXPECT_NE(expect_error(Code::usage, [] { require_device("cud"); }).find("did you mean cuda"), std::string::npos);
}

TEST(Device, HasExecutionProviders) {
  const std::pair<const char*, const char*> served[] = {{"CPUExecutionProvider", "cpu"},
                                                        {"CUDAExecutionProvider", "cuda"},
                                                        {"CUDAExecutionProvider", "gpu"},
                                                        {"CUDAExecutionProvider", "gpu:3"},
                                                        {"ROCMExecutionProvider", "gpu:amd"},
                                                        {"QNNExecutionProvider", "npu"},
                                                        {"QNNExecutionProvider", "accelerator"},
                                                        {"CPUExecutionProvider", "none"},
                                                        {"DmlExecutionProvider", "dml"},
                                                        {"OpenVINOExecutionProvider", "cpu"},
                                                        {"AnyExecutionProvider", "AnyExecutionProvider"}};
  for (const auto& [provider, device] : served) EXPECT_TRUE(serves(provider, device)) << provider << " " << device;
  const std::pair<const char*, const char*> not_served[] = {
      {"CPUExecutionProvider", "gpu"},   {"CPUExecutionProvider", "accelerator"},
      {"CPUExecutionProvider", "fpga"},  {"CUDAExecutionProvider", "gpu:amd"},
      {"CUDAExecutionProvider", "cpu"},  {"TensorrtExecutionProvider", "cuda"},
      {"CPUExecutionProvider", "gpu:3"}, {"AnyExecutionProvider", "OtherExecutionProvider"}};
  for (const auto& [provider, device] : not_served) EXPECT_FALSE(serves(provider, device)) << provider << " " << device;
}

}  // namespace
}  // namespace whence
