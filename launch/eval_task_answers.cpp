#include "launch/eval_task_answers.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "base/hash.h"
#include "base/progress_bar.h"
#include "engine/step_plan.h"
#include "engine/worker.h"
#include "launch/sequence_report_json.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

// Requests travel as a step's do.
std::vector<std::byte> BytesOf(std::vector<Request> requests) {
  StepPlan plan;
  plan.admitted = std::move(requests);
  return Serialise(plan);
}

std::vector<std::byte> BytesOf(const Json& json) {
  const std::string text = json.dump();
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

// Which requests are still to be answered: the longest first, so that groups have about the same to do.
std::vector<size_t> Pending(const std::vector<Request>& requests, const std::vector<bool>& is_answered) {
  std::vector<size_t> pending;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!is_answered[i]) pending.push_back(i);
  }
  const auto tokens = [&](size_t i) { return requests[i].prompt_tokens() + requests[i].max_tokens; };
  std::stable_sort(pending.begin(), pending.end(), [&](size_t a, size_t b) { return tokens(a) > tokens(b); });
  return pending;
}

// This group's part of a round, on every rank of the group: an array of {"request", "answer"} on its first rank.
Json AnswerPart(const AnswerRun& run, const std::vector<Request>& requests, const std::function<void()>& on_answer) {
  Json given = Json::array();
  if (requests.empty()) return given;
  const auto lead = [&]() -> Status {
    Leader leader(run.engine.runner(), run.group, run.limits);
    for (const Request& request : requests) WINNOW_RETURN_IF_ERROR(leader.Submit(request));
    return leader.Run(
        {.on_step = nullptr, .on_token = nullptr, .on_completion = [&](const Completion& completion) {
           const GivenAnswer answer{completion.token_ids, completion.finish_reason, completion.kv, completion.error};
           given.push_back({{"request", completion.request_id}, {"answer", AnswerJson(answer)}});
           on_answer();
         }});
  };
  const Status status = run.group.rank() == 0 ? lead() : RunWorker(run.engine.runner(), run.group);
  if (!status.ok()) run.world.Abort(status);  // others may be inside a collective: nobody can go on
  return given;
}

// Takes the answers that the journal has. BadFile naming the unit that makes no sense.
Status TakeFinished(const EvalJournal& journal, const std::vector<std::string>& names, AnswerWork* work,
                    std::vector<bool>* is_answered) {
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = journal.finished().find(names[i]);
    if (found == journal.finished().end()) continue;
    auto answer = ParseAnswer(found->second);
    if (!answer.ok()) return BadFile("journal, unit '" + names[i] + "': " + std::string(answer.status().message()));
    work->answers[i] = std::move(answer).value();
    (*is_answered)[i] = true;
    ++work->resumed;
  }
  return OkStatus();
}

// Rank 0: the answers of one group.
Status Keep(const Json& given, const std::vector<std::string>& names, EvalJournal* journal, AnswerWork* work) {
  for (const Json& one : given) {
    const size_t i = one["request"].get<size_t>();
    WINNOW_ASSIGN_OR_RETURN(work->answers[i], ParseAnswer(one["answer"]));
    work->generated_tokens += int64_t(work->answers[i].token_ids.size());
    if (journal != nullptr && work->answers[i].error.ok()) {
      WINNOW_RETURN_IF_ERROR(journal->Append(names[i], one["answer"]));
    }
  }
  return OkStatus();
}

}  // namespace

Json AnswerJson(const GivenAnswer& answer) {
  Json json = {{"token_ids", answer.token_ids}, {"finish_reason", int(answer.finish_reason)}};
  if (!answer.error.ok()) json["error"] = {{"code", int(answer.error.code())}, {"message", answer.error.message()}};
  SetSequenceReport(answer.kv, &json);
  return json;
}

