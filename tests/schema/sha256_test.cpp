// Tests SHA-256 against published digests.
#include "schema/files/sha256.h"

#include <array>
#include <random>

#include <gtest/gtest.h>

#include "schema/files/files.h"
#include "schema/files/sha256_blocks.h"
#include "tests/schema/temporary_folder.h"

namespace whence {
namespace {

// Examples of FIPS 180-4 and NIST's test vectors.
TEST(Sha256, GivesTheDigestsOfTheStandard) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, GivesTheSameByTheInstructionsOfTheProcessor) {
  std::mt19937 random(3);
  std::array<unsigned char, 5 * sha256_blocks::block_size> bytes{};
  for (unsigned char& each : bytes) each = static_cast<unsigned char>(random());
  for (std::size_t blocks = 1; blocks <= 5; ++blocks) {
    sha256_blocks::State one = {1, 2, 3, 4, 5, 6, 7, 0xffffffffU}, other = one;
    sha256_blocks::add_portably(one, bytes.data(), blocks);
    sha256_blocks::fastest()(other, bytes.data(), blocks);
    EXPECT_EQ(one, other);
  }
}

TEST(Sha256, ReadsAFileInParts) {
  const TemporaryFolder folder;
  const std::string path = folder / "a";
  write_file(path, std::string((std::size_t{1} << 24) + 7, 'x'));
  EXPECT_EQ(sha256_of_file(path), sha256(std::string((std::size_t{1} << 24) + 7, 'x')));
}

}  // namespace
}  // namespace whence
