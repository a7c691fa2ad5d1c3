// FilePieces: a file in the making, as spans of the file that it is made from and new bytes between them. Heads of
// messages are settled last, since the length of what they hold stands before it.
//
// Memory: the new bytes, and 24 bytes for each change between the two kinds; spans stay in the mapped file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "schema/files/files.h"

namespace whence::onnx_file {

class FilePieces {
 public:
  explicit FilePieces(std::shared_ptr<MappedFile> file) : file_(std::move(file)) {}

  void copy(std::string_view span);  // bytes that stay as they are in the mapped file
  void put(std::string_view text);   // new bytes
  // Opens a message that holds everything up to end(). `unchanged`: its field in the mapped file if that is what it is
  // written as when nothing in it changes; empty otherwise.
  void begin(std::uint32_t field, std::string_view unchanged);
  void end();

  std::uint64_t size() const { return size_; }
  void write(AtomicFile& to) const;  // every message must have ended

 private:
  struct Piece {
    const char* start = nullptr;  // null: the head of a message
    std::uint64_t size = 0;       // if it is a head, the length of its message
    std::uint32_t field = 0;
  };
  struct Message {
    std::size_t piece = 0;
    std::uint64_t start = 0;
    std::string_view unchanged;
  };

  void add(std::string_view piece);
  bool ends_at(const Piece& piece, const char* next) const;
  bool is_of_file(const char* start) const;

  std::shared_ptr<MappedFile> file_;
  std::vector<Piece> pieces_;
  std::vector<std::string> added_;  // blocks that never move
  std::vector<Message> open_;
  std::uint64_t size_ = 0;
};

}  // namespace whence::onnx_file
