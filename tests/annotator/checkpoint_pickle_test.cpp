// Reads the values of a pickle without calling its functions.
#include <gtest/gtest.h>

#include "annotator/checkpoint/pickle.h"
#include "tests/annotator/pickle_builder.h"
#include "tests/schema/expect_error.h"

namespace whence {

using checkpoint::Pickle;
using checkpoint::PickleValue;
using Kind = PickleValue::Kind;
using std::string_literals::operator""s;

namespace {

const Place pickle_file{.file = "w.pt", .stage = "read"};

PickleValue root_of(const std::string& value) { return Pickle(pickles::pickle(value), pickle_file).root(); }

TEST(Pickle, ReadsNumbersOfEveryLength) {
  EXPECT_EQ(root_of("K\xff").integer, 255);
  EXPECT_EQ(root_of("M\x01\x02").integer, 0x201);
  EXPECT_EQ(root_of("J\xfe\xff\xff\xff").integer, -2);
  EXPECT_EQ(root_of("\x8a\x02\x00\xff"s).integer, -256);  // two bytes, signed
  EXPECT_EQ(root_of("\x8a\x02\xff\x00"s).integer, 255);
  EXPECT_EQ(root_of("\x8a\x00"s).integer, 0);
  EXPECT_EQ(root_of("\x8b\x03\x00\x00\x00\x01\x00\x01"s).integer, 65537);
  EXPECT_EQ(root_of("\x8a\x09"
                    "123456789")
                .integer,
            0);  // more than 8 bytes are read as 0
  EXPECT_EQ(root_of("G\x3f\xf8\x00\x00\x00\x00\x00\x00"s).number, 1.5);
  EXPECT_EQ(root_of("\x88").integer, 1);
  EXPECT_EQ(root_of("\x89").integer, 0);
  EXPECT_TRUE(root_of("\x89").is(Kind::boolean));
  EXPECT_TRUE(root_of("N").is(Kind::none));
}

TEST(Pickle, ReadsTextsOfEveryLength) {
  EXPECT_EQ(root_of("X\x02\x00\x00\x00hi"s).text, "hi");
  EXPECT_EQ(root_of("\x8c\x02hi").text, "hi");
  EXPECT_EQ(root_of("\x8d\x02\x00\x00\x00\x00\x00\x00\x00hi"s).text, "hi");
}

TEST(Pickle, ReadsListsTuplesAndDicts) {
  const Pickle list(pickles::pickle("](K\x01K\x02"
                                    "eK\x03"
                                    "a"),
                    pickle_file);  // APPENDS adds two items, APPEND adds one
  ASSERT_EQ(list.root().items.size(), 3u);
  EXPECT_EQ(list.root().items[1]->integer, 2);
  EXPECT_EQ(list.root().items[2]->integer, 3);
  const Pickle triple(pickles::pickle("K\x01K\x02K\x03\x87"), pickle_file);
  ASSERT_TRUE(triple.root().is(Kind::tuple));
  EXPECT_EQ(triple.root().items.front()->integer, 1);
  EXPECT_EQ(triple.root().items.back()->integer, 3);
  const Pickle table(pickles::pickle(pickles::dict({{"a", "K\x01"}, {"b", "K\x02"}})), pickle_file);
  ASSERT_NE(table.root().find("b"), nullptr);
  EXPECT_EQ(table.root().find("b")->integer, 2);
  EXPECT_EQ(table.root().find("c"), nullptr);
}

TEST(Pickle, AMemoizedValueIsShared) {
  const Pickle pickle(pickles::pickle("](K\x07q\x05h\x05"
                                      "e"),
                      pickle_file);
  ASSERT_EQ(pickle.root().items.size(), 2u);
  EXPECT_EQ(pickle.root().items[0], pickle.root().items[1]);
  const Pickle in_order(pickles::pickle("](K\x07\x94K\x08\x94h\x01h\x00"
                                        "e"s),
                        pickle_file);  // reads memo entry 1, then entry 0
  EXPECT_EQ(in_order.root().items[2]->integer, 8);
  EXPECT_EQ(in_order.root().items[3]->integer, 7);
}

TEST(Pickle, RecordsCalls) {
  const Pickle pickle(pickles::pickle(pickles::call(pickles::global("os", "system"), "X\x02\x00\x00\x00ls\x85"s) +
                                      pickles::dict({{"k", "K\x01"}}) + "b"),
                      pickle_file);
  const PickleValue& root = pickle.root();
  EXPECT_TRUE(root.calls("os system"));
  EXPECT_FALSE(root.calls("os"));
  ASSERT_EQ(root.items.size(), 2u);
  EXPECT_EQ(root.items[1]->items.front()->text, "ls");
  ASSERT_NE(root.state, nullptr);
  EXPECT_EQ(root.state->find("k")->integer, 1);
}

TEST(Pickle, RefusesDamage) {
  const char* const invalid[] = {"X\x7f\x7f\x7f\x7f.",
                                 "a",
                                 "h\x01",
                                 "K\x01"
                                 "e",
                                 "K\x01K\x02"
                                 "a",
                                 "}(K\x01u",
                                 "cos"};
  for (const char* const value : invalid) expect_error(Code::corrupt_file, [&] { root_of(value); });
  expect_error(Code::corrupt_file, [] { Pickle("\x80\x02K\x01", pickle_file); });  // no end
  expect_error(Code::corrupt_file, [] { Pickle("", pickle_file); });
  // A MARK hides the items before it on the stack.
  expect_error(Code::corrupt_file, [] { root_of("](a"); });
}

TEST(Pickle, NamesUnsupportedOpcodes) {
  const std::string text = expect_error(Code::unsupported_feature, [] { root_of("I1\n"); });
  EXPECT_NE(text.find("73"), std::string::npos) << text;
}

}  // namespace
}  // namespace whence
