// Names of devices, and the execution providers for them.
#include <gtest/gtest.h>

#include "annotator/placement/device.h"
#include "tests/schema/expect_error.h"

namespace whence {

using placement::device_named;
using placement::Served;
using placement::serves;

namespace {

TEST(Device, AcceptsNamesOfOnnxRuntime) {
  for (const char* const device : {"cpu", "gpu", "cuda", "npu", "accelerator", "gpu:nvidia", "gpu:0", "gpu:12",
                                   "QNNExecutionProvider", "MyOwnExecutionProvider", "MyExecutionProvider.AUTO"}) {
    EXPECT_EQ(device_named(device), device);
  }
  EXPECT_EQ(device_named("provider:Mine"), "Mine");
  for (const char* const device :
       {"", "gpus", "gpu:", "gpu:ati", "gpu:1a", "CPU", "ExecutionProvider", "A(B)ExecutionProvider",
        "A;BExecutionProvider", "QNNExecutionProvider ", "provider:", "provider:A(B)"}) {
    expect_error(Code::usage, [&] { device_named(device); });
  }
  EXPECT_NE(expect_error(Code::usage, [] { device_named("cud"); }).find("did you mean cuda"), std::string::npos);
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
  for (const auto& [provider, device] : served)
    EXPECT_EQ(serves(provider, {}, device), Served::yes) << provider << " " << device;
  const std::pair<const char*, const char*> not_served[] = {
      {"CPUExecutionProvider", "gpu"},   {"CPUExecutionProvider", "accelerator"},
      {"CPUExecutionProvider", "fpga"},  {"CUDAExecutionProvider", "gpu:amd"},
      {"CUDAExecutionProvider", "cpu"},  {"TensorrtExecutionProvider", "cuda"},
      {"CPUExecutionProvider", "gpu:3"}, {"AnyExecutionProvider", "OtherExecutionProvider"}};
  for (const auto& [provider, device] : not_served)
    EXPECT_EQ(serves(provider, {}, device), Served::no) << provider << " " << device;
  EXPECT_EQ(serves("AnyExecutionProvider", {}, "npu"), Served::unknown);
  EXPECT_EQ(serves("AnyExecutionProvider", {{"NPU", "Intel"}}, "npu"), Served::yes);
  EXPECT_EQ(serves("AnyExecutionProvider", {{"GPU", "Intel"}}, "gpu:amd"), Served::no);
  EXPECT_EQ(serves("OpenVINOExecutionProvider", {{"GPU", "Intel"}}, "cpu"), Served::no);
}

}  // namespace
}  // namespace whence
