#include "model/special_token_finder.h"

#include <gtest/gtest.h>

namespace winnow {
namespace {

SpecialTokenFinder Finder() {
  SpecialTokenFinder finder;
  finder.Add("<a>", 1);
  finder.Add("<a>b", 2);
  finder.Add("<", 3);
  return finder;
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
  EXPECT_EQ(Found("<a>b", {}, 0, 3), (Ids{1}));
  EXPECT_EQ(Found("<a>b", {}, 1), (Ids{}));
  EXPECT_EQ(Found(""), (Ids{}));
  EXPECT_EQ(Finder().Find("<a>"), 1);
  EXPECT_EQ(Finder().Find("a"), std::nullopt);
  EXPECT_EQ(Finder().Find(""), std::nullopt);
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
