#include "model/normalizer.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

using Kind = NormalizerStep::Kind;

std::string Apply(std::vector<NormalizerStep> steps, std::string_view text, bool at_start = true) {
  std::string storage;
  return std::string(*Normalizer(std::move(steps)).Apply(text, at_start, &storage));
}

TEST(Normalizer, ComposesAsUnicode9Does) {
  const auto form_c = [](std::string_view text) { return Apply({{Kind::kFormC, "", ""}}, text); };
  EXPECT_EQ(form_c("plain"), "plain");
  EXPECT_EQ(form_c("e\u0301 \u212b \u1100\u1161 s\u0307\u0323"), "\u00e9 \u00c5 \uac00 \u1e69");
  // U+10EAB became a mark in Unicode 13; Hugging Face's tables, of Unicode 9, do not move it.
  EXPECT_EQ(form_c("a\U00010eab\u0334"), "a\U00010eab\u0334");
  EXPECT_EQ(form_c("a\u0315\u0334"), "a\u0334\u0315");
}

TEST(Normalizer, GivesTheTextItselfWhereNothingChanges) {
  const std::string text = "\u00e9 unchanged";
  std::string storage;
  const Normalizer normalizer({{Kind::kFormC, "", ""}, {Kind::kReplace, "#", "-"}});
  EXPECT_EQ(normalizer.Apply(text, true, &storage)->data(), text.data());
}

TEST(Normalizer, ReplacesAndPrependsInOrder) {
  const NormalizerStep space{Kind::kReplace, " ", "_"};
  EXPECT_EQ(Apply({{Kind::kPrepend, "", " "}, space}, " a b"), "__a_b");
  EXPECT_EQ(Apply({space, {Kind::kPrependOnce, "", "_"}}, " a b"), "_a_b");
  EXPECT_EQ(Apply({space, {Kind::kPrependOnce, "", "_"}}, "a", false), "_a");
  EXPECT_EQ(Apply({space, {Kind::kPrependOnceAtStart, "", "_"}}, "a", false), "a");
  EXPECT_EQ(Apply({space, {Kind::kPrependOnceAtStart, "", "_"}}, "a", true), "_a");
  EXPECT_EQ(Apply({{Kind::kPrepend, "", "_"}}, ""), "");
  EXPECT_EQ(Apply({{Kind::kReplace, "aa", "a"}}, "aaaaa"), "aaa");
}

TEST(Normalizer, RefusesStepsThatTogetherMakeATextOfThousandsOfTimesItsLength) {
  const NormalizerStep thousand{Kind::kReplace, "a", std::string(1000, 'a')};
  std::string storage;
  const auto five = Normalizer({thousand, thousand, thousand, thousand, thousand}).Apply("a", true, &storage);
  ASSERT_FALSE(five.ok());
  EXPECT_EQ(five.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(five.status().message().find("at most 65600 bytes of it, found at least"), std::string::npos);
  EXPECT_LT(storage.capacity(), 65'600u);  // nothing was taken for what is refused
  const NormalizerStep long_mark{Kind::kPrepend, "", std::string(65'599, 'x')};
  EXPECT_EQ(Apply({long_mark}, "a").size(), 65'600u);
  EXPECT_FALSE(Normalizer({long_mark, {Kind::kPrepend, "", "y"}}).Apply("a", true, &storage).ok());
  // U+1D160 is three characters of four bytes each in form C.
  EXPECT_EQ(Apply({{Kind::kFormC, "", ""}}, "\U0001d160").size(), 12u);
  EXPECT_FALSE(Normalizer({{Kind::kPrepend, "", std::string(65'848, 'x')}, {Kind::kFormC, "", ""}})
                   .Apply("\U0001d160", true, &storage)
                   .ok());
}

}  // namespace
}  // namespace winnow
