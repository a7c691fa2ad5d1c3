#include "annotator/checkpoint/pickle.h"

#include <bit>
#include <cstring>
#include <unordered_map>

namespace whence::checkpoint {

using Kind = PickleValue::Kind;

const PickleValue* PickleValue::find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name->kind == Kind::text && name->text == key) return value;
  }
  return nullptr;
}

class PickleReader {
 public:
  PickleReader(std::string_view bytes, const Place& place, std::deque<PickleValue>& values)
      : rest_(bytes), place_(place), values_(values) {}

  const PickleValue* read() {
    while (true) {
      const char code = take(1).front();
      if (code == '.') break;
      if (!atom(code) && !container(code) && !memo(code)) call(code);
    }
    return pop();
  }

 private:
  [[noreturn]] void corrupt(const std::string& why) const {
    throw Error(Code::corrupt_file, "its pickle is damaged: " + why, "get the file again", place_);
  }

  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) corrupt("it ends in the middle of a value");
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }
  template <class Number>
  Number number() {
    Number value;
    const std::string_view bytes = take(sizeof value);
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  std::string line() {
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos) corrupt("a name has no end");
    std::string text(take(end));
    take(1);
    return text;
  }

  PickleValue* push(PickleValue value) {
    constexpr std::size_t max_values = std::size_t{1} << 23;  // a model of 100,000 tensors has about two million
    if (values_.size() == max_values) {
      throw Error(Code::over_limit, "its pickle holds more than " + std::to_string(max_values) + " values",
                  "save only the model's state_dict()", place_);
    }
    stack_.push_back(&values_.emplace_back(std::move(value)));
    return stack_.back();
  }
  void push_integer(std::int64_t value) { push({.kind = Kind::integer, .integer = value}); }
  void push_text(std::string_view text) { push({.kind = Kind::text, .text = std::string(text)}); }
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleValue* top() const {
    if (stack_.size() <= floor()) corrupt("it pops a value from an empty stack");
    return stack_.back();
  }
  PickleValue* pop() {
    PickleValue* value = top();
    stack_.pop_back();
    return value;
  }
  std::vector<const PickleValue*> pop_to_mark() {
    if (marks_.empty()) corrupt("it ends a list that it did not start");
    const std::vector<const PickleValue*> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()),
                                                stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  void push_tuple(std::size_t size) {
    std::vector<const PickleValue*> items(size);
    for (std::size_t i = size; i-- > 0;) items[i] = pop();
    push({.kind = Kind::tuple, .items = std::move(items)});
  }

  // Reads a signed little-endian integer. Returns 0 for more than 64 bits, which cannot be a size.
  std::int64_t long_integer(std::uint64_t size) {
    const std::string_view bytes = take(size);
    if (size > sizeof(std::int64_t)) return 0;
    std::int64_t value = size > 0 && static_cast<signed char>(bytes.back()) < 0 ? -1 : 0;
    std::memcpy(&value, bytes.data(), size);
    return value;
  }

  bool atom(char code);
  bool container(char code);
  bool memo(char code);
  void call(char code);
  void add_items(PickleValue* holder, const std::vector<const PickleValue*>& items);
  void add_entries(PickleValue* holder, const std::vector<const PickleValue*>& items);

  std::string_view rest_;
  const Place& place_;
  std::deque<PickleValue>& values_;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, PickleValue*> memo_;
  std::uint64_t memorised_ = 0;
};

bool PickleReader::atom(char code) {
  switch (code) {
    case '\x80':  // PROTO
      take(1);
      return true;
    case '\x95':  // FRAME
      take(8);
      return true;
    case 'N':
      push({});
      return true;
    case '\x88':
    case '\x89':
      push({.kind = Kind::boolean, .integer = code == '\x88'});
      return true;
    case 'K':
      push_integer(number<std::uint8_t>());
      return true;
    case 'M':
      push_integer(number<std::uint16_t>());
      return true;
    case 'J':
      push_integer(number<std::int32_t>());
      return true;
    case '\x8a':
      push_integer(long_integer(number<std::uint8_t>()));
      return true;
    case '\x8b':
      push_integer(long_integer(number<std::uint32_t>()));
      return true;
    case 'G':
      push({.kind = Kind::number, .number = std::bit_cast<double>(__builtin_bswap64(number<std::uint64_t>()))});
      return true;
    case 'X':
    case 'B':  // bytes
    case 'T':
      push_text(take(number<std::uint32_t>()));
      return true;
    case '\x8c':
    case 'C':
    case 'U':
      push_text(take(number<std::uint8_t>()));
      return true;
    case '\x8d':
    case '\x8e':
    case '\x96':
      push_text(take(number<std::uint64_t>()));
      return true;
    default:
      return false;
  }
}

