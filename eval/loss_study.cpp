#include "eval/loss_study.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace winnow {
namespace {

// Rows of one step over all cases: their logits are on the host at the same time (49,152 x 4 bytes each).
constexpr int64_t kMaxRowsPerStep = 256;

Request RequestOf(const EvalText& text, const EvictionSettings& eviction, uint64_t seed, int64_t id) {
  Request request;
  request.id = id;
  request.prompt = text.tokens;
  request.original_prompt_tokens = text.prompt_tokens;
  request.max_tokens = 1;
  request.sampling.seed = seed;
  request.eviction = eviction;
  return request;
}

bool LooksAhead(const EvictionSettings& eviction) {
  return MakePolicy(eviction.policy).value()->observations().future;
}

// Where evictions fall in the cases that look ahead: a recording for each.
std::vector<QueryBlocks> RecordingsOf(const std::vector<EvictionSettings>& cases) {
  std::vector<QueryBlocks> recordings;
  for (const EvictionSettings& eviction : cases) {
    const QueryBlocks blocks = BlocksBetweenEvictions(eviction);
    if (!LooksAhead(eviction) || std::find(recordings.begin(), recordings.end(), blocks) != recordings.end()) continue;
    recordings.push_back(blocks);
  }
  return recordings;
}

// The recordings of the tokens that are read, which are all but the last, numbered from 1 on.
Status Record(ModelRunner& runner, const EvalText& text, const std::vector<EvictionSettings>& cases,
              std::vector<Request>* requests, const std::function<void(int64_t tokens_done)>& progress) {
  const std::vector<QueryBlocks> recordings = RecordingsOf(cases);
  const auto tokens = std::span(text.tokens).first(text.tokens.size() - 1);
  for (size_t i = 0; i < recordings.size(); ++i) {
    const auto progress_of_all = [&](int64_t done) {
      if (progress) progress(int64_t(i * tokens.size()) + done);
    };
    WINNOW_RETURN_IF_ERROR(runner.Record(int64_t(i) + 1, tokens, recordings[i], progress_of_all));
    for (Request& request : *requests) {
      if (!request.eviction.evicts() || !LooksAhead(request.eviction)) continue;
      if (BlocksBetweenEvictions(request.eviction) == recordings[i]) request.recording = int64_t(i) + 1;
    }
  }
  return OkStatus();
}

// The first row that an eviction can have touched.
int64_t FirstRow(const EvictionSettings& eviction, const EvalText& text) {
  return eviction.timing == EvictionTiming::kAfterPrefill ? text.prompt_tokens : eviction.Trigger();
}

// The full cache first, then the cases.
std::vector<Request> RequestsOf(const EvalText& text, const std::vector<EvictionSettings>& cases, uint64_t seed) {
  std::vector<Request> requests = {RequestOf(text, {}, seed, 0)};
  for (const EvictionSettings& eviction : cases) {
    requests.push_back(RequestOf(text, eviction, seed, int64_t(requests.size())));
  }
  return requests;
}

// What every position gave under one case.
struct Trace {
  std::string policy;
  EvictionSchedule schedule;
  std::vector<RowScore> rows;
};

// The indices of `entropies` that are among the highest fifth; ties go to the earlier position.
std::vector<uint8_t> HighestFifth(const std::vector<double>& entropies) {
  std::vector<size_t> order(entropies.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return entropies[a] > entropies[b]; });
  std::vector<uint8_t> is_high(entropies.size(), 0);
  for (size_t i = 0; i < entropies.size() / 5; ++i) is_high[order[i]] = 1;
  return is_high;
}

// Row i predicts token i + 1 from the tokens 0 .. i; the first one after an eviction at n tokens is row n.
TextScore Sum(const std::vector<RowScore>& full, const std::vector<RowScore>& rows, int64_t first_row) {
  TextScore score;
  std::vector<double> entropies;
  for (size_t i = size_t(first_row); i < rows.size(); ++i) entropies.push_back(full[i].entropy);
  const std::vector<uint8_t> is_high = HighestFifth(entropies);
  for (size_t i = size_t(first_row); i < rows.size(); ++i) {
    ++score.positions;
    score.loss += rows[i].loss;
    score.full_loss += full[i].loss;
    if (is_high[i - size_t(first_row)]) {
      ++score.high_entropy_positions;
      score.high_entropy_loss += rows[i].loss;
      score.high_entropy_full_loss += full[i].loss;
    }
    score.kl += rows[i].kl;
    score.top1_agreement += rows[i].top == full[i].top;
  }
  return score;
}

