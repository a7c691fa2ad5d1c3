// TextPool: stores texts contiguously. The names of a file are copied into a pool, so that reading them touches no
// pages of the file, which has ten times as many bytes between the names.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

namespace whence::onnx_file {

class TextPool {
 public:
  // Returns a copy that lives as long as the pool.
  std::string_view keep(std::string_view text) {
    if (text.size() > rest_) {
      rest_ = std::max(block_size, text.size());
      blocks_.push_back(std::make_unique_for_overwrite<char[]>(rest_));
      end_ = blocks_.back().get();
    }
    char* const begin = end_;
    std::copy(text.begin(), text.end(), begin);
    end_ += text.size();
    rest_ -= text.size();
    return {begin, text.size()};
  }

 private:
  static constexpr std::size_t block_size = std::size_t{1} << 16;

  std::vector<std::unique_ptr<char[]>> blocks_;
  char* end_ = nullptr;
  std::size_t rest_ = 0;
};

}  // namespace whence::onnx_file
