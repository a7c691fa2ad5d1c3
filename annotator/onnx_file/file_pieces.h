// FilePieces: a new file while it is built, as spans of an existing file with new bytes between them. The head of a
// message (tag and length) is computed when the message ends: the length precedes the content.
//
// Memory: the new bytes, and 24 bytes for each switch between spans and new bytes. Spans stay in the mapped file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "schema/files/files.h"

namespace whence::onnx_file {

class FilePieces {
 public:
  explicit FilePieces(std::shared_ptr<MappedFile> file) : file_(std::move(file)) {}

  void copy(std::string_view span);  // unchanged bytes of the mapped file
  void put(std::string_view text);   // new bytes
  // Appends `size` bytes that are computed when the file is written, so that they need no memory before.
  void put_computed(std::uint64_t size, std::function<Bytes()> make);
  // Begins a message that contains everything up to end(). `unchanged`: the message's field in the mapped file, which
  // is copied if nothing in the message changes; empty to write the message anew.
  void begin(std::uint32_t field, std::string_view unchanged);
  void end();

  std::uint64_t size() const { return size_; }
  void write(AtomicFile& to) const;  // every message must have ended

 private:
  struct Piece {
    const char* start = nullptr;  // null for the head of a message
    std::uint64_t size = 0;       // for a head, the length of its message
    std::uint32_t field = 0;
    std::int32_t computed = -1;  // index into computed_
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
  std::vector<std::string> added_;  // blocks with stable addresses
  std::vector<std::function<Bytes()>> computed_;
  std::vector<Message> open_;
  std::uint64_t size_ = 0;
};

}  // namespace whence::onnx_file
