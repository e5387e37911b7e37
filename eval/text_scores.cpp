#include "eval/text_scores.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/check.h"
#include "eval/text_words.h"

namespace winnow {
namespace {

bool IsPunctuation(char c) {
  return std::string_view("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~").find(c) != std::string_view::npos;
}

std::string WithoutPunctuation(std::string text) {
  std::erase_if(text, IsPunctuation);
  return text;
}

// How many words two texts share, as bags.
int64_t Overlap(const std::vector<std::string_view>& a, const std::vector<std::string_view>& b) {
  std::map<std::string_view, int64_t> left;
  for (std::string_view word : a) ++left[word];
  int64_t shared = 0;
  for (std::string_view word : b) shared += left[word]-- > 0;
  return shared;
}

template <class T>
int64_t LongestCommonSubsequence(const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<int64_t> row(b.size() + 1, 0);
  for (const T& item : a) {
    int64_t diagonal = 0;
    for (size_t j = 0; j < b.size(); ++j) {
      const int64_t above = row[j + 1];
      row[j + 1] = item == b[j] ? diagonal + 1 : std::max(row[j + 1], row[j]);
      diagonal = above;
    }
  }
  return row.back();
}

double F1(int64_t shared, size_t of_prediction, size_t of_reference) {
  if (shared == 0) return 0;
  const double precision = double(shared) / double(of_prediction), recall = double(shared) / double(of_reference);
  return 2 * precision * recall / (precision + recall);
}

std::vector<std::string> Numbers(std::string_view text) {
  std::vector<std::string> numbers;
  bool is_open = false;
  for (char c : text) {
    const bool is_digit = c >= '0' && c <= '9';
    if (is_digit && !is_open) numbers.emplace_back();
    if (is_digit) numbers.back() += c;
    is_open = is_digit;
  }
  return numbers;
}

}  // namespace

std::string CleanPrediction(std::string_view prediction) {
  std::string text;
  for (char c : prediction) {
    if (uint8_t(c) >= 0x20) text += c;
  }
  return std::string(Trim(text));
}

double StringMatchAll(std::string_view prediction, std::span<const std::string> references) {
  WINNOW_CHECK(!references.empty());
  const std::string text = Lower(CleanPrediction(prediction));
  int64_t found = 0;
  for (const std::string& reference : references) found += text.find(Lower(reference)) != std::string::npos;
  return double(found) / double(references.size());
}

double StringMatchPart(std::string_view prediction, std::span<const std::string> references) {
  return StringMatchAll(prediction, references) > 0 ? 1 : 0;
}

double TokenF1(std::string_view prediction, std::string_view reference) {
  const auto words = [](const std::string& text) {
    std::vector<std::string_view> all = Words(text);
    std::erase_if(all, [](std::string_view word) { return word == "a" || word == "an" || word == "the"; });
    return all;
  };
  const std::string predicted = WithoutPunctuation(Lower(prediction)), wanted = WithoutPunctuation(Lower(reference));
  const auto a = words(predicted), b = words(wanted);
  return F1(Overlap(a, b), a.size(), b.size());
}

double RougeL(std::string_view prediction, std::string_view reference) {
  const auto a = Words(prediction), b = Words(reference);
  return F1(LongestCommonSubsequence(a, b), a.size(), b.size());
}

double Rouge1Recall(std::string_view prediction, std::string_view reference) {
  const std::string predicted = WithoutPunctuation(Lower(prediction)), wanted = WithoutPunctuation(Lower(reference));
  const auto b = Words(wanted);
  return b.empty() ? 0 : double(Overlap(Words(predicted), b)) / double(b.size());
}

double EditSimilarity(std::string_view prediction, std::string_view reference) {
  const std::vector<std::string_view> a = Characters(prediction), b = Characters(reference);
  if (a.empty() && b.empty()) return 1;
  return 2 * double(LongestCommonSubsequence(a, b)) / double(a.size() + b.size());
}

std::string_view FirstCodeLine(std::string_view text) {
  text = text.substr(std::min(text.find_first_not_of('\n'), text.size()));
  while (!text.empty()) {
    const std::string_view line = FirstLine(text);
    const bool is_comment = line.find('`') != line.npos || line.find('#') != line.npos || line.find("//") != line.npos;
    if (!is_comment) return line;
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return {};
}

double Classification(std::string_view prediction, std::string_view reference, std::span<const std::string> classes) {
  int64_t found = 0;
  bool has_reference = false;
  for (const std::string& name : classes) {
    if (prediction.find(name) == std::string_view::npos) continue;
    has_reference |= name == reference;
    const bool is_part = name != reference && reference.find(name) != std::string_view::npos;
    found += !is_part;
  }
  return has_reference ? 1 / double(found) : 0;
}

double NumberShare(std::string_view prediction, std::string_view reference) {
  const std::vector<std::string> found = Numbers(prediction), wanted = Numbers(reference);
  if (found.empty() || wanted.empty()) return 0;
  return double(std::count(found.begin(), found.end(), wanted.front())) / double(found.size());
}

}  // namespace winnow