Result<GivenAnswer> ParseAnswer(const Json& json) {
  const auto expected = [](const char* name) {
    return BadFile("a unit's value: expected \"" + std::string(name) + "\"");
  };
  GivenAnswer answer;
  if (!json.is_object() || !json.contains("token_ids") || !json["token_ids"].is_array()) return expected("token_ids");
  for (const Json& id : json["token_ids"]) {
    if (!id.is_number_integer()) return expected("token_ids");
    answer.token_ids.push_back(id.get<int32_t>());
  }
  if (!json.contains("finish_reason") || !json["finish_reason"].is_number_integer()) return expected("finish_reason");
  const int reason = json["finish_reason"].get<int>();
  if (reason < int(FinishReason::kStop) || reason > int(FinishReason::kError)) return expected("finish_reason");
  answer.finish_reason = FinishReason(reason);
  if (json.contains("error")) {
    const Json& error = json["error"];
    if (!error.is_object() || !error.contains("code") || !error["code"].is_number_integer() ||
        !error.contains("message") || !error["message"].is_string()) {
      return expected("error");
    }
    answer.error = Status(StatusCode(error["code"].get<int>()), error["message"].get<std::string>());
  }
  WINNOW_ASSIGN_OR_RETURN(answer.kv, ParseSequenceReport(json));
  return answer;
}

uint64_t HashOf(const std::vector<Request>& requests) {
  const std::vector<std::byte> bytes = BytesOf(requests);
  uint64_t hash = HashWords({bytes.size()});
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof(word), bytes.size() - at));
    hash = HashWords({hash, word});
  }
  return hash;
}

Result<AnswerWork> AnswerRequests(const AnswerRun& run, const std::vector<Request>& requests,
                                  const std::vector<std::string>& names) {
  const bool is_first = run.world.rank() == 0;
  const size_t num_groups = size_t(run.num_groups);
  const int ranks_per_group = run.world.size() / run.num_groups;
  const size_t my_group = size_t(run.world.rank() / ranks_per_group);
  AnswerWork work;
  std::vector<size_t> pending;
  Status taken = OkStatus();
  if (is_first) {
    work.answers.resize(requests.size());
    std::vector<bool> is_answered(requests.size(), false);
    if (run.journal != nullptr) taken = TakeFinished(*run.journal, names, &work, &is_answered);
    pending = Pending(requests, is_answered);
  }
  WINNOW_RETURN_IF_ERROR(AgreeOnStatus(run.world, taken));

  std::unique_ptr<ProgressBar> bar;
  if (is_first) {
    bar = std::make_unique<ProgressBar>(
        ForStandardError({.label = "answering", .total = pending.size(), .step_name = "answers"}));
  }
  // In rounds: every group answers its part, then rank 0 gets the answers, and the journal has them. A round is some
  // batches long, so that the end of one, when few answers are still being given, costs little.
  const bool in_one_round = run.num_groups == 1 && !run.journal;
  constexpr size_t kBatchesPerRound = 4;
  const size_t of_round = in_one_round ? std::max<size_t>(1, pending.size())
                                       : kBatchesPerRound * num_groups * size_t(run.limits.max_num_seqs);
  for (size_t begin = 0;;) {
    std::vector<std::byte> bytes;
    if (is_first) {
      std::vector<Request> round;
      for (size_t i = begin; i < std::min(begin + of_round, pending.size()); ++i) round.push_back(requests[pending[i]]);
      bytes = BytesOf(std::move(round));
    }
    run.world.Broadcast(bytes, 0);
    const std::vector<Request> round = ParseStepPlan(bytes).admitted;
    if (round.empty()) break;
    std::vector<Request> part;
    for (size_t i = my_group; i < round.size(); i += num_groups) part.push_back(round[i]);
    uint64_t done = begin;
    const Json given = AnswerPart(run, part, [&] {
      // Rank 0 sees its own group's progress; the others' is about the same.
      if (bar) bar->Update(done = std::min<uint64_t>(done + num_groups, begin + round.size()));
    });
    Status kept = OkStatus();
    for (size_t group = 0; group < num_groups; ++group) {
      std::vector<std::byte> answers = group == my_group ? BytesOf(given) : std::vector<std::byte>();
      run.world.Broadcast(answers, int(group) * ranks_per_group);
      if (!is_first || !kept.ok()) continue;
      const auto* text = reinterpret_cast<const char*>(answers.data());
      kept = Keep(Json::parse(text, text + answers.size()), names, run.journal, &work);
    }
    WINNOW_RETURN_IF_ERROR(AgreeOnStatus(run.world, kept));
    begin += round.size();
    if (bar) bar->Update(begin);
  }
  if (bar) bar->Finish();
  return work;
}

}  // namespace winnow
