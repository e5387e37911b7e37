#include "launch/generate_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/printable_text.h"
#include "engine/resume_point.h"
#include "launch/load_json.h"
#include "launch/number_text.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

double PerSecond(int64_t count, double seconds) {
  return seconds > 0 ? double(count) / seconds : 0;
}

Json CountersJson(const CollectiveCounters& counters) {
  return {{"calls", counters.calls}, {"payload_bytes", counters.payload_bytes}};
}

Json WorkJson(const WorkReport& work) {
  return {{"steps", work.steps},
          {"rows", work.rows},
          {"sampled_rows", work.sampled_rows},
          {"replay_rows", work.replay_rows},
          {"weight_bytes_per_rank", work.weight_bytes},
          {"kv_peak_bytes_per_rank", work.kv_peak_bytes},
          {"matmul_flops_per_rank", work.matmul_flops},
          {"collectives",
           {{"forward", CountersJson(work.forward)},
            {"sampling", CountersJson(work.sampling)},
            {"replay", CountersJson(work.replay)},
            {"replicas", CountersJson(work.replicas)},
            {"total", CountersJson(work.total)}}}};
}

bool EvictsAgain(const EvictionSettings& eviction) {
  return eviction.timing == EvictionTiming::kChunked;
}

// What a head holds at most before the answer begins; where heads have budgets of their own, what they hold on average.
std::string Peak(const EvictionSettings& eviction) {
  return EvictsAgain(eviction) ? "budget + interval" : "prompt";
}

// How the budget was asked for.
Json AskedJson(const EvictionSettings& eviction) {
  if (!eviction.evicts()) return nullptr;
  if (eviction.budget_ratio) return {{"ratio", *eviction.budget_ratio}};
  if (eviction.budget_bytes) return {{"bytes", *eviction.budget_bytes}};
  return {{"tokens", eviction.budget}};
}

Json KvJson(const Request& request, const SequenceReport& kv, const RunSummary& run) {
  const EvictionSettings& eviction = request.eviction;
  Json json = {{"policy", eviction.policy}};
  json["budget"] = eviction.evicts() ? Json(eviction.budget) : Json(nullptr);
  json["larger_heads"] = eviction.evicts() ? Json(eviction.larger_heads) : Json(nullptr);
  json["asked"] = AskedJson(eviction);
  json["interval"] = eviction.evicts() && EvictsAgain(eviction) ? Json(eviction.interval) : Json(nullptr);
  json["peak"] = eviction.evicts() ? Json(Peak(eviction)) : Json(nullptr);
  json["scope"] = eviction.evicts() ? Json(Name(*eviction.scope)) : Json(nullptr);
  json["allocation"] = eviction.evicts() ? Json(Name(*eviction.allocation)) : Json(nullptr);
  json["positions"] = MakePolicy(eviction.policy).value()->positions();
  json["sink_tokens"] = eviction.sink_tokens;
  json["recent_tokens"] = eviction.recent_tokens;
  json["protect_prompt"] = eviction.protect_prompt;
  json["dtype"] = run.kv_cache_dtype;
  json["tokens_seen"] = kv.tokens_seen;
  json["evictions"] = kv.evictions;
  json["kept_entries"] = kv.kept_entries;
  json["evicted_entries"] = kv.evicted_entries;
  json["full_entries"] = kv.full_entries;
  json["peak_bytes_per_rank"] = kv.peak_bytes_per_rank;
  json["load_per_rank"] = LoadJson(kv.load);
  json["pages_freed"] = kv.pages_freed;
  return json;
}

// A line of the table; thousands are grouped, which is why numbers come as text.
std::string Line(std::string_view name, const std::string& value) {
  return fmt::format("  {:<24} {}\n", name, value);
}

// "512 tokens a KV head, evicting every 128"
std::string BudgetText(const EvictionSettings& eviction) {
  if (!eviction.evicts()) return "none";
  std::string text = Grouped(eviction.budget);
  if (eviction.larger_heads > 0) text += " or " + Grouped(eviction.budget + 1);
  text += " tokens a KV head";
  if (eviction.budget_ratio) text += fmt::format(" (ratio {} of the prompt)", *eviction.budget_ratio);
  if (eviction.budget_bytes) text += fmt::format(" ({} bytes over all ranks)", Grouped(*eviction.budget_bytes));
  return text + (EvictsAgain(eviction) ? ", evicting every " + Grouped(eviction.interval) : ", evicting once");
}

// "snapkv (scope head, peak = budget + interval, positions = absolute)", with the allocation where heads compete.
std::string PolicyText(const EvictionSettings& eviction) {
  if (!eviction.evicts()) return eviction.policy;
  std::string text = fmt::format("{} (scope {}", eviction.policy, Name(*eviction.scope));
  if (*eviction.allocation != BudgetAllocation::kHead)
    text += fmt::format(", allocation {}", Name(*eviction.allocation));
  return text +
         fmt::format(", peak = {}, positions = {})", Peak(eviction), MakePolicy(eviction.policy).value()->positions());
}

// Tokens of the prompt whose keys and values came from a file, and those that were read.
int64_t LoadedTokens(const Request& request) {
  return request.resume != nullptr ? request.resume->cache.tokens_seen : 0;
}
int64_t PrefillTokens(const Request& request) {
  return int64_t(request.prompt.size()) - LoadedTokens(request);
}

// Whether a random number has any part in the answer.
bool IsRandom(const Request& request) {
  return request.sampling.temperature > 0 || request.eviction.policy == "random";
}

}  // namespace

