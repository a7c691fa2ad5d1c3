// A test fixture with the stamped file (stamped_model.h) and its summary.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "annotator/onnx_file/onnx_summary.h"
#include "tests/annotator/stamped_model.h"
#include "tests/schema/temporary_folder.h"

namespace whence {

class StampedFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_stamped_file(path);
    auto summary = onnx_file::read_onnx_summary(path);
    ASSERT_TRUE(summary);
    model = std::move(*summary);
  }

  const TemporaryFolder folder;
  const std::string path = folder / "stamped.onnx";
  const Sidecar sidecar = stamped_sidecar();
  onnx_file::OnnxSummary model;
};

}  // namespace whence
