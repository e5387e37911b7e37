// How an answer's text is judged against references: the metrics of RULER and LongBench. Texts are UTF-8; what is no
// letter of ASCII has no case here. Pure functions; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace winnow {

// Control characters, line ends among them, removed, then white space at both ends cut off: as RULER's answers are
// cleaned by kvpress.
std::string CleanPrediction(std::string_view prediction);

// Share of the references that the prediction contains, without regard to case (RULER's string_match_all). At least
// one reference.
double StringMatchAll(std::string_view prediction, std::span<const std::string> references);

// 1 if it contains any of them, else 0 (string_match_part).
double StringMatchPart(std::string_view prediction, std::span<const std::string> references);

// ---- LongBench's metrics (Bai et al., arXiv 2308.14508), for one reference ----

// Overlap of words as bags: lower case, punctuation of ASCII and the articles removed. 0 if either text has no word.
double TokenF1(std::string_view prediction, std::string_view reference);

// F1 of the longest common subsequence of the words, of whole texts (Lin, "ROUGE", 2004, with beta 1).
double RougeL(std::string_view prediction, std::string_view reference);

// Share of the reference's words that the prediction has, as often as it has them, punctuation and case left out.
double Rouge1Recall(std::string_view prediction, std::string_view reference);

// 2 * longest common subsequence of characters / characters of both: the ratio in which a replacement counts as two
// edits. 1 for two empty texts.
double EditSimilarity(std::string_view prediction, std::string_view reference);

// The first line of generated code that is no comment and holds no code fence; empty if there is none.
std::string_view FirstCodeLine(std::string_view text);

// 1 / (class names found in the prediction, those contained in the reference left out) if the reference is among them,
// else 0.
double Classification(std::string_view prediction, std::string_view reference, std::span<const std::string> classes);

// Share of the prediction's numbers that equal the reference's first number; 0 if either has none.
double NumberShare(std::string_view prediction, std::string_view reference);

}  // namespace winnow
