#include "annotator/view/attribute_text.h"

#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <vector>

#include "annotator/onnx_file/onnx_fields.h"
#include "annotator/onnx_file/wire_in.h"

namespace whence::view {

namespace wire = onnx_file::wire;
namespace fields = onnx_file::proto::attribute;

namespace {

struct Extent {
  std::size_t items, characters;
};
constexpr Extent shown{32, 200}, everything{static_cast<std::size_t>(-1), static_cast<std::size_t>(-1)};

// Returns the shortest text that parses as the same number.
std::string number_text(float number) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  return {digits.data(), end};
}

std::string short_text(std::string_view text, const Extent& extent) {
  if (text.size() <= extent.characters) return std::string(text);
  return std::string(text.substr(0, extent.characters)) + "...";
}

std::string float_of(std::uint64_t bits) { return number_text(std::bit_cast<float>(static_cast<std::uint32_t>(bits))); }
std::string int_of(std::uint64_t bits) { return std::to_string(static_cast<std::int64_t>(bits)); }

// A file stores repeated numbers one by one or packed.
void add_numbers(const wire::Field& field, const Place& place, std::vector<std::string>& items) {
  const bool floats = field.number == fields::floats;
  if (field.type != wire::WireType::bytes) {
    items.push_back(floats ? float_of(field.value) : int_of(field.value));
    return;
  }
  if (floats) {
    for (std::size_t i = 0; i + 4 <= field.bytes.size(); i += 4) {
      std::uint32_t bits = 0;
      for (std::size_t byte = 0; byte < 4; ++byte) {
        bits |= static_cast<std::uint32_t>(static_cast<unsigned char>(field.bytes[i + byte])) << (8 * byte);
      }
      items.push_back(float_of(bits));
    }
    return;
  }
  wire::FieldReader numbers(field.bytes, place);
  while (!numbers.done()) items.push_back(int_of(numbers.varint()));
}

std::string list_text(const std::vector<std::string>& items, const Extent& extent) {
  std::string text = "[";
  for (std::size_t i = 0; i < items.size() && i < extent.items; ++i) text += (i == 0 ? "" : ", ") + items[i];
  if (items.size() > extent.items) text += ", ... " + std::to_string(items.size()) + " in all";
  return text + "]";
}

std::string text_of(const onnx_file::OnnxAttribute& attribute, const Place& place, const Extent& extent) {
  if (!attribute.reference.empty()) return "@" + std::string(attribute.reference);
  std::vector<std::string> items;
  for (const wire::Field& field : wire::Fields(attribute.message, place)) {
    switch (field.number) {
      case fields::f:
        return float_of(field.value);
      case fields::i:
        return int_of(field.value);
      case fields::s:
        return short_text(field.bytes, extent);
      case fields::t:
      case fields::sparse_tensor:
        return "tensor";
      case fields::g:
        return "graph";
      case fields::floats:
      case fields::ints:
        add_numbers(field, place, items);
        break;
      case fields::strings:
        items.push_back(short_text(field.bytes, extent));
        break;
      case fields::tensors:
      case fields::sparse_tensors:
        items.emplace_back("tensor");
        break;
      case fields::graphs:
        items.emplace_back("graph");
        break;
      default:
        break;
    }
  }
  return list_text(items, extent);
}

}  // namespace

std::string attribute_text(const onnx_file::OnnxAttribute& attribute, const Place& place) {
  return text_of(attribute, place, shown);
}

std::string whole_attribute_text(const onnx_file::OnnxAttribute& attribute, const Place& place) {
  return text_of(attribute, place, everything);
}

}  // namespace whence::view
