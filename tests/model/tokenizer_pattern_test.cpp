#include "model/tokenizer_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/pre_tokenizer.h"

namespace winnow {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Pieces(std::string_view pattern, std::string_view text) {
  std::vector<std::string> pieces;
  const PreTokenizer pre_tokenizer = PreTokenizer::Compile({TranslatePattern(pattern).value()}).value();
  EXPECT_TRUE(pre_tokenizer.Split(text, [&](std::string_view piece) { pieces.emplace_back(piece); }).ok());
  return pieces;
}

TEST(TokenizerPattern, TakesUnicodesSpacesAndNotPcre2s) {
  // U+180E is \s for PCRE2 only.
  EXPECT_THAT(Pieces("\\s", "a\u180eb\u0085c\u00a0d"), ElementsAre("a\u180eb", "\u0085", "c", "\u00a0", "d"));
  EXPECT_THAT(Pieces("[^\\s\\p{L}]+", "a..\u180e .b"), ElementsAre("a", "..\u180e", " ", ".", "b"));
  EXPECT_THAT(Pieces("\\S+", "a \u180e"), ElementsAre("a", " ", "\u180e"));
}

TEST(TokenizerPattern, KeepsWhatIsTheSameInBoth) {
  EXPECT_THAT(Pieces("(?i:'s|'t)|\\p{N}{1,3}", "a'S1234"), ElementsAre("a", "'S", "123", "4"));
  EXPECT_THAT(Pieces("[\\r\\n]+|\\s+(?!\\S)", "a   b\n\nc"), ElementsAre("a", "  ", " b", "\n\n", "c"));
  EXPECT_THAT(Pieces("[!-/:-~]", "a+b"), ElementsAre("a", "+", "b"));
}

TEST(TokenizerPattern, RefusesByNameWhatMayDiffer) {
  for (const char* pattern :
       {"\\w",     "\\bx",        "^a",         "a$",   "a.b",   "(?<=a)b", "(?i)a", "(?>a)", "(*UCP)a", "[a[bc]]",
        "[a&&b]",  "[[:alpha:]]", "\\p{Greek}", "\\pL", "[\\S]", "[]a]",    "a{2}+", "a{x}",  "a{",      "\\K",
        "\\Qa\\E", "\\1",         "(a)\\g1",    "[a",   "a]",    "\\",      "\\p{L", "\xff"}) {
    const auto translated = TranslatePattern(pattern);
    ASSERT_FALSE(translated.ok()) << pattern;
    EXPECT_THAT(translated.status().message(), AllOf(HasSubstr("expected"), HasSubstr("found"))) << pattern;
  }
  EXPECT_FALSE(TranslatePattern(std::string(20'000, 'a')).ok());
}

TEST(TokenizerPattern, MatchesTextAsItStands) {
  std::vector<std::string> pieces;
  const PreTokenizer pre_tokenizer = PreTokenizer::Compile({PatternOfText("a.(\u4e2d ")}).value();
  EXPECT_TRUE(pre_tokenizer.Split("ab(\u4e2d a.(\u4e2d !", [&](std::string_view p) { pieces.emplace_back(p); }).ok());
  EXPECT_THAT(pieces, ElementsAre("ab(\u4e2d ", "a.(\u4e2d ", "!"));
}

}  // namespace
}  // namespace winnow
