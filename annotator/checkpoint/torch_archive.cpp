#include "annotator/checkpoint/torch_archive.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "annotator/checkpoint/pickle.h"
#include "schema/dtype.h"
#include "schema/element_count.h"
#include "schema/files/zip_archive.h"
#include "schema/module_path.h"
#include "schema/printable.h"

namespace whence::checkpoint {
namespace {

using Kind = PickleValue::Kind;

constexpr int max_depth = 200;                // nested modules
constexpr std::size_t max_steps = 4'000'000;  // a pickle may refer to one value very often

DType dtype_of_storage(std::string_view name) {
  using Row = std::pair<std::string_view, DType>;
  static constexpr std::array rows = {
      Row{"torch FloatStorage", DType::float32},     Row{"torch HalfStorage", DType::float16},
      Row{"torch BFloat16Storage", DType::bfloat16}, Row{"torch DoubleStorage", DType::float64},
      Row{"torch LongStorage", DType::int64},        Row{"torch IntStorage", DType::int32},
      Row{"torch ShortStorage", DType::int16},       Row{"torch CharStorage", DType::int8},
      Row{"torch ByteStorage", DType::uint8},        Row{"torch BoolStorage", DType::boolean},
  };
  const auto* row = std::ranges::find(rows, name, &Row::first);
  return row == rows.end() ? DType::undefined : row->second;
}

// Parses "torch float8_e4m3fn", the dtype of a tensor with an untyped storage.
DType dtype_named(const PickleValue& global) {
  constexpr std::string_view module = "torch ";
  if (!global.is(Kind::global) || !global.text.starts_with(module)) return DType::undefined;
  return parse_dtype(std::string_view(global.text).substr(module.size())).value_or(DType::undefined);
}

// The position of a tensor's elements in a storage.
struct Layout {
  std::string storage;
  DType dtype = DType::undefined;
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes, strides;
  auto operator<=>(const Layout&) const = default;

