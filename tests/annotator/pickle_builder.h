// Builds pickles of protocol 2 for tests. Source of the opcodes: Python's pickletools.
//   pickle(dict({{"w", tensor_call("0", "FloatStorage", 0, {2, 3}, {3, 1})}}))
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace whence::pickles {

using std::string_literals::operator""s;

inline std::string text(const std::string& content) {
  return "X" + std::string{static_cast<char>(content.size()), 0, 0, 0} + content;
}
inline std::string small(int number) { return "K" + std::string(1, static_cast<char>(number)); }
inline std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}

inline std::string tuple(const std::vector<std::string>& items) {
  std::string pickled = "(";
  for (const std::string& item : items) pickled += item;
  return pickled + "t";
}
inline std::string numbers(const std::vector<int>& items) {
  std::vector<std::string> pickled;
  for (const int item : items) pickled.push_back(small(item));
  return tuple(pickled);
}
using Entries = std::vector<std::pair<std::string, std::string>>;
inline std::string dict(const Entries& entries) {
  std::string pickled = "}(";
  for (const auto& [key, value] : entries) pickled += text(key) + value;
  return pickled + "u";
}
inline std::string call(const std::string& function, const std::string& arguments) {
  return function + arguments + "R";
}

// Returns a tensor in the form that torch.save writes.
inline std::string tensor_call(const std::string& storage, const std::string& storage_class, int offset,
                               const std::vector<int>& sizes, const std::vector<int>& strides) {
  const std::string id =
      tuple({text("storage"), global("torch", storage_class), text(storage), text("cpu"), small(6)}) + "Q";
  const std::string hooks = call(global("collections", "OrderedDict"), ")");
  return call(global("torch._utils", "_rebuild_tensor_v2"),
              tuple({id, small(offset), numbers(sizes), numbers(strides), "\x89", hooks}));
}

inline std::string pickle(const std::string& value) { return "\x80\x02" + value + "."; }

}  // namespace whence::pickles
