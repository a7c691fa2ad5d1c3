#include "recorder/archive/pickle_check.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace whence::recorder::archive {
namespace {

// The opcodes that torch/csrc/jit/serialization/unpickler.cpp reads, with their codes from Python's pickletools.
enum Opcode : char {
  proto = '\x80',
  stop = '.',
  mark = '(',
  empty_list = ']',
  empty_tuple = ')',
  empty_dict = '}',
  binput = 'q',
  long_binput = 'r',
  binget = 'h',
  long_binget = 'j',
  newtrue = '\x88',
  newfalse = '\x89',
  none = 'N',
  binint1 = 'K',
  binint2 = 'M',
  binint = 'J',
  long1 = '\x8a',
  binunicode = 'X',
  binfloat = 'G',
  tuple = 't',
  tuple1 = '\x85',
  tuple2 = '\x86',
  tuple3 = '\x87',
  append = 'a',
  appends = 'e',
  list = 'l',
  dict = 'd',
  setitem = 's',
  setitems = 'u',
  global = 'c',
  newobj = '\x81',
  build = 'b',
  reduce = 'R',
  binpersid = 'Q',
};

constexpr std::size_t max_depth = 500;              // nested values; LibTorch visits them recursively
constexpr std::uint64_t max_visited = 100'000'000;  // values inside a value, each counted once per reference
constexpr std::int64_t max_elements = std::int64_t{1} << 40;

struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void require(bool condition, const char* otherwise) {
  if (!condition) throw Fault(otherwise);
}

enum class Kind : std::uint8_t { other, integer, text, global, tuple, list, dict, tensor };

struct Value {
  Kind kind = Kind::other;
  std::int64_t number = 0;                    // an integer, or the number of elements of a tensor's storage
  std::string text;                           // a text, or the name of a global
  std::vector<std::shared_ptr<Value>> items;  // the elements of a tuple
  std::size_t depth = 1;
  std::uint64_t visited = 1;
  bool referenced = false;  // was read from the memo: another value may contain it, so it must not change any more
};
using ValuePtr = std::shared_ptr<Value>;

// Returns the bytes per element, by the name of the storage class; 0 for an unknown class.
std::int64_t element_size(std::string_view storage) {
  using Row = std::pair<std::string_view, std::int64_t>;
  constexpr std::array rows = {
      Row{"ByteStorage", 1},  Row{"CharStorage", 1},     Row{"BoolStorage", 1},         Row{"ShortStorage", 2},
      Row{"HalfStorage", 2},  Row{"BFloat16Storage", 2}, Row{"IntStorage", 4},          Row{"FloatStorage", 4},
      Row{"LongStorage", 8},  Row{"DoubleStorage", 8},   Row{"ComplexFloatStorage", 8}, Row{"ComplexDoubleStorage", 16},
      Row{"QInt8Storage", 1}, Row{"QUInt8Storage", 1},   Row{"QInt32Storage", 4},       Row{"ComplexHalfStorage", 4},
  };
  const auto* row = std::ranges::find(rows, storage, &Row::first);
  return row == rows.end() ? 0 : row->second;
}

class Check {
 public:
  Check(std::string_view pickle, const RecordSize& record_size) : rest_(pickle), record_size_(record_size) {}

  void run() {
    require(code() == proto && number<std::uint8_t>() == 2, "it is not a pickle of protocol 2");
    while (step(code())) {
    }
    require(stack_.size() == 1, "it does not leave exactly one value");
  }

 private:
  bool step(char opcode);
  bool step_plain(char opcode);
  bool step_container(char opcode);
  bool step_call(char opcode);

