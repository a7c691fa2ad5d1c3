// Writes strings, floating-point numbers and operator arguments of a sidecar.
#include "schema/sidecar/row_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "schema/printable.h"
#include "schema/result.h"

namespace whence {

using nlohmann::ordered_json;

std::string json_string(std::string_view text) {
  const auto plain = [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; };
  if (std::all_of(text.begin(), text.end(), plain)) return '"' + std::string(text) + '"';  // nearly every name
  if (!is_utf8(text)) {
    throw Error(Code::unsupported_feature,
                "a name in the model is not UTF-8: " +
                    ordered_json(text).dump(-1, ' ', true, ordered_json::error_handler_t::replace),
                "rename it in the model", {.stage = "write"});
  }
  return ordered_json(text).dump();
}

void RowWriter::floating(double value) {
  if (value != value) return word("nan");
  if (value - value != 0) return word(value > 0 ? "inf" : "-inf");
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  std::string text(digits.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";  // also keeps the sign of -0.0
  raw(text);
}
void RowWriter::argument(const Argument& argument) {
  struct Visitor {
    RowWriter& row;
    void operator()(None) { row.raw("null"); }
    void operator()(ValueRef value) {
      row.marked("value", [&] { row.integer(value.id); });
    }
    void operator()(std::int64_t value) { row.integer(value); }
    void operator()(double value) {
      row.marked("float", [&] { row.floating(value); });
    }
    void operator()(bool value) { row.flag(value); }
    void operator()(const std::string& value) {
      row.marked("string", [&] { row.text(value); });
    }
    void operator()(DType value) {
      row.marked("dtype", [&] { row.word(name_of(value)); });
    }
    void operator()(const Keyword& value) {
      row.marked("keyword", [&] { row.text(value.name); });
    }
    void operator()(const ComplexNumber& value) {
      row.marked("complex",
                 [&] { row.list(std::array{value.real, value.imag}, [&](double part) { row.floating(part); }); });
    }
    void operator()(const ArgumentList& value) {
      row.list(value, [&](const Argument& element) { row.argument(element); });
    }
  };
  std::visit(Visitor{*this}, argument.data);
}

}  // namespace whence
