#include "model/normalizer.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

using Kind = NormalizerStep::Kind;

std::string Apply(std::vector<NormalizerStep> steps, std::string_view text, bool at_start = true) {
  std::string storage;
  return std::string(Normalizer(std::move(steps)).Apply(text, at_start, &storage));
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
  EXPECT_EQ(normalizer.Apply(text, true, &storage).data(), text.data());
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

}  // namespace
}  // namespace winnow
