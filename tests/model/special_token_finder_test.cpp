#include "model/special_token_finder.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

SpecialTokenFinder Finder() {
  return SpecialTokenFinder({{"<a>", 1}, {"<a>b", 2}, {"<", 3}, {"<b\xff", 4}, {"<b\x01", 5}});
}

// The ids found in bytes [begin, end) of `text`, one after the other.
std::vector<int32_t> Found(std::string_view text, std::vector<TextSpan> plain = {}, size_t begin = 0, size_t end = 99) {
  std::vector<int32_t> ids;
  const SpecialTokenFinder finder = Finder();
  end = std::min(end, text.size());
  while (const auto match = finder.FindNext(text, begin, end, plain)) {
    ids.push_back(match->id);
    begin = match->end;
  }
  return ids;
}

using Ids = std::vector<int32_t>;

TEST(SpecialTokenFinder, TakesTheLongestThatStartsFirst) {
  EXPECT_EQ(Found("x<a>b<a><"), (Ids{2, 1, 3}));
  EXPECT_EQ(Found("<b\x01<b<b\xff"), (Ids{5, 3, 4}));
  EXPECT_EQ(Found("<a>b", {}, 0, 3), (Ids{1}));
  EXPECT_EQ(Found("<a>b", {}, 1), (Ids{}));
  EXPECT_EQ(Found(""), (Ids{}));
  EXPECT_EQ(Finder().Find("<a>"), 1);
  EXPECT_EQ(Finder().Find("a"), std::nullopt);
  EXPECT_EQ(Finder().Find(""), std::nullopt);
}

// Each of them compared with each, or with each byte of a text, would take minutes.
TEST(SpecialTokenFinder, HoldsAHundredThousandTokensThatBeginAlike) {
  std::vector<SpecialTokenFinder::Token> tokens;
  for (int32_t id = 0; id < 100'000; ++id) tokens.push_back({"<" + std::to_string(100'000 + id) + ">", id});
  const SpecialTokenFinder finder(std::move(tokens));
  const std::string text = std::string(100'000, '<') + "<<123456><<99999>";
  EXPECT_EQ(finder.Find("<199999>"), 99'999);
  const auto match = finder.FindNext(text, 0, text.size(), {});
  ASSERT_TRUE(match);
  EXPECT_EQ(match->id, 23'456);
  EXPECT_EQ(match->begin, 100'001u);
  EXPECT_FALSE(finder.FindNext(text, match->end, text.size(), {}));
}

TEST(SpecialTokenFinder, FindsNothingThatTouchesPlainBytes) {
  EXPECT_EQ(Found("<a>b<a>", {{0, 4}}), (Ids{1}));
  EXPECT_EQ(Found("<a>b", {{3, 4}}), (Ids{1}));  // the longer one reaches into them
  EXPECT_EQ(Found("<a>b", {{2, 3}}), (Ids{3}));  // both do
  EXPECT_EQ(Found("<a>b", {{0, 1}}), (Ids{}));   // all begin there
  EXPECT_EQ(Found("<<a>b<", {{1, 2}, {4, 5}}), (Ids{3, 3}));
  EXPECT_EQ(Found("<a>", {{0, 3}}), (Ids{}));
}

}  // namespace
}  // namespace winnow
