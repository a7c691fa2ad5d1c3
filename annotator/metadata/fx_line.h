// FxLine: builds the one-line text of an operation that torch.fx prints and PyTorch's exporter stores as metadata.
//
//   %linear : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = (%x, %w), kwargs = {})
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace whence::metadata {

class FxLine {
 public:
  void positional(std::string_view value);
  void keyword(std::string_view name, std::string_view value);
  // `target`: as torch.fx prints it, torch.ops.aten.linear.default.
  std::string text(std::string_view name, int users, std::string_view target) const;

 private:
  std::string positional_, keywords_;
  std::size_t count_ = 0;  // of positional arguments
};

}  // namespace whence::metadata
