#include "recorder/archive/archive.h"

#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder/archive/pickle_check.h"
#include "recorder/archive/zip_content.h"
#include "recorder/base/live_mark.h"
#include "recorder/base/torch_error.h"
#include "schema/files/files.h"
#include "schema/files/torchscript_file.h"
#include "schema/sort_unique.h"

namespace whence::recorder::archive {

// Serves LibTorch's zip reader from a private mapping (writable, because programs may change buffers in place; the file
// itself never changes).
class MappedReader : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit MappedReader(const std::string& path) : file_(MappedFile::open(path)) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    void* mapped = fd < 0 ? MAP_FAILED : ::mmap(nullptr, file_->size(), PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (fd >= 0) ::close(fd);
    if (mapped == MAP_FAILED) {
      throw Error(Code::missing_file, "cannot map " + path, "check that it is a regular, readable file",
                  {.file = path});
    }
    private_ = std::shared_ptr<void>(mapped, [size = file_->size()](void* at) { ::munmap(at, size); });
  }

  std::size_t size() const override { return file_->size(); }

  std::size_t read(std::uint64_t position, void* buffer, std::size_t count, const char*) const override {
    if (position >= file_->size()) return 0;
    count = std::min<std::size_t>(count, file_->size() - position);
    const auto weight = weights_.find(position);
    if (weight == weights_.end() || weight->second != count) {
      std::memcpy(buffer, file_->data() + position, count);
    } else {
      places_[buffer] = {position, count};  // not copied: point_storages_at_file() sets the address later
    }
    return count;
  }

  struct Place {
    std::uint64_t offset = 0;
    std::size_t size = 0;
  };
  // Returns the file range that was read into `buffer`. The last read to an address counts: earlier buffers there were
  // temporary.
  const Place* place(const void* buffer) const {
    auto found = places_.find(buffer);
    return found == places_.end() ? nullptr : &found->second;
  }
  // From now on, does not copy reads of exactly these spans (offset to size).
  void leave_in_place(std::unordered_map<std::uint64_t, std::size_t> weights) { weights_ = std::move(weights); }

  const std::shared_ptr<MappedFile>& file() const { return file_; }
  char* private_data() const { return static_cast<char*>(private_.get()); }
  const std::shared_ptr<void>& private_mapping() const { return private_; }

 private:
  std::shared_ptr<MappedFile> file_;
  std::shared_ptr<void> private_;
  std::unordered_map<std::uint64_t, std::size_t> weights_;
  mutable std::unordered_map<const void*, Place> places_;
};

namespace {

[[noreturn]] void reject(const std::string& path, Code code, const std::string& message, const std::string& remedy) {
  throw Error(code, message, remedy, {.file = path, .stage = "read"});
}

// Returns a member's name without the folder that contains all members of an archive.
std::string_view record_of(std::string_view member) { return member.substr(member.find('/') + 1); }

// True for the pickles that LibTorch reads; other files with these endings belong to the user.
bool is_pickle(std::string_view record) {
  return record == "data.pkl" || record == "constants.pkl" || record == "traced_inputs.pkl" ||
         (record.starts_with("code/") && record.ends_with(".debug_pkl"));
}

using RecordSizes = std::unordered_map<std::string_view, std::uint64_t>;

void check_pickle(const ZipArchive& archive, std::string_view record, std::string_view content,
                  const RecordSizes& sizes) {
  const std::string folder = std::string(record.substr(0, record.rfind('.'))) + "/";
  const std::string fault = first_pickle_fault(content, [&](const std::string& key) -> std::optional<std::uint64_t> {
    const auto found = sizes.find(folder + key);
    // Traced inputs are stored with shapes but without values, and whence does not read their storages.
    const bool known = found != sizes.end() && (record != "traced_inputs.pkl" || found->second > 0);
    return known ? std::optional(found->second) : std::nullopt;
  });
  if (fault.empty()) return;
  reject(archive.path(), Code::corrupt_file,
         "LibTorch cannot read " + std::string(record) + " of the archive: " + fault,
         "copy or download the file again, or save the model again");
}

// Checks code and pickles. Weights are left out: damaged weights change numbers but crash nothing, and reading all of
// them takes time.
void check_members(const std::string& path) {
  const ZipArchive archive(path, "torch.jit.save", ZipArchive::Packing::deflated);
  RecordSizes sizes;
  for (const ZipArchive::Entry& entry : archive.entries()) sizes.emplace(record_of(entry.name), entry.size);
  for (const ZipArchive::Entry& entry : archive.entries()) {
    if (!entry.name.ends_with(".py") && !entry.name.ends_with("pkl")) continue;
    std::string inflated;
    const std::string_view content =
        checked_content(archive, entry, inflated, "copy or download the file again, or save the model again");
    if (is_pickle(record_of(entry.name))) check_pickle(archive, record_of(entry.name), content, sizes);
  }
}

// Requests source lines, so that LibTorch unpickles them while the archive is read, not at first use. Functions have a
// separate record for each file, as methods have.
void read_source_lines(const std::string& path, const torch::jit::Module& module,
                       const torch::jit::CompilationUnit& unit) try {
  const auto read = [](torch::jit::Function& function) {
    if (!function.isGraphFunction()) return;
    for (const torch::jit::Node* node : torch::jit::toGraphFunction(function).graph()->nodes()) {
      if (node->sourceRange().findSourceRangeThatGenerated()) break;
    }
  };
  for (const torch::jit::Module& each : module.modules()) {
    for (const torch::jit::Method& method : each.get_methods()) read(method.function());
  }
  for (torch::jit::Function* function : unit.get_functions()) read(*function);
} catch (const std::exception&) {
  reject(path, Code::corrupt_file, "the archive's record of source lines cannot be read", "save the model again");
}

// Releases a storage's reference to the mapped file.
void release_mapping(void* context) { delete static_cast<std::shared_ptr<void>*>(context); }

}  // namespace

