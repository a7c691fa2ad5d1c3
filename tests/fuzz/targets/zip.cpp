// Reads zip archives of PyTorch, with stored members, and of NumPy, with stored or deflated members.
#include "schema/files/zip_archive.h"
#include "tests/fuzz/target.h"

namespace whence::fuzz {
namespace {

void read_all(const std::string& path, ZipArchive::Packing packing) {
  const ZipArchive archive(path, "a test", packing);
  std::size_t sum = 0;
  for (const auto& [name, content] : archive.members()) {
    for (const char byte : content) sum += static_cast<unsigned char>(byte);
    const Bytes bytes = archive.bytes(name, 0, content.size());
    require(bytes.size() == content.size(), "a member has another size when its bytes are read");
    attempt([&] { archive.bytes(name, content.size(), 1); });
    attempt([&] { archive.bytes(name, ~std::uint64_t{0}, 2); });
  }
  require(sum <= 255 * archive.size(), "members are larger than their archive");
  require(archive.entries().size() == archive.members().size(), "the directory has different members");
}

void run(std::string_view input) {
  const std::string path = file_of("archive.zip", input);
  attempt_each(input, {
                          [&] { read_all(path, ZipArchive::Packing::stored); },
                          [&] { read_all(path, ZipArchive::Packing::deflated); },
                      });
}

const Target target("zip", run, 4096);

}  // namespace
}  // namespace whence::fuzz