bool PickleReader::container(char code) {
  switch (code) {
    case '(':
      marks_.push_back(stack_.size());
      return true;
    case ']':
    case '\x8f':  // a set
      push({.kind = Kind::list});
      return true;
    case '}':
      push({.kind = Kind::dict});
      return true;
    case ')':
      push_tuple(0);
      return true;
    case '\x85':
    case '\x86':
    case '\x87':
      push_tuple(static_cast<std::size_t>(code - '\x84'));
      return true;
    case 't':
    case 'l':
    case '\x91': {  // a frozen set
      auto items = pop_to_mark();
      push({.kind = code == 't' ? Kind::tuple : Kind::list, .items = std::move(items)});
      return true;
    }
    case 'd': {
      const auto items = pop_to_mark();
      add_entries(push({.kind = Kind::dict}), items);
      return true;
    }
    case 'a': {
      const PickleValue* item = pop();
      add_items(top(), {item});
      return true;
    }
    case 'e':
    case '\x90': {  // into a set
      const auto items = pop_to_mark();
      add_items(top(), items);
      return true;
    }
    case 's': {
      const PickleValue* value = pop();
      const PickleValue* key = pop();
      add_entries(top(), {key, value});
      return true;
    }
    case 'u': {
      const auto items = pop_to_mark();
      add_entries(top(), items);
      return true;
    }
    default:
      return false;
  }
}

bool PickleReader::memo(char code) {
  const auto fetch = [&](std::uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) corrupt("it refers to a value that was not stored before");
    stack_.push_back(found->second);
  };
  switch (code) {
    case 'q':
      memo_[number<std::uint8_t>()] = top();
      return true;
    case 'r':
      memo_[number<std::uint32_t>()] = top();
      return true;
    case '\x94':  // MEMOIZE
      memo_[memorised_++] = top();
      return true;
    case 'h':
      fetch(number<std::uint8_t>());
      return true;
    case 'j':
      fetch(number<std::uint32_t>());
      return true;
    case '0':
      pop();
      return true;
    case '1':
      pop_to_mark();
      return true;
    case '2':
      stack_.push_back(top());
      return true;
    default:
      return false;
  }
}

// Reads functions, classes, and calls of them.
void PickleReader::call(char code) {
  switch (code) {
    case 'c': {
      std::string module = line();
      push({.kind = Kind::global, .text = std::move(module) + " " + line()});
      return;
    }
    case '\x93': {  // STACK_GLOBAL
      const PickleValue* name = pop();
      const PickleValue* module = pop();
      push({.kind = Kind::global, .text = module->text + " " + name->text});
      return;
    }
    case 'R':
    case '\x81': {  // NEWOBJ
      const PickleValue* arguments = pop();
      const PickleValue* function = pop();
      push({.kind = Kind::call, .items = {function, arguments}});
      return;
    }
    case '\x92': {  // NEWOBJ_EX
      pop();        // keywords
      const PickleValue* arguments = pop();
      const PickleValue* function = pop();
      push({.kind = Kind::call, .items = {function, arguments}});
      return;
    }
    case 'b': {
      const PickleValue* state = pop();
      top()->state = state;
      return;
    }
    case 'Q': {
      const PickleValue* id = pop();
      push({.kind = Kind::persistent, .items = {id}});
      return;
    }
    default:
      break;
  }
  throw Error(
      Code::unsupported_feature,
      "its pickle has opcode " + std::to_string(static_cast<unsigned char>(code)) + ", which torch.save does not write",
      "save the model's state_dict() with torch.save, or as safetensors", place_);
}

void PickleReader::add_items(PickleValue* holder, const std::vector<const PickleValue*>& items) {
  if (!holder->is(Kind::list) && !holder->is(Kind::call)) corrupt("it adds to a value that is not a list");
  holder->items.insert(holder->items.end(), items.begin(), items.end());
}

void PickleReader::add_entries(PickleValue* holder, const std::vector<const PickleValue*>& items) {
  if (!holder->is(Kind::dict) && !holder->is(Kind::call)) corrupt("it adds to a value that is not a dict");
  if (items.size() % 2 != 0) corrupt("a key has no value");
  for (std::size_t i = 0; i < items.size(); i += 2) holder->entries.emplace_back(items[i], items[i + 1]);
}

Pickle::Pickle(std::string_view bytes, const Place& place) { root_ = PickleReader(bytes, place, values_).read(); }

}  // namespace whence::checkpoint