Archive::Archive(const std::string& path) : path_(path), reader_(std::make_shared<MappedReader>(path)) {
  reject_other_than_torchscript(*reader_->file());  // LibTorch would try to read any file
  unit_ = std::make_shared<torch::jit::CompilationUnit>();
  try {
    caffe2::serialize::PyTorchStreamReader zip(reader_);
    if (!zip.hasRecord("constants.pkl")) {
      if (zip.hasRecord("serialized_exported_program.json") || zip.hasRecord("models/model.json")) {
        reject(path, Code::wrong_kind, "this is a torch.export archive (.pt2), not a TorchScript archive",
               "trace the model: torch.jit.save(torch.jit.trace(model, inputs), 'model.pt')");
      }
      reject(path, Code::wrong_kind, "this zip file holds no TorchScript program (torch.save writes weights only)",
             "save the model with torch.jit.save(torch.jit.trace(model, inputs), 'model.pt')");
    }
    check_members(path);
    std::unordered_map<std::uint64_t, std::size_t> weights;
    bool custom_classes = false;
    for (const std::string& record : zip.getAllRecords()) {
      custom_classes |= record.find("code/__torch__/torch/classes/") != std::string::npos;
      if (record.rfind("data/", 0) != 0) continue;
      const std::size_t offset = zip.getRecordOffset(record), size = zip.getRecordSize(record);
      if (size == 0) continue;
      weights.emplace(offset, size);
      members_.emplace(offset, record);
    }
    // Custom classes, such as the packed weights of quantized layers, are built from their tensors during loading, so
    // these must be copied.
    if (!custom_classes) reader_->leave_in_place(std::move(weights));
    torch::jit::ExtraFilesMap extra;
    module_ = torch::jit::import_ir_module(unit_, std::shared_ptr<caffe2::serialize::ReadAdapterInterface>(reader_),
                                           std::nullopt, extra, /*load_debug_files=*/true);
    reader_->leave_in_place({});
    read_source_lines(path, module_, *unit_);
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw out_of_memory();
  } catch (const std::exception& error) {
    const std::string what = torch_message(error);
    if (what.find("Unknown builtin op") != std::string::npos) {
      reject(path, Code::unsupported_feature, "the archive uses an operator that LibTorch does not have: " + what,
             "name the library that defines it: --library libmine.so; if Python registered the "
             "operator, save the model with torch.export.save");
    }
    if (reader_->file()->text().find("constants.pkl") == std::string_view::npos) {
      reject(path, Code::wrong_kind, "this zip file is not an archive of PyTorch",
             "save the model with torch.jit.save(torch.jit.trace(model, inputs), 'model.pt')");
    }
    reject(path, Code::corrupt_file, "LibTorch cannot read the archive: " + what,
           "save the model again; if the name of a module is a keyword or has quotes, backslashes or letters beyond "
           "ASCII, which TorchScript may be unable to store, use torch.export.save");
  }
  point_storages_at_file();
}