std::string HexTokenHash(const std::vector<int32_t>& token_ids) {
  uint64_t hash = 0;
  for (int32_t id : token_ids) hash = HashWords({hash, uint64_t(uint32_t(id))});
  return Hex(hash);
}

Json CompletionJson(const Request& request, const Completion& completion, const std::string& text,
                    const RunSummary& run) {
  const int64_t generated = int64_t(completion.token_ids.size());
  Json json;
  json["id"] = request.id;
  json["text"] = text;
  json["token_ids"] = completion.token_ids;
  json["logprobs"] = completion.logprobs;
  json["finish_reason"] = Name(completion.finish_reason);
  if (!completion.error.ok()) json["error"] = completion.error.message();
  json["usage"] = {{"prompt_tokens", request.prompt.size()},
                   {"loaded_tokens", LoadedTokens(request)},
                   {"completion_tokens", generated},
                   {"total_tokens", int64_t(request.prompt.size()) + generated}};
  json["sampling"] = {{"temperature", request.sampling.temperature},
                      {"top_k", request.sampling.top_k},
                      {"top_p", request.sampling.top_p},
                      {"min_p", request.sampling.min_p},
                      {"seed", request.sampling.seed},
                      {"choice_index", request.choice_index}};
  json["kv"] = KvJson(request, completion.kv, run);
  json["hash"] = {{"tokens", HexTokenHash(completion.token_ids)}, {"kept", Hex(completion.kv.kept_hash)}};
  json["timing"] = {{"prefill_seconds", completion.prefill_seconds},
                    {"decode_seconds", completion.decode_seconds},
                    {"prefill_tokens_per_second", PerSecond(PrefillTokens(request), completion.prefill_seconds)},
                    {"decode_tokens_per_second", PerSecond(generated - 1, completion.decode_seconds)}};
  json["work"] = WorkJson(run.work);
  json["run"] = {
      {"model", run.config.name}, {"ranks", run.num_ranks},           {"threads_per_rank", run.threads_per_rank},
      {"backend", run.backend},   {"communicator", run.communicator}, {"numerics", run.numerics}};
  return json;
}

std::string SummaryTable(const std::vector<Request>& requests, const std::vector<Completion>& completions,
                         const RunSummary& run) {
  int64_t prompt_tokens = 0, loaded_tokens = 0, generated = 0, decoded = 0, kept = 0, evicted = 0, full = 0,
          pages_freed = 0;
  double prefill_seconds = 0, decode_seconds = 0;
  uint64_t kept_hash = 0;
  RankLoad load;
  std::vector<int32_t> all_tokens;
  for (size_t i = 0; i < completions.size(); ++i) {
    const Completion& completion = completions[i];
    prompt_tokens += PrefillTokens(requests[i]);
    loaded_tokens += LoadedTokens(requests[i]);
    generated += int64_t(completion.token_ids.size());
    decoded += std::max<int64_t>(0, int64_t(completion.token_ids.size()) - 1);
    prefill_seconds += completion.prefill_seconds;
    decode_seconds += completion.decode_seconds;
    kept += completion.kv.kept_entries;
    evicted += completion.kv.evicted_entries;
    full += completion.kv.full_entries;
    pages_freed += completion.kv.pages_freed;
    kept_hash += completion.kv.kept_hash;
    AddLoad(completion.kv.load, &load);
    all_tokens.insert(all_tokens.end(), completion.token_ids.begin(), completion.token_ids.end());
  }
  const auto same = [&](const auto& text_of) {
    const std::string first = text_of(requests.front());
    const bool all = std::all_of(requests.begin(), requests.end(),
                                 [&](const Request& request) { return text_of(request) == first; });
    return all ? first : "per request, see --json";
  };
  const double share = full > 0 ? 100.0 * double(kept) / double(full) : 100.0;
  std::string table;
  table += Line("model", Printable(run.config.name));
  table += Line("ranks x threads",
                fmt::format("{} x {} ({}, {})", run.num_ranks, run.threads_per_rank, run.communicator, run.backend));
  table += Line("numerics", run.numerics);
  if (std::any_of(requests.begin(), requests.end(), IsRandom)) {
    table += Line("seed", same([](const Request& request) { return std::to_string(request.sampling.seed); }));
  }
  table += Line("policy", same([](const Request& request) { return PolicyText(request.eviction); }));
  table += Line("budget", same([](const Request& request) { return BudgetText(request.eviction); }));
  if (loaded_tokens > 0) table += Line("loaded", Grouped(loaded_tokens) + " tokens with their KV cache");
  table += Line("prefill", fmt::format("{} tokens, {:.1f} tokens/s", Grouped(prompt_tokens),
                                       PerSecond(prompt_tokens, prefill_seconds)));
  table +=
      Line("decode", fmt::format("{} tokens, {:.1f} tokens/s", Grouped(generated), PerSecond(decoded, decode_seconds)));
  table += Line("KV entries full", Grouped(full));
  table += Line("KV entries kept", fmt::format("{} ({:.1f} %)", Grouped(kept), share));
  table += Line("KV entries evicted", Grouped(evicted));
  table += Line("KV entries per rank", LoadText(load));
  table += Line("KV peak bytes per rank", PerRank(run.work.kv_peak_bytes));
  table += Line("KV pages freed", Grouped(pages_freed) + " by evictions");
  table += Line("weight bytes per rank", PerRank(run.work.weight_bytes));
  table += Line("hash of tokens", HexTokenHash(all_tokens));
  table += Line("hash of kept sets", Hex(kept_hash));
  return table;
}

}  // namespace winnow