  bool is_contiguous() const {
    std::int64_t expected = 1;
    for (std::size_t i = sizes.size(); i-- > 0;) {
      if (sizes[i] != 1 && strides[i] != expected) return false;
      expected *= sizes[i];
    }
    return true;
  }
};

std::optional<std::vector<std::int64_t>> integers(const PickleValue& list) {
  std::vector<std::int64_t> numbers;
  for (const PickleValue* item : list.items) {
    if (!item->is(Kind::integer) || item->integer < 0) return std::nullopt;
    numbers.push_back(item->integer);
  }
  return numbers;
}

// Returns the layout of a call that makes a tensor; nullopt for other values, and for unknown kinds of tensors.
std::optional<Layout> layout_of(const PickleValue* value) {
  const std::vector<const PickleValue*>* arguments = nullptr;
  bool untyped = false;
  for (int wrapped = 0; wrapped < 4 && value->is(Kind::call) && value->items.size() > 1; ++wrapped) {
    arguments = &value->items[1]->items;
    untyped = value->calls("torch._utils _rebuild_tensor_v3");
    if (untyped || value->calls("torch._utils _rebuild_tensor_v2")) break;
    const bool parameter =
        value->calls("torch._utils _rebuild_parameter") || value->calls("torch._utils _rebuild_parameter_with_state");
    if (!parameter || arguments->empty()) return std::nullopt;
    value = arguments->front();
    arguments = nullptr;
  }
  if (arguments == nullptr || arguments->size() < (untyped ? 7 : 4)) return std::nullopt;
  const PickleValue &storage = *(*arguments)[0], &offset = *(*arguments)[1];
  const auto sizes = integers(*(*arguments)[2]), strides = integers(*(*arguments)[3]);
  if (!storage.is(Kind::persistent) || !offset.is(Kind::integer) || offset.integer < 0 || !sizes || !strides ||
      sizes->size() != strides->size()) {
    return std::nullopt;
  }
  const std::vector<const PickleValue*>& id = storage.items[0]->items;  // ("storage", class, key, device, elements)
  if (id.size() < 3 || !id[1]->is(Kind::global) || !id[2]->is(Kind::text)) return std::nullopt;
  const DType dtype = untyped ? dtype_named(*(*arguments)[6]) : dtype_of_storage(id[1]->text);
  if (dtype == DType::undefined) return std::nullopt;
  return Layout{id[2]->text, dtype, offset.integer, *sizes, *strides};
}

bool is_table(const PickleValue& value) { return value.is(Kind::dict) || value.calls("collections OrderedDict"); }

using Named = std::vector<std::pair<std::string, Layout>>;

class Finder {
 public:
  Named find(const PickleValue& root, std::string& rival) {
    visit(root, "", 0);
    const auto largest = std::ranges::max_element(
        tables_, [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    if (largest == tables_.end()) return {};
    for (auto table = tables_.begin(); table != tables_.end(); ++table) {
      if (table != largest && table->second.size() == largest->second.size()) rival = table->first;
    }
    return std::move(largest->second);
  }

 private:
  // Collects the tensors of a dict, and nested dicts. A module is one table with all tensors below it.
  void visit(const PickleValue& value, const std::string& name, int depth) {
    constexpr int nested = 4;
    if (depth > nested || ++steps_ > max_steps) return;
    Named tensors;
    if (is_table(value)) {
      for (const auto& [key, entry] : value.entries) {
        if (!key->is(Kind::text)) continue;
        if (auto layout = layout_of(entry)) {
          tensors.emplace_back(key->text, std::move(*layout));
        } else {
          visit(*entry, joined_path(name, key->text), depth + 1);
        }
      }
    } else if (value.is(Kind::call) && value.state != nullptr) {
      add_attributes(value, "", 0, tensors);
    }
    if (!tensors.empty()) tables_.emplace_back(name, std::move(tensors));
  }

  void add_attributes(const PickleValue& module, const std::string& path, int depth, Named& tensors) {
    if (depth > max_depth || module.state == nullptr) return;
    for (const auto& [key, value] : module.state->entries) {
      if (++steps_ > max_steps) return;
      if (!key->is(Kind::text)) continue;
      const bool own = key->text == "_parameters" || key->text == "_buffers" || key->text == "_modules";
      if (own && is_table(*value)) {
        for (const auto& [name, each] : value->entries) {
          if (name->is(Kind::text)) add(*each, joined_path(path, name->text), depth, tensors);
        }
      } else if (module.state->find("_modules") == nullptr) {  // a scripted module: all attributes are in its state
        add(*value, joined_path(path, key->text), depth, tensors);
      }
    }
  }

  void add(const PickleValue& value, const std::string& path, int depth, Named& tensors) {
    if (auto layout = layout_of(&value)) {
      tensors.emplace_back(path, std::move(*layout));
    } else if (value.is(Kind::call)) {
      add_attributes(value, path, depth + 1, tensors);
    }
  }

  std::vector<std::pair<std::string, Named>> tables_;
  std::size_t steps_ = 0;
};

class Archive {
 public:
  explicit Archive(const std::string& path) : zip_(path, "PyTorch", ZipArchive::Packing::deflated) {
    constexpr std::string_view file = "data.pkl";
    for (const auto& [name, bytes] : zip_.members()) {
      const bool is_it =
          name.ends_with(file) && (name.size() == file.size() || name[name.size() - file.size() - 1] == '/');
      if (is_it && (pickle_.empty() || name.size() < pickle_.size())) pickle_ = name;
    }
    folder_ = pickle_.substr(0, pickle_.size() - std::min(pickle_.size(), file.size()));
    if (pickle_.empty()) {
      throw Error(Code::wrong_kind, "the zip was not written by torch.save: it has no data.pkl",
                  "pass a file that torch.save wrote, or safetensors", place());
    }
    if (zip_.has(folder_ + "byteorder") && stored(folder_ + "byteorder") == "big") {
      throw Error(Code::unsupported_feature, "its numbers are big-endian", "save it on a little-endian machine",
                  place());
    }
  }

  Place place() const { return {.file = zip_.path(), .stage = "read"}; }
  std::string_view pickle() const { return stored(pickle_); }

  // Returns nullopt for a tensor that repeats its elements.
  std::optional<TensorData> data_of(const Layout& layout) const {
    const std::string member = folder_ + "data/" + layout.storage;
    const std::string_view storage = stored(member);
    const std::uint64_t held = storage.size();
    const auto width = static_cast<std::int64_t>(size_of(layout.dtype));
    const std::int64_t count = element_count(layout.sizes);
    TensorData data{layout.dtype, layout.sizes, {}};
    if (static_cast<std::uint64_t>(count) > held / static_cast<std::uint64_t>(width)) {
      if (layout.is_contiguous()) corrupt(member);
      return std::nullopt;
    }
    if (layout.offset > static_cast<std::int64_t>(held) / width) corrupt(member);
    const auto begin = static_cast<std::uint64_t>(layout.offset * width);
    if (count == 0 || layout.is_contiguous()) {
      data.bytes = zip_.bytes(member, begin, static_cast<std::uint64_t>(count * width));
    } else {
      data.bytes = gathered(storage, layout, count, width);
    }
    return data;
  }

 private:
  // Refuses compressed members. Only the code of torch.jit is compressed, and it is never read here.
  std::string_view stored(const std::string& member) const {
    const auto& entries = zip_.entries();
    const auto entry = std::ranges::find(entries, member, &ZipArchive::Entry::name);
    if (entry != entries.end() && entry->packing != ZipArchive::Packing::stored) {
      throw Error(Code::unsupported_feature, "'" + printable(member) + "' is compressed",
                  "save the file again with PyTorch", place());
    }
    return zip_.text(member);
  }

  [[noreturn]] void corrupt(const std::string& member) const {
    throw Error(Code::corrupt_file, "a tensor exceeds its storage '" + printable(member) + "'", "get the file again",
                place());
  }

  // Copies the elements in row-major order.
  Bytes gathered(std::string_view storage, const Layout& layout, std::int64_t count, std::int64_t width) const {
    std::string bytes;
    bytes.reserve(static_cast<std::size_t>(count * width));
    std::vector<std::int64_t> at(layout.sizes.size(), 0);
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t element = layout.offset;
      for (std::size_t axis = 0; axis < at.size(); ++axis) {
        std::int64_t step = 0;
        if (__builtin_mul_overflow(at[axis], layout.strides[axis], &step) ||
            __builtin_add_overflow(element, step, &element)) {
          corrupt(layout.storage);
        }
      }
      if (element >= static_cast<std::int64_t>(storage.size()) / width) corrupt(layout.storage);
      bytes += storage.substr(static_cast<std::size_t>(element * width), static_cast<std::size_t>(width));
      for (std::size_t axis = at.size(); axis-- > 0;) {
        if (++at[axis] < layout.sizes[axis]) break;
        at[axis] = 0;
      }
    }
    return Bytes::owned(std::move(bytes));
  }

  ZipArchive zip_;
  std::string pickle_, folder_;
};

}  // namespace

std::vector<CheckpointTensor> read_torch_archive(const std::string& path, Diagnostics& notes) {
  const Archive archive(path);
  const Pickle pickle(archive.pickle(), archive.place());
  std::string rival;
  const Named named = Finder().find(pickle.root(), rival);
  if (named.empty()) {
    throw Error(Code::wrong_kind, "the file holds no dict of tensors", "save the model's state_dict() with torch.save",
                archive.place());
  }
  if (!rival.empty()) {
    throw Error(Code::wrong_kind, "the file holds several dicts of tensors, one of them '" + printable(rival) + "'",
                "save only the intended dict", archive.place());
  }
  std::vector<CheckpointTensor> tensors;
  std::map<Layout, std::size_t> known;
  std::size_t repeating = 0;
  for (const auto& [name, layout] : named) {
    const auto [entry, first] = known.try_emplace(layout, tensors.size());
    if (!first) {
      tensors[entry->second].aliases.push_back(name);
      continue;
    }
    auto data = archive.data_of(layout);
    repeating += !data;
    tensors.push_back({.name = name, .data = std::move(data).value_or(TensorData{})});
  }
  std::erase_if(tensors, [](const CheckpointTensor& each) { return each.data.dtype == DType::undefined; });
  if (repeating > 0) {
    notes.push_back(warning(Code::unsupported_feature,
                            std::to_string(repeating) + " tensors repeat their elements and are left out",
                            "save them with contiguous()", archive.place()));
  }
  return tensors;
}

}  // namespace whence::checkpoint