void Archive::point_storages_at_file() {
  // An aliased storage is visited more than once; after the first visit its address is in the mapping.
  const auto point = [this](const at::Tensor& tensor) {
    if (!tensor.has_storage()) return;
    c10::Storage storage = tensor.storage();
    const auto* place = reader_->place(storage.data());
    if (place == nullptr || place->size != storage.nbytes()) return;
    const MappedReader::Place at = *place;
    char* data = reader_->private_data() + at.offset;
    auto* mapping = new std::shared_ptr<void>(reader_->private_mapping());
    storage.set_data_ptr(c10::DataPtr(data, mapping, &release_mapping, c10::Device(c10::kCPU)));
  };
  c10::IValue(module_._ivalue()).visit([&point](const c10::IValue& value) {
    if (!value.isTensor() || !value.toTensor().defined()) return false;
    const at::Tensor& tensor = value.toTensor();
    point(tensor);
    if (tensor.is_quantized() && tensor.qscheme() != at::kPerTensorAffine &&
        tensor.qscheme() != at::kPerTensorSymmetric) {
      point(tensor.q_per_channel_scales());  // also tensors of the archive, but not attributes
      point(tensor.q_per_channel_zero_points());
    }
    return false;
  });
}

std::optional<LiveMark> Archive::live() {
  caffe2::serialize::PyTorchStreamReader zip(reader_);
  const std::string record = std::string("extra/") + live_file;
  if (!zip.hasRecord(record)) return std::nullopt;
  const auto [data, size] = zip.getRecord(record);
  return read_live_mark(std::string(static_cast<const char*>(data.get()), size));
}

c10::IValue Archive::traced_inputs() {
  try {
    caffe2::serialize::PyTorchStreamReader zip(reader_);
    if (!zip.hasRecord("traced_inputs.pkl")) return {};
    const c10::IValue by_method =
        torch::jit::readArchiveAndTensors("traced_inputs", "", "traced_inputs/", std::nullopt, std::nullopt,
                                          std::nullopt, zip, torch::jit::Unpickler::defaultTypeParser, nullptr);
    for (const auto& entry : by_method.toGenericDict()) {
      if (entry.key().toStringRef() == "forward" && entry.value().isList()) return entry.value();
    }
    return {};
  } catch (const std::exception&) {
    reject(path_, Code::corrupt_file, "the archive's record of the traced inputs cannot be read",
           "save the model again");
  }
}

Bytes Archive::bytes_of(const at::Tensor& tensor, std::string* member) const {
  const at::Tensor dense = tensor.detach().resolve_conj().resolve_neg().contiguous();
  Bytes bytes = Bytes::part_of(std::make_shared<at::Tensor>(dense), dense.const_data_ptr(), dense.nbytes());
  const char* begin = reader_->private_data();
  const char* at = static_cast<const char*>(dense.const_data_ptr());
  if (at < begin || at >= begin + reader_->size()) return bytes;
  const auto offset = static_cast<std::uint64_t>(at - begin);
  auto found = members_.upper_bound(offset);
  if (member != nullptr && found != members_.begin()) *member = std::prev(found)->second;
  // Uses the file's bytes: the program may write to its tensors when it runs.
  bytes = Bytes::part_of(reader_->file(), reader_->file()->data() + offset, dense.nbytes());
  return std::move(bytes).stored_in(path_, offset);
}

void refuse_side_effects(Archive& archive) {
  std::vector<std::string> found;
  std::unordered_set<const torch::jit::Function*> seen;
  std::vector<torch::jit::Function*> pending;
  for (const auto& method : archive.module().get_methods()) pending.push_back(&method.function());
  for (const auto& child : archive.module().modules()) {
    for (const auto& method : child.get_methods()) pending.push_back(&method.function());
  }
  while (!pending.empty()) {
    torch::jit::Function* function = pending.back();
    pending.pop_back();
    if (!function->isGraphFunction() || !seen.insert(function).second) continue;
    std::shared_ptr<torch::jit::Graph> graph = torch::jit::toGraphFunction(*function).graph();
    torch::jit::DepthFirstGraphNodeIterator nodes(graph);
    while (torch::jit::Node* node = nodes.next()) {
      const std::string kind = node->kind().toQualString();
      const std::string_view space = node->kind().ns().toUnqualString();
      if (node->kind() == torch::jit::prim::Constant && node->output()->type()->cast<c10::FunctionType>()) {
        pending.push_back(node->output()->type()->expect<c10::FunctionType>()->function());
      }
      const bool reaches_out = kind == "aten::save" || kind == "aten::from_file" || kind == "prim::PythonOp" ||
                               kind.rfind("prim::rpc", 0) == 0 || space == "inductor" || space == "c10d" ||
                               space == "rpc" || space == "profiler" || space == "cuda" || space == "_caffe2" ||
                               space == "backends";
      if (reaches_out) found.push_back(kind);
    }
  }
  if (found.empty()) return;
  sort_unique(found);
  std::string names;
  for (const std::string& name : found) names += (names.empty() ? "" : ", ") + name;
  throw Error(Code::side_effect, "the program has operators that reach outside it: " + names + "; nothing was run",
              "remove the operator from the model, or record it without running: --no-run",
              {.file = archive.path(), .stage = "read", .op = found.front()});
}

}  // namespace whence::recorder::archive
