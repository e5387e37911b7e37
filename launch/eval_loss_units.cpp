#include "launch/eval_loss_units.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "base/progress_bar.h"
#include "launch/sequence_report_json.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

// One text under all policies at one budget.
struct Unit {
  size_t study, text;
  int64_t tokens;  // that are read, each of them once per case
};

// The longest first, so that groups that work side by side have about the same to do; equal ones in order of studies
// and texts.
std::vector<Unit> UnitsOf(const EvalLossOptions& options, const std::vector<BudgetStudy>& studies,
                          const std::vector<EvalText>& texts) {
  std::vector<Unit> units;
  for (size_t study = 0; study < studies.size(); ++study) {
    for (size_t text = 0; text < texts.size(); ++text) {
      const auto cases = CasesOf(options, studies[study], texts[text]).value();
      units.push_back({study, text, LossStudyTokens(texts[text], cases)});
    }
  }
  std::stable_sort(units.begin(), units.end(), [](const Unit& a, const Unit& b) { return a.tokens > b.tokens; });
  return units;
}

std::string NameOf(const Unit& unit, const std::vector<BudgetStudy>& studies, const std::vector<EvalText>& texts) {
  // Two ratios may read the same.
  return "study " + std::to_string(unit.study) + ", budget " + BudgetText(studies[unit.study]) + ", text " +
         std::to_string(unit.text) + ", " + texts[unit.text].id;
}

std::vector<std::byte> BytesOf(const Json& json) {
  const std::string text = json.dump();
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

Json JsonOf(const std::vector<std::byte>& bytes) {
  const auto* begin = reinterpret_cast<const char*>(bytes.data());
  return Json::parse(begin, begin + bytes.size());
}

// A field of TextScore that sums and reports need.
template <class T>
struct Field {
  const char* name;
  T TextScore::*member;
};
constexpr Field<int64_t> kCounts[] = {{"positions", &TextScore::positions},
                                      {"high_entropy_positions", &TextScore::high_entropy_positions},
                                      {"top1_agreement", &TextScore::top1_agreement},
                                      {"tokens", &TextScore::tokens}};
constexpr Field<double> kSums[] = {{"loss", &TextScore::loss},
                                   {"full_loss", &TextScore::full_loss},
                                   {"high_entropy_loss", &TextScore::high_entropy_loss},
                                   {"high_entropy_full_loss", &TextScore::high_entropy_full_loss},
                                   {"kl", &TextScore::kl},
                                   {"kept_ratio_sum", &TextScore::kept_ratio_sum}};
Result<TextScore> ParseScore(const Json& json) {
  const auto expected = [](const std::string& name) { return BadFile("a unit's value: expected \"" + name + "\""); };
  const auto has = [&](const char* name) { return json.is_object() && json.contains(name) && json[name].is_number(); };
  TextScore score;
  for (const auto& [name, member] : kCounts) {
    if (!has(name)) return expected(name);
    score.*member = json[name].get<int64_t>();
  }
  for (const auto& [name, member] : kSums) {
    if (!has(name)) return expected(name);
    score.*member = json[name].get<double>();
  }
  WINNOW_ASSIGN_OR_RETURN(score.cache, ParseSequenceReport(json));
  return score;
}

// Which units the journal has: bytes 0 or 1, of rank 0 on all ranks. Collective.
std::vector<std::byte> FinishedUnits(const LossUnits& run, const std::vector<Unit>& units,
                                     const std::vector<BudgetStudy>& studies, const std::vector<EvalText>& texts) {
  std::vector<std::byte> is_finished(units.size(), std::byte(0));
  for (size_t i = 0; i < units.size() && run.journal != nullptr; ++i) {
    is_finished[i] = std::byte(run.journal->finished().contains(NameOf(units[i], studies, texts)));
  }
  run.world.Broadcast(is_finished, 0);
  return is_finished;
}

}  // namespace

Json ScoresJson(const std::vector<TextScore>& scores) {
  Json json = Json::array();
  for (const TextScore& score : scores) {
    Json& of_policy = json.emplace_back(Json::object());
    for (const auto& [name, member] : kCounts) of_policy[name] = score.*member;
    for (const auto& [name, member] : kSums) of_policy[name] = score.*member;
    SetSequenceReport(score.cache, &of_policy);
  }
  return json;
}

Result<std::vector<TextScore>> ParseScores(const Json& json, size_t num_policies) {
  if (!json.is_array() || json.size() != num_policies) {
    return BadFile("a unit's value: expected an array of " + std::to_string(num_policies) + " policies");
  }
  std::vector<TextScore> scores;
  for (const Json& of_policy : json) {
    WINNOW_ASSIGN_OR_RETURN(TextScore score, ParseScore(of_policy));
    scores.push_back(std::move(score));
  }
  return scores;
}

