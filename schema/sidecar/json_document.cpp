// Fills a document from the events of nlohmann's parser.
#include "schema/sidecar/json_document.h"

#include <bit>

#include "schema/flat_map.h"

namespace whence {

class JsonDocument::Handler {
  using Type = Json::value_t;

 public:
  explicit Handler(JsonDocument& document) : document_(document) {}

  bool null() { return add(Type::null); }
  bool boolean(bool value) { return add(Type::boolean, value ? 1 : 0); }
  bool number_integer(std::int64_t value) { return add(Type::number_integer, static_cast<std::uint64_t>(value)); }
  bool number_unsigned(std::uint64_t value) { return add(Type::number_unsigned, value); }
  bool number_float(double value, const std::string& /*digits*/) {
    return add(Type::number_float, std::bit_cast<std::uint64_t>(value));
  }
  bool string(const std::string& value) {
    const bool added = add(Type::string, document_.texts_.size(), value.size());
    document_.texts_ += value;
    return added;
  }
  bool binary(const Json::binary_t& /*value*/) { return false; }  // JSON has none
  bool key(const std::string& value) { return string(value); }
  bool start_object(std::size_t /*size*/) { return start(); }
  bool start_array(std::size_t /*size*/) { return start(); }
  bool end_array() { return end(Type::array, open_.size() - starts_.back()); }
  bool end_object() {
    keep_last_of_equal_keys();
    return end(Type::object, (open_.size() - starts_.back()) / 2);
  }

  template <class Exception>
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/, const Exception& error) {
    throw Exception(error);
  }

  JsonItem root() const { return open_.front(); }

 private:
  bool add(Type type, std::uint64_t content = 0, std::size_t count = 0) {
    open_.push_back({type, static_cast<std::uint32_t>(count), content});
    return true;
  }

  bool start() {
    starts_.push_back(open_.size());
    return true;
  }

  bool end(Type type, std::size_t count) {
    const auto first = open_.begin() + static_cast<std::ptrdiff_t>(starts_.back());
    const std::size_t place = document_.items_.size();
    document_.items_.insert(document_.items_.end(), first, open_.end());
    open_.erase(first, open_.end());
    starts_.pop_back();
    return add(type, place, count);
  }

  void keep_last_of_equal_keys() {
    const std::size_t start = starts_.back();
    if (open_.size() - start <= 2) return;
    FlatMap<std::string_view, std::size_t> places;
    std::size_t end = start;
    for (std::size_t at = start; at < open_.size(); at += 2) {
      const std::string_view key(document_.texts_.data() + open_[at].content, open_[at].count);
      const auto [entry, first] = places.emplace(key, end);
      open_[entry->second] = open_[at];
      open_[entry->second + 1] = open_[at + 1];
      if (first) end += 2;
    }
    open_.resize(end);
  }

  JsonDocument& document_;
  std::vector<JsonItem> open_;       // values of arrays and objects that have not ended, keys before their values
  std::vector<std::size_t> starts_;  // their first ones
};

JsonDocument::JsonDocument(std::string_view text) {
  constexpr std::size_t bytes_of_a_value = 8;  // more in most files
  texts_.reserve(text.size() / 2);
  items_.reserve(text.size() / bytes_of_a_value);
  Handler handler(*this);
  Json::sax_parse(text, &handler);
  root_ = handler.root();
}

double JsonValue::floating() const {
  if (is_unsigned()) return static_cast<double>(unsigned_integer());
  return is_integer() ? static_cast<double>(integer()) : std::bit_cast<double>(item_->content);
}

std::string_view JsonValue::text() const { return {document_->texts_.data() + item_->content, item_->count}; }

JsonValue JsonValue::operator[](std::size_t i) const { return {*document_, document_->items_[item_->content + i]}; }

std::string_view JsonValue::key(std::size_t i) const {
  return JsonValue(*document_, document_->items_[item_->content + 2 * i]).text();
}

JsonValue JsonValue::member(std::size_t i) const { return {*document_, document_->items_[item_->content + 2 * i + 1]}; }

std::optional<JsonValue> JsonValue::find(std::string_view name) const {
  for (std::size_t i = 0; is_object() && i < size(); ++i) {
    if (key(i) == name) return member(i);
  }
  return std::nullopt;
}

Json JsonValue::to_json() const {
  switch (type()) {
    case Json::value_t::boolean:
      return flag();
    case Json::value_t::number_integer:
      return integer();
    case Json::value_t::number_unsigned:
      return unsigned_integer();
    case Json::value_t::number_float:
      return floating();
    case Json::value_t::string:
      return std::string(text());
    case Json::value_t::array: {
      Json array = Json::array();
      for (std::size_t i = 0; i < size(); ++i) array.push_back((*this)[i].to_json());
      return array;
    }
    case Json::value_t::object: {
      Json object = Json::object();
      for (std::size_t i = 0; i < size(); ++i) object[std::string(key(i))] = member(i).to_json();
      return object;
    }
    default:
      return nullptr;
  }
}

}  // namespace whence
