// Shape functions for matrix products, attention, einsum, recurrent layers and Fourier transforms.
#include <algorithm>
#include <cctype>
#include <map>

#include "schema/shapes/shape_call.h"

namespace whence::shapes {

namespace {

Shape matrix_product(Shape a, Shape b) {
  if (a.empty() || b.empty()) throw NoShape();
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) b.push_back(1);
  Shape result = broadcast(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  if (!row) result.push_back(a[a.size() - 2]);
  if (!column) result.push_back(b.back());
  return result;
}

Shapes matmul(const ShapeCall& call) {
  const Shapes both = call.all_tensors();
  if (both.size() != 2) throw NoShape();
  return {matrix_product(both[0], both[1])};
}

Shapes addmm(const ShapeCall& call) { return {matrix_product(call.tensor("mat1"), call.tensor("mat2"))}; }
Shapes baddbmm(const ShapeCall& call) { return {matrix_product(call.tensor("batch1"), call.tensor("batch2"))}; }
Shapes addmv(const ShapeCall& call) { return {matrix_product(call.tensor("mat"), call.tensor("vec"))}; }

Shapes addbmm(const ShapeCall& call) {
  Shape product = matrix_product(call.tensor("batch1"), call.tensor("batch2"));
  if (product.size() != 3) throw NoShape();
  product.erase(product.begin());
  return {product};
}

Shapes linear(const ShapeCall& call) {
  Shape shape = call.tensor("input");
  const Shape& weight = call.tensor("weight");
  if (shape.empty()) throw NoShape();
  shape.pop_back();
  if (weight.size() == 2) shape.push_back(weight[0]);
  return {shape};
}

Shapes bilinear(const ShapeCall& call) {
  Shape shape = call.tensor("input1");
  if (shape.empty()) throw NoShape();
  shape.back() = call.tensor("weight").at(0);
  return {shape};
}

Shapes outer(const ShapeCall& call) {
  const Shapes both = call.all_tensors();
  return {{both.at(0).at(0), both.at(1).at(0)}};
}

Shapes attention(const ShapeCall& call) {
  const Shape &query = call.tensor("query"), &key = call.tensor("key"), &value = call.tensor("value");
  if (std::min({query.size(), key.size(), value.size()}) < 2) throw NoShape();
  const auto outside = [](const Shape& shape) { return Shape(shape.begin(), shape.end() - 2); };
  Shape result = broadcast(outside(query), broadcast(outside(key), outside(value)));
  if (call.flag("enable_gqa", false)) result = outside(query);
  result.insert(result.end(), {query[query.size() - 2], value.back()});
  return {result};
}

// Returns letters for the axes of an ellipsis: digits in descending order, so that the last axis is 0.
std::string digits(std::size_t axes) {
  std::string letters;
  for (std::size_t axis = axes; axis-- > 0;) letters += static_cast<char>('0' + axis);
  return letters;
}

// Replaces each ellipsis of an equation: "...ij,jk->...ik" for operands with 3 and 2 axes becomes "0ij,jk->0ik".
std::string with_digits(std::string text, const Shapes& operands) {
  constexpr std::size_t max_axes = 10;
  const std::string_view ellipsis = "...";
  std::size_t begin = 0, most = 0;
  for (const Shape& shape : operands) {
    const std::size_t end = std::min(text.find_first_of(",-", begin), text.size());
    const std::size_t letters = end - begin, place = text.find(ellipsis, begin);
    std::size_t length = letters;
    if (place < end) {
      if (shape.size() + ellipsis.size() < letters) throw NoShape();
      const std::size_t axes = shape.size() + ellipsis.size() - letters;
      if (axes > max_axes) throw NoShape();
      text.replace(place, ellipsis.size(), digits(axes));
      most = std::max(most, axes);
      length = shape.size();
    }
    begin += length + 1;  // the comma
  }
  const std::size_t arrow = text.find("->"), place = text.find(ellipsis);
  if (arrow == std::string::npos || place == std::string::npos) return text;
  return text.replace(place, ellipsis.size(), digits(most));
}

// "bij,bjk->bik": the length of a letter is that of its axes that are not 1 long.
Shapes einsum(const ShapeCall& call) {
  const auto* equation = call.argument("equation").as<std::string>();
  if (equation == nullptr) throw NoShape();
  std::string text;
  std::ranges::copy_if(*equation, std::back_inserter(text), [](char letter) { return letter != ' '; });
  const Shapes operands = call.tensors("tensors");
  text = with_digits(std::move(text), operands);
  std::map<char, Size> lengths;
  std::map<char, int> times;
  const std::size_t arrow = text.find("->");
  std::size_t at = 0;
  for (const Shape& shape : operands) {
    for (const Size& length : shape) {
      if (at >= text.size() || text[at] == ',' || text[at] == '-') throw NoShape();
      const auto [known, is_new] = lengths.try_emplace(text[at], length);
      if (!is_new && !known->second.integer() && length != Size(1))
        known->second = length.integer() ? length : known->second;
      if (!is_new && known->second == Size(1)) known->second = length;
      ++times[text[at++]];
    }
    ++at;  // the comma
  }
  std::string letters;
  if (arrow != std::string::npos) {
    letters = text.substr(arrow + 2);
  } else {
    for (const auto& [letter, count] : times) {
      if (std::isdigit(static_cast<unsigned char>(letter)) != 0) {
        letters.insert(letters.begin(), letter);
      } else if (count == 1) {
        letters += letter;
      }
    }
  }
  Shape result;
  for (const char letter : letters) result.push_back(lengths.at(letter));
  return {result};
}

// The states keep their shapes. The output has the input's shape, but its last axis is the state size times the number
// of directions.
Shapes recurrent(const ShapeCall& call) {
  const bool packed = call.has("batch_sizes");
  Shape output = packed ? call.tensor("data") : call.tensor("input");
  Shapes states = call.argument("hx").as<ArgumentList>() ? call.tensors("hx") : Shapes{call.tensor("hx")};
  if (output.empty() || states[0].empty()) throw NoShape();
  output.back() = states[0].back() * (call.flag("bidirectional", false) ? 2 : 1);
  states.insert(states.begin(), output);
  return states;
}

Shapes lstm_cell(const ShapeCall& call) { return call.tensors("hx"); }
Shapes recurrent_cell(const ShapeCall& call) { return {call.tensor("hx")}; }

Shapes real_transform(const ShapeCall& call) {
  Shape shape = call.first();
  Size& length = shape[call.axis("dim", shape.size(), -1)];
  length = floor_div(call.integer("n", length), 2) + 1;
  return {shape};
}

Shapes inverse_real_transform(const ShapeCall& call) {
  Shape shape = call.first();
  Size& length = shape[call.axis("dim", shape.size(), -1)];
  length = call.integer("n", (length - 1) * 2);
  return {shape};
}

}  // namespace

const std::vector<Row>& product_rows() {
  static const std::vector<Row> rows = {
      {matmul, "matmul mm bmm mv dot vdot "},
      {addmm, "addmm"},
      {baddbmm, "baddbmm"},
      {addmv, "addmv"},
      {addbmm, "addbmm"},
      {linear, "linear"},
      {bilinear, "bilinear"},
      {outer, "outer "},
      {attention, "scaled_dot_product_attention"},
      {einsum, "einsum"},
      {recurrent, "lstm gru rnn_tanh rnn_relu"},
      {lstm_cell, "lstm_cell"},
      {recurrent_cell, "gru_cell rnn_tanh_cell rnn_relu_cell"},
      {real_transform, "fft_rfft"},
      {inverse_real_transform, "fft_irfft"},
  };
  return rows;
}

}  // namespace whence::shapes