Result<LossWork> RunLossUnits(const EvalLossOptions& options, const std::vector<EvalText>& texts, const LossUnits& run,
                              std::vector<BudgetStudy>* studies) {
  const bool is_first = run.world.rank() == 0;
  const int ranks_per_group = run.world.size() / run.num_groups;
  const int my_group = run.world.rank() / ranks_per_group;
  const std::vector<Unit> units = UnitsOf(options, *studies, texts);
  const std::vector<std::byte> is_finished = FinishedUnits(run, units, *studies, texts);

  std::vector<Json> values(units.size());  // on rank 0
  std::vector<size_t> pending;
  LossWork work{.tokens = 0, .units = int64_t(units.size()), .resumed = 0};
  uint64_t total = 0, done_before = 0;
  Status resumed = OkStatus();
  for (size_t i = 0; i < units.size(); ++i) {
    if (is_finished[i] == std::byte(0)) {
      pending.push_back(i);
      total += uint64_t(units[i].tokens);
      continue;
    }
    ++work.resumed;
    if (!is_first) continue;
    const std::string name = NameOf(units[i], *studies, texts);
    values[i] = run.journal->finished().at(name);
    const Status read = ParseScores(values[i], options.policies.size()).status();
    if (resumed.ok() && !read.ok()) resumed = BadFile("journal, unit '" + name + "': " + std::string(read.message()));
  }
  WINNOW_RETURN_IF_ERROR(AgreeOnStatus(run.world, resumed));  // before hours of work, not after

  std::unique_ptr<ProgressBar> bar;
  if (is_first) {
    bar = std::make_unique<ProgressBar>(
        ForStandardError({.label = "reading texts", .total = total, .step_name = "tokens"}));
  }
  // In rounds: every group reads one text, then rank 0 gets what came out, and the journal has it.
  for (size_t begin = 0; begin < pending.size(); begin += size_t(run.num_groups)) {
    const size_t in_round = std::min(size_t(run.num_groups), pending.size() - begin);
    std::vector<std::byte> mine;
    if (size_t(my_group) < in_round) {
      const Unit& unit = units[pending[begin + size_t(my_group)]];
      const auto cases = CasesOf(options, (*studies)[unit.study], texts[unit.text]).value();
      auto scores = RunLossStudy(run.engine.runner(), texts[unit.text], cases, options.seed, [&](int64_t done) {
        // Rank 0 sees its own group's progress; the others' is about the same.
        if (bar) bar->Update(done_before + uint64_t(done) * in_round);
      });
      if (!scores.ok()) run.world.Abort(scores.status());  // nobody can go on
      mine = BytesOf(ScoresJson(*scores));
    }
    Status kept = OkStatus();
    for (size_t group = 0; group < in_round; ++group) {
      const size_t i = pending[begin + group];
      std::vector<std::byte> bytes = int(group) == my_group ? mine : std::vector<std::byte>();
      run.world.Broadcast(bytes, int(group) * ranks_per_group);
      done_before += uint64_t(units[i].tokens);
      work.tokens +=
          units[i].tokens + (int64_t(texts[units[i].text].tokens.size()) - 1) * int64_t(options.policies.size());
      if (!is_first) continue;
      values[i] = JsonOf(bytes);
      if (run.journal != nullptr && kept.ok()) {
        kept = run.journal->Append(NameOf(units[i], *studies, texts), values[i]);
      }
    }
    WINNOW_RETURN_IF_ERROR(AgreeOnStatus(run.world, kept));
    if (bar) bar->Update(done_before);
  }
  if (bar) bar->Finish();

  Status read = OkStatus();
  if (is_first) {
    std::vector<size_t> order(units.size());  // studies and texts in order again
    std::iota(order.begin(), order.end(), size_t(0));
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::pair(units[a].study, units[a].text) < std::pair(units[b].study, units[b].text);
    });
    for (size_t i : order) {
      auto scores = ParseScores(values[i], options.policies.size());
      read = scores.status();
      if (!read.ok()) break;
      const EvalText& text = texts[units[i].text];
      for (size_t policy = 0; policy < scores->size(); ++policy) {
        (*studies)[units[i].study].texts[policy].push_back({text.id, text.kind, std::move((*scores)[policy])});
      }
    }
  }
  WINNOW_RETURN_IF_ERROR(AgreeOnStatus(run.world, read));
  return work;
}

}  // namespace winnow
