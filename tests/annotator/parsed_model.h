// Parses small ONNX models from ONNX's text format, and reads them like files.
#pragma once

#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>

#include "annotator/onnx_file/onnx_summary.h"
#include "tests/schema/temporary_folder.h"

namespace whence {

inline onnx::ModelProto parse_model(const std::string& text) {
  onnx::ModelProto model;
  onnx::OnnxParser parser(text.c_str());
  const auto status = parser.Parse(model);
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return model;
}

inline onnx_file::OnnxSummary summary_of(const onnx::ModelProto& model, const TemporaryFolder& folder) {
  const std::string path = folder / "match.onnx";
  std::ofstream(path, std::ios::binary) << model.SerializeAsString();
  auto summary = onnx_file::read_onnx_summary(path);
  EXPECT_TRUE(summary);
  return std::move(*summary);
}

}  // namespace whence