  std::string_view bytes(std::size_t size) {
    require(size <= rest_.size(), "it ends in the middle of a value");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  char code() { return bytes(1).front(); }
  template <typename Number>
  Number number() {
    Number value;
    std::memcpy(&value, bytes(sizeof value).data(), sizeof value);
    return value;
  }
  std::string line() {
    const std::size_t end = rest_.find('\n');
    require(end != std::string_view::npos, "a name has no end");
    std::string name(bytes(end));
    bytes(1);
    return name;
  }

  void push(ValuePtr value) { stack_.push_back(std::move(value)); }
  void push(Kind kind, std::int64_t number = 0, std::string text = {}) {
    auto value = std::make_shared<Value>();
    value->kind = kind;
    value->number = number;
    value->text = std::move(text);
    push(std::move(value));
  }
  ValuePtr pop() {
    require(stack_.size() > marks_floor(), "it takes a value from an empty stack");
    ValuePtr value = std::move(stack_.back());
    stack_.pop_back();
    return value;
  }
  std::size_t marks_floor() const { return marks_.empty() ? 0 : marks_.back(); }
  std::vector<ValuePtr> pop_to_mark() {
    require(!marks_.empty(), "it ends a list that it did not begin");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    marks_.pop_back();
    std::vector<ValuePtr> items(std::make_move_iterator(begin), std::make_move_iterator(stack_.end()));
    stack_.erase(begin, stack_.end());
    return items;
  }
  std::vector<ValuePtr> pop(std::size_t count) {
    std::vector<ValuePtr> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }

  void memoize(std::size_t index) {
    require(stack_.size() > marks_floor(), "it puts a value that does not exist into the memo");
    require(index <= memo_.size(), "it skips an index of the memo");
    if (index == memo_.size()) memo_.emplace_back();
    memo_[index] = stack_.back();
  }
  void push_memo(std::size_t index) {
    require(index < memo_.size(), "it reads an index that the memo does not have");
    memo_[index]->referenced = true;
    push(memo_[index]);
  }

  // Adds the depth and number of `items` to `holder`.
  static void count_items(Value& holder, const std::vector<ValuePtr>& items) {
    for (const ValuePtr& item : items) {
      holder.depth = std::max(holder.depth, item->depth + 1);
      holder.visited += item->visited;
      require(holder.depth <= max_depth, "its values are nested too deeply");
      require(holder.visited <= max_visited, "its values refer to each other too often");
    }
  }
  void make(Kind kind, std::vector<ValuePtr> items) {
    push(kind);
    count_items(*stack_.back(), items);
    if (kind == Kind::tuple) stack_.back()->items = std::move(items);
  }
  void add(Kind kind, const std::vector<ValuePtr>& items) {
    require(stack_.size() > marks_floor() && stack_.back()->kind == kind,
            "it adds to a value that is neither a list nor a dict");
    require(!stack_.back()->referenced, "it adds to a value that another value may already contain");
    require(kind != Kind::dict || items.size() % 2 == 0, "a key has no value");
    count_items(*stack_.back(), items);
  }

  void read_storage(const Value& id);
  void call(const Value& function, const Value& arguments);
  void check_tensor(const Value& arguments) const;

  std::string_view rest_;
  const RecordSize& record_size_;
  std::vector<ValuePtr> stack_, memo_;
  std::vector<std::size_t> marks_;
};

bool Check::step(char opcode) {
  if (opcode == stop) return false;
  require(step_plain(opcode) || step_container(opcode) || step_call(opcode), "it has an unknown instruction");
  return true;
}

bool Check::step_plain(char opcode) {
  switch (opcode) {
    case newtrue:
    case newfalse:
    case none:
      return push(Kind::other), true;
    case binfloat:
      return bytes(8), push(Kind::other), true;
    case binint1:
      return push(Kind::integer, number<std::uint8_t>()), true;
    case binint2:
      return push(Kind::integer, number<std::uint16_t>()), true;
    case binint:
      return push(Kind::integer, number<std::int32_t>()), true;
    case long1: {
      // Python writes as few bytes as a number needs, LibTorch always writes eight.
      const std::string_view digits = bytes(number<std::uint8_t>());
      require(digits.size() <= sizeof(std::int64_t), "a number is too large");
      std::int64_t value = !digits.empty() && (digits.back() & 0x80) != 0 ? -1 : 0;
      std::memcpy(&value, digits.data(), digits.size());
      return push(Kind::integer, value), true;
    }
    case binunicode:
      return push(Kind::text, 0, std::string(bytes(number<std::uint32_t>()))), true;
    case binput:
      return memoize(number<std::uint8_t>()), true;
    case long_binput:
      return memoize(number<std::uint32_t>()), true;
    case binget:
      return push_memo(number<std::uint8_t>()), true;
    case long_binget:
      return push_memo(number<std::uint32_t>()), true;
    default:
      return false;
  }
}

bool Check::step_container(char opcode) {
  switch (opcode) {
    case mark:
      return marks_.push_back(stack_.size()), true;
    case empty_tuple:
      return make(Kind::tuple, {}), true;
    case empty_list:
      return make(Kind::list, {}), true;
    case empty_dict:
      return make(Kind::dict, {}), true;
    case tuple:
      return make(Kind::tuple, pop_to_mark()), true;
    case tuple1:
    case tuple2:
    case tuple3:
      return make(Kind::tuple, pop(static_cast<std::size_t>(opcode - tuple1 + 1))), true;
    case list:
      return make(Kind::list, pop_to_mark()), true;
    case append:
      return add(Kind::list, pop(1)), true;
    case appends:
      return add(Kind::list, pop_to_mark()), true;
    case dict: {
      const std::vector<ValuePtr> items = pop_to_mark();
      push(Kind::dict);
      return add(Kind::dict, items), true;
    }
    case setitem:
      return add(Kind::dict, pop(2)), true;
    case setitems:
      return add(Kind::dict, pop_to_mark()), true;
    default:
      return false;
  }
}

bool Check::step_call(char opcode) {
  switch (opcode) {
    case global: {
      std::string module = line(), name = line();
      return push(Kind::global, 0, module + "." + name), true;
    }
    case newobj: {
      require(pop()->kind == Kind::tuple, "the arguments of an object are not a tuple");
      require(stack_.size() > marks_floor() && stack_.back()->kind == Kind::global, "an object has no class");
      return true;
    }
    case build:
    case reduce: {
      const ValuePtr arguments = pop(), function = pop();
      require(function->kind == Kind::global, "it calls a value that is not a function");
      return call(*function, *arguments), true;
    }
    case binpersid:
      return read_storage(*pop()), true;
    default:
      return false;
  }
}

// Reads the description of a storage: ("storage", class, key, device, number of elements).
void Check::read_storage(const Value& id) {
  const std::vector<ValuePtr>& items = id.items;
  require(items.size() >= 5 && items[0]->kind == Kind::text && items[0]->text == "storage" &&
              items[1]->kind == Kind::global && items[2]->kind == Kind::text && items[3]->kind == Kind::text &&
              items[4]->kind == Kind::integer,
          "the description of a storage is malformed");
  const std::int64_t elements = items[4]->number;
  const std::string& type = items[1]->text;
  const std::int64_t size = element_size(std::string_view(type).substr(type.rfind('.') + 1));
  require(elements >= 0 && elements <= max_elements, "a storage has an impossible size");
  const auto record = record_size_(items[2]->text);
  if (record && size > 0) {
    require(static_cast<std::uint64_t>(elements * size) <= *record, "a storage is larger than its record");
  }
  push(Kind::tensor, elements);
}

void Check::call(const Value& function, const Value& arguments) {
  const bool rebuilds_tensor =
      function.text == "torch._utils._rebuild_tensor_v2" || function.text == "torch._utils._rebuild_qtensor";
  if (rebuilds_tensor) check_tensor(arguments);
  const bool makes_list = function.text.starts_with("torch.jit._pickle.");
  push(rebuilds_tensor ? Kind::tensor : makes_list ? Kind::list : Kind::other);
  stack_.back()->depth = arguments.depth;
  stack_.back()->visited = arguments.visited;
  stack_.back()->referenced = makes_list;
}

// Checks that all elements of a tensor (storage, offset, sizes, strides, ...) are inside its storage.
void Check::check_tensor(const Value& arguments) const {
  constexpr const char* what = "a tensor reaches beyond its storage";
  const std::vector<ValuePtr>& items = arguments.items;
  require(items.size() >= 4 && items[0]->kind == Kind::tensor && items[1]->kind == Kind::integer &&
              items[2]->kind == Kind::tuple && items[3]->kind == Kind::tuple,
          "the description of a tensor is malformed");
  const std::vector<ValuePtr>&sizes = items[2]->items, &strides = items[3]->items;
  require(sizes.size() == strides.size(), "the strides and sizes of a tensor differ in number");
  std::int64_t elements = 1, last = items[1]->number;
  require(last >= 0 && last <= max_elements, what);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    require(sizes[i]->kind == Kind::integer && strides[i]->kind == Kind::integer, "a tensor's size is not a number");
    const std::int64_t size = sizes[i]->number, stride = strides[i]->number;
    require(size >= 0 && stride >= 0 && size <= max_elements && stride <= max_elements, what);
    if (size == 0) return;
    require(elements <= max_elements / size, "a tensor has an impossible number of elements");
    elements *= size;
    require(size == 1 || stride <= (max_elements - last) / (size - 1), what);
    last += (size - 1) * stride;
  }
  require(last < std::max<std::int64_t>(items[0]->number, 1) || items[0]->number == 0, what);
}

}  // namespace

std::string first_pickle_fault(std::string_view pickle, const RecordSize& record_size) try {
  Check(pickle, record_size).run();
  return "";
} catch (const Fault& fault) {
  return fault.what();
}

}  // namespace whence::recorder::archive
