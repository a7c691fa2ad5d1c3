#include "annotator/onnx_file/file_pieces.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "annotator/onnx_file/wire_out.h"

namespace whence::onnx_file {

// Merges a piece with the previous one if they are adjacent, so that unchanged ranges are copied at once.
void FilePieces::add(std::string_view piece) {
  size_ += piece.size();
  if (!pieces_.empty() && ends_at(pieces_.back(), piece.data())) {
    pieces_.back().size += piece.size();
  } else {
    pieces_.push_back({.start = piece.data(), .size = piece.size()});
  }
}

void FilePieces::copy(std::string_view span) {
  if (!span.empty()) add(span);
}

void FilePieces::put(std::string_view text) {
  constexpr std::size_t block = std::size_t{1} << 20;
  while (!text.empty()) {
    if (added_.empty() || added_.back().size() == block) added_.emplace_back().reserve(block);
    std::string& last = added_.back();
    const std::string_view part = text.substr(0, block - last.size());
    last += part;
    add({last.data() + last.size() - part.size(), part.size()});
    text.remove_prefix(part.size());
  }
}

void FilePieces::put_computed(std::uint64_t size, std::function<Bytes()> make) {
  pieces_.push_back({.size = size, .computed = static_cast<std::int32_t>(computed_.size())});
  computed_.push_back(std::move(make));
  size_ += size;
}

void FilePieces::begin(std::uint32_t field, std::string_view unchanged) {
  open_.push_back({.piece = pieces_.size(), .start = size_, .unchanged = unchanged});
  pieces_.push_back({.field = field});
}

void FilePieces::end() {
  const Message message = open_.back();
  open_.pop_back();
  const std::uint64_t length = size_ - message.start;
  const std::size_t count = pieces_.size() - message.piece - 1;
  const std::string_view same = message.unchanged;
  const bool has_same_content = !same.empty() && count == 1 && pieces_.back().start != nullptr &&
                                pieces_.back().start + length == same.data() + same.size() &&
                                wire::field_head_size(pieces_[message.piece].field, length) + length == same.size();
  if (has_same_content) {
    pieces_.resize(message.piece);
    size_ = message.start;
    add(same);
    return;
  }
  pieces_[message.piece].size = length;
  size_ += wire::field_head_size(pieces_[message.piece].field, length);
}

bool FilePieces::ends_at(const Piece& piece, const char* next) const {
  if (piece.start == nullptr || piece.start + piece.size != next) return false;
  return is_of_file(piece.start) == is_of_file(next);
}

bool FilePieces::is_of_file(const char* start) const {
  const std::string_view text = file_->text();
  return !std::less<>()(start, text.data()) && std::less<>()(start, text.data() + text.size());
}

void FilePieces::write(AtomicFile& to) const {
  std::string head;
  for (const Piece& piece : pieces_) {
    if (piece.computed >= 0) {
      to.write(computed_[static_cast<std::size_t>(piece.computed)]());
    } else if (piece.start == nullptr) {
      head.clear();
      wire::append_field_head(head, piece.field, piece.size);
      to.write(head);
    } else if (is_of_file(piece.start)) {
      to.write(file_->slice(file_, static_cast<std::size_t>(piece.start - file_->text().data()), piece.size));
    } else {
      to.write(std::string_view(piece.start, piece.size));
    }
  }
}

}  // namespace whence::onnx_file
