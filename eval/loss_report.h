// From scores of texts to the rows that people compare: one row a policy and budget, over all texts and over each kind
// of text. Rows that would mislead are refused with the reason. Any thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "eval/loss_study.h"

namespace winnow {

struct ScoredText {
  std::string id, kind;
  TextScore score;
};

// Means over positions; losses in nats.
struct LossRow {
  std::string texts;  // the kind, or "all"
  int64_t num_texts = 0, positions = 0;
  double loss = 0, full_loss = 0;
  double loss_ratio = 0;  // loss / full loss, of the same positions
  double loss_ratio_low_entropy = 0, loss_ratio_high_entropy = 0;
  double kl = 0, top1_agreement = 0;
  double kept_ratio = 0, kept_ratio_average = 0;  // at the end of a text; over all its tokens. Means over texts
  int64_t evicted_entries = 0;
  double evictions_per_text = 0;
  std::vector<int64_t> peak_bytes_per_rank;  // the largest of any text
  RankLoad load;                             // sums over texts
  std::pair<double, double> ci95;            // of loss - full loss: paired bootstrap over texts
};

// kInvalidArgument, saying which text and how many, if a text saw fewer than 8 evictions: what is left is noise about
// the start of a text, or not this policy at all. A policy that acts once, after the prompt, must have evicted in every
// text, and 8 times in all of them together.
Status CheckEvictions(const std::vector<ScoredText>& texts, EvictionTiming timing);

// "all" first, then one row a kind in order of appearance if there are several. Every text has positions.
std::vector<LossRow> SummariseLoss(const std::vector<ScoredText>& texts);

}  // namespace winnow