// The next step of all cases together: as many tokens as none of them has to cut.
StepPlan NextStep(int64_t step, int64_t num_tokens, const std::vector<Trace>& traces) {
  StepPlan plan;
  plan.step = step;
  for (size_t i = 0; i < traces.size(); ++i) {
    EvictionSchedule schedule = traces[i].schedule;
    const EvictionSchedule::Due due = schedule.Advance(num_tokens);
    plan.items.push_back({.request_id = int64_t(i),
                          .num_tokens = num_tokens,
                          .sample = false,
                          .score = true,
                          .reference_item = i == 0 ? -1 : 0,
                          .pinned_block = due.pinned_block,
                          .evict = due.evict});
  }
  return plan;
}

Status TakeScores(const std::vector<RowScore>& scores, int64_t num_tokens, std::vector<Trace>& traces) {
  WINNOW_CHECK(int64_t(scores.size()) == num_tokens * int64_t(traces.size()));
  for (size_t i = 0; i < traces.size(); ++i) {
    for (int64_t row = 0; row < num_tokens; ++row) {
      const RowScore& score = scores[i * size_t(num_tokens) + size_t(row)];
      if (!score.status.ok()) return Status(score.status.code(), traces[i].policy + ": " + score.status.message());
      traces[i].rows.push_back(score);
    }
  }
  return OkStatus();
}

}  // namespace

int64_t LossStudySlots(const EvalText& text, const std::vector<EvictionSettings>& cases, const KvShards& shards) {
  std::vector<int64_t> pages(shards.num_ranks(), 0);
  for (const Request& request : RequestsOf(text, cases, 0)) AddPages(PagesToReserve(request, shards), &pages);
  return PoolSlotsOf(pages, shards);
}

int64_t LossStudyTokens(const EvalText& text, const std::vector<EvictionSettings>& cases) {
  return (int64_t(text.tokens.size()) - 1) * (1 + int64_t(RecordingsOf(cases).size()));
}

Result<std::vector<TextScore>> RunLossStudy(ModelRunner& runner, const EvalText& text,
                                            const std::vector<EvictionSettings>& cases, uint64_t seed,
                                            const std::function<void(int64_t tokens_done)>& progress) {
  const int64_t num_rows = int64_t(text.tokens.size()) - 1;  // the last token is only predicted
  WINNOW_CHECK(num_rows > 0);
  for (const EvictionSettings& eviction : cases) {
    WINNOW_CHECK(eviction.timing == EvictionTiming::kChunked || text.prompt_tokens > 0);
  }
  std::vector<Request> requests = RequestsOf(text, cases, seed);
  WINNOW_RETURN_IF_ERROR(Record(runner, text, cases, &requests, progress));
  const int64_t num_recordings = int64_t(RecordingsOf(cases).size());
  std::vector<Trace> traces;
  for (const Request& request : requests) traces.push_back({request.eviction.policy, EvictionSchedule(request), {}});
  std::vector<double> kept_ratio_sums(traces.size(), 0.0);

  const int64_t rows_per_case = std::max<int64_t>(1, kMaxRowsPerStep / int64_t(traces.size()));
  int64_t done = 0;
  for (int64_t step = 0; done < num_rows; ++step) {
    int64_t num_tokens = std::min(rows_per_case, num_rows - done);
    for (const Trace& trace : traces) num_tokens = std::min(num_tokens, trace.schedule.TokensUntilCut());
    StepPlan plan = NextStep(step, num_tokens, traces);
    if (step == 0) plan.admitted = std::move(requests);
    WINNOW_ASSIGN_OR_RETURN(const StepResult result, runner.Execute(plan));
    WINNOW_RETURN_IF_ERROR(TakeScores(result.scores, num_tokens, traces));
    for (size_t i = 0; i < traces.size(); ++i) {
      const int64_t slots = traces[i].schedule.slots();
      for (int64_t n = 1; n <= num_tokens; ++n) kept_ratio_sums[i] += double(slots + n) / double(done + n);
      traces[i].schedule.Advance(num_tokens);
    }
    done += num_tokens;
    if (progress) progress(num_recordings * num_rows + done);
  }

  StepPlan last;
  for (size_t i = 0; i < traces.size(); ++i) last.finished.push_back(int64_t(i));
  WINNOW_ASSIGN_OR_RETURN(const StepResult result, runner.Execute(last));
  for (int64_t i = 1; i <= num_recordings; ++i) runner.DropRecording(i);
  std::vector<TextScore> scores;
  for (size_t i = 1; i < traces.size(); ++i) {
    const int64_t first_row = std::min(FirstRow(cases[i - 1], text), num_rows);
    TextScore& score = scores.emplace_back(Sum(traces[0].rows, traces[i].rows, first_row));
    score.kept_ratio_sum = kept_ratio_sums[i];
    score.tokens = num_rows;
    score.cache = result.finished[i];
  }
  return scores;
}

}  // namespace winnow
