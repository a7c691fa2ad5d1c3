#include "annotator/pt2/argument_text.h"

#include <algorithm>

#include "annotator/origin/python_text.h"
#include "annotator/pt2/tensors.h"
#include "schema/dtype.h"

namespace whence::pt2 {

namespace {

// Removes the control characters by which PyTorch's writer marks some strings.
std::string without_marks(std::string_view text) {
  std::string plain(text);
  std::erase_if(plain, [](char c) { return c == '\x01' || c == '\x02'; });
  return plain;
}

template <class Format>
std::string list_text(const Part& list, Format format) {
  std::string items;
  for (std::size_t i = 0; i < list.size(); ++i) items += (i == 0 ? "" : ", ") + format(list[i]);
  return "[" + items + "]";
}

std::string device_text(const Part& device) {
  std::string text = without_marks(device.at("type").view());
  if (const Part index = device.at("index"); !index.is_null()) text += ":" + std::to_string(index.integer());
  return text;
}

std::string complex_text(double real, double imaginary) {
  const auto short_float = [](double number) {  // 2j, not 2.0j
    std::string text = origin::python_float(number);
    return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
  };
  if (real == 0) return short_float(imaginary) + "j";
  return "(" + short_float(real) + (imaginary < 0 ? "" : "+") + short_float(imaginary) + "j)";
}

std::string plain_text(const Part& part) { return without_marks(part.view()); }

}  // namespace

std::string argument_text(const Part& argument, const std::function<std::string(const Part& value)>& name_of) {
  const auto [kind, content] = argument.alternative();
  const auto integer = [](const Part& part) { return std::to_string(part.integer()); };
  const auto real = [](const Part& part) { return origin::python_float(part.number()); };
  const auto flag = [](const Part& part) { return std::string(part.flag() ? "True" : "False"); };
  const auto nested = [&](const Part& part) { return argument_text(part, name_of); };
  const auto named = [&](const Part& part) { return name_of(part.at("name")); };
  if (kind == "as_name") return name_of(content);
  if (kind == "as_none") return "None";
  if (kind == "as_tensor" || kind == "as_graph" || kind == "as_custom_obj") return named(content);
  if (kind == "as_tensors") return list_text(content, named);
  if (kind == "as_int") return integer(content);
  if (kind == "as_float") return real(content);
  if (kind == "as_bool") return flag(content);
  if (kind == "as_string") return plain_text(content);
  if (kind == "as_operator")
    return plain_text(content).substr(std::min(content.view().find('.', 6) + 1, content.view().size()));
  if (kind == "as_ints") return list_text(content, integer);
  if (kind == "as_floats") return list_text(content, real);
  if (kind == "as_bools") return list_text(content, flag);
  if (kind == "as_strings") return list_text(content, plain_text);
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool" || kind == "as_optional_tensor") {
    return nested(content);
  }
  if (kind == "as_sym_ints" || kind == "as_sym_floats" || kind == "as_sym_bools" || kind == "as_optional_tensors") {
    return list_text(content, nested);
  }
  if (kind == "as_int_lists") return list_text(content, [&](const Part& part) { return list_text(part, integer); });
  if (kind == "as_float_lists") return list_text(content, [&](const Part& part) { return list_text(part, real); });
  if (kind == "as_nested_tensors") return list_text(content, [&](const Part& part) { return list_text(part, named); });
  if (kind == "as_device") return device_text(content);
  if (kind == "as_scalar_type") return "torch." + std::string(whence::name_of(exported_dtype(content.integer())));
  if (kind == "as_layout") return "torch." + exported_layout(content.integer());
  if (kind == "as_memory_format") return "torch." + exported_memory_format(content.integer());
  if (kind == "as_complex") return complex_text(content.at("real").number(), content.at("imag").number());
  return without_marks(kind);  // other kinds are not supported: the reader of operations reports them
}

}  // namespace whence::pt2
