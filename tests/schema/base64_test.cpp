// Base64 against the test vectors of RFC 4648, section 10.
#include "schema/sidecar/base64.h"

#include <gtest/gtest.h>

namespace whence {
namespace {

TEST(Base64, EncodesAndDecodesTheRfcVectors) {
  const std::pair<std::string, std::string> rows[] = {{"", ""},
                                                      {"f", "Zg=="},
                                                      {"fo", "Zm8="},
                                                      {"foo", "Zm9v"},
                                                      {"foob", "Zm9vYg=="},
                                                      {"fooba", "Zm9vYmE="},
                                                      {"foobar", "Zm9vYmFy"},
                                                      {"\xff\xfe\xfd", "//79"}};
  for (const auto& [bytes, text] : rows) {
    EXPECT_EQ(to_base64(std::as_bytes(std::span(bytes))), text);
    EXPECT_EQ(from_base64(text), bytes) << text;
  }
}

TEST(Base64, RefusesInvalidText) {
  for (const char* text : {"Z", "Zg=", "Zg", "Z===", "====", "Zg==Zg==", "Zm 9", "Zm9\xc3", "=m9v", "Z=9v"}) {
    EXPECT_FALSE(from_base64(text)) << text;
  }
}

}  // namespace
}  // namespace whence
