#include "launch/generate_requests.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "engine/context_replay.h"
#include "launch/drawn_seed.h"
#include "launch/json_fields.h"
#include "launch/replay_prompt.h"
#include "launch/text_file.h"

namespace winnow {
namespace {

using Json = nlohmann::json;

// One prompt and the numbers that go with it.
struct Asked {
  std::string text;
  std::optional<std::vector<int32_t>> ids;  // instead of it
  std::string where;                        // for messages: "--prompt", "notes.txt", "p.jsonl line 3"
  int64_t max_tokens;
  bool ignore_eos;
  SamplingParams sampling;
  EvictionSettings eviction;
  std::vector<std::string> eviction_fields;  // of its line in a prompts file
};

template <class T>
Status TakeNumber(const Json& value, T* out) {
  if constexpr (std::is_same_v<T, bool>) {
    if (!value.is_boolean()) return InvalidArgument("expected true or false, found " + Describe(value));
    *out = value.get<bool>();
  } else if constexpr (std::is_integral_v<T>) {
    const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= uint64_t(std::numeric_limits<T>::max())
                                                 : value.is_number_integer() && !std::is_unsigned_v<T> &&
                                                       value.get<int64_t>() >= int64_t(std::numeric_limits<T>::min());
    if (!fits) return InvalidArgument("expected a whole number in range, found " + Describe(value));
    *out = value.get<T>();
  } else {
    if (!value.is_number()) return InvalidArgument("expected a number, found " + Describe(value));
    *out = value.get<T>();
  }
  return OkStatus();
}

Status TakeText(const Json& value, std::string* out) {
  if (!value.is_string()) return InvalidArgument("expected text, found " + Describe(value));
  *out = value.get<std::string>();
  return OkStatus();
}

// Text, or a list of token ids.
Status TakePrompt(const Json& value, Asked* asked) {
  if (!value.is_array()) return TakeText(value, &asked->text);
  std::vector<int32_t>& ids = asked->ids.emplace();
  for (const Json& id : value) WINNOW_RETURN_IF_ERROR(TakeNumber(id, &ids.emplace_back()));
  return OkStatus();
}

// Text that messages can repeat as it is.
Status TakeName(const Json& value, std::string* out) {
  WINNOW_RETURN_IF_ERROR(TakeText(value, out));
  if (Describe(value) != '"' + *out + '"') return InvalidArgument("expected a name, found " + Describe(value));
  return OkStatus();
}

Status TakeField(const std::string& key, const Json& value, Asked* asked) {
  if (key == "max_tokens") return TakeNumber(value, &asked->max_tokens);
  if (key == "ignore_eos") return TakeNumber(value, &asked->ignore_eos);
  if (key == "temperature") return TakeNumber(value, &asked->sampling.temperature);
  if (key == "top_k") return TakeNumber(value, &asked->sampling.top_k);
  if (key == "top_p") return TakeNumber(value, &asked->sampling.top_p);
  if (key == "min_p") return TakeNumber(value, &asked->sampling.min_p);
  if (key == "seed") return TakeNumber(value, &asked->sampling.seed);
  if (key == "kv_protect_prompt") return TakeNumber(value, &asked->eviction.protect_prompt);
  if (key == "kv_interval") return TakeNumber(value, &asked->eviction.interval);
  if (key == "kv_sink_tokens") return TakeNumber(value, &asked->eviction.sink_tokens);
  if (key == "kv_recent_tokens") return TakeNumber(value, &asked->eviction.recent_tokens);
  if (key == "prompt") return TakePrompt(value, asked);
  if (key == "kv_eviction") return TakeName(value, &asked->eviction.policy);
  if (key == "kv_scope") {
    std::string name;
    WINNOW_RETURN_IF_ERROR(TakeName(value, &name));
    WINNOW_ASSIGN_OR_RETURN(asked->eviction.scope, ParseEvictionScope(name));
    return OkStatus();
  }
  if (key == "kv_allocation") {
    std::string name;
    WINNOW_RETURN_IF_ERROR(TakeName(value, &name));
    WINNOW_ASSIGN_OR_RETURN(asked->eviction.allocation, ParseBudgetAllocation(name));
    return OkStatus();
  }
  return InvalidArgument("unknown field");
}

// A line's budget takes the place of the flags', in whatever form that was given.
Status TakeBudget(const std::string& key, const Json& value, EvictionSettings* eviction) {
  eviction->budget = 0;
  eviction->budget_ratio.reset();
  eviction->budget_bytes.reset();
  if (key == "kv_budget") return TakeNumber(value, &eviction->budget);
  if (key == "kv_ratio") return TakeNumber(value, &eviction->budget_ratio.emplace());
  return TakeNumber(value, &eviction->budget_bytes.emplace());
}

// One line of a prompts file.
Status TakeLine(const std::vector<JsonField>& fields, Asked* asked) {
  bool has_prompt = false;
  std::string budget_field;
  for (const auto& [name, value] : fields) {
    has_prompt |= name == "prompt";
    const bool is_budget = name == "kv_budget" || name == "kv_ratio" || name == "kv_budget_bytes";
    if (is_budget && !budget_field.empty()) {
      return InvalidArgument(budget_field + " and " + name + ": expected one budget");
    }
    if (is_budget) budget_field = name;
    if (name.starts_with("kv_") && name != "kv_eviction") asked->eviction_fields.push_back(name);
    const Status status = is_budget ? TakeBudget(name, value, &asked->eviction) : TakeField(name, value, asked);
    if (!status.ok()) return InvalidArgument("field " + Describe(name) + ": " + status.message());
  }
  return has_prompt ? OkStatus() : InvalidArgument("expected the field \"prompt\"");
}

Result<std::vector<Asked>> ReadJsonLines(const std::string& path, const Asked& defaults) {
  WINNOW_ASSIGN_OR_RETURN(const std::string content, ReadTextFile(path, "prompt file"));
  std::vector<Asked> all;
  const auto take = [&](const std::string& where, const std::vector<JsonField>& fields) {
    all.push_back(defaults);
    all.back().where = where;
    return TakeLine(fields, &all.back());
  };
  WINNOW_RETURN_IF_ERROR(ForEachJsonLine(path, content, take));
  if (all.empty()) return InvalidArgument("prompt file '" + path + "' holds no prompt");
  return all;
}

Result<std::vector<Asked>> ReadPrompts(const GenerateOptions& options) {
  Asked asked{"", {}, "--prompt", options.max_tokens, options.ignore_eos, options.sampling, options.eviction, {}};
  // One seed for the whole run, unless a line brings its own: the same prompt twice then gives the same answer twice.
  asked.sampling.seed = options.seed ? *options.seed : DrawSeed();
  if (options.prompts_file) return ReadJsonLines(*options.prompts_file, asked);
  if (options.prompt) {
    asked.text = *options.prompt;
  } else {
    WINNOW_ASSIGN_OR_RETURN(asked.text, ReadTextFile(*options.prompt_file, "prompt file"));
    asked.where = *options.prompt_file;
  }
  return std::vector<Asked>{asked};
}

// The numbers that go with a prompt; the messages name the flag or field.
Status CheckNumbers(const Asked& asked) {
  WINNOW_RETURN_IF_ERROR(CheckSamplingParams(asked.sampling));
  if (asked.max_tokens >= 1) return OkStatus();
  return InvalidArgument("max_tokens: expected 1 or more, found " + std::to_string(asked.max_tokens));
}

Result<Request> ToRequest(const Asked& asked, const Tokenizer& tokenizer, int64_t context) {
  Request request;
  if (asked.ids ? asked.ids->empty() : asked.text.empty()) return InvalidArgument("the prompt is empty");
  if (asked.ids) {
    WINNOW_RETURN_IF_ERROR(tokenizer.Decode(*asked.ids).status());  // ids of the vocabulary
    request.prompt = *asked.ids;
  } else {
    WINNOW_ASSIGN_OR_RETURN(request.prompt, tokenizer.Encode(asked.text));
    if (request.prompt.empty()) return InvalidArgument("the prompt has no token in this model's vocabulary");
  }
  const int64_t length = int64_t(request.prompt.size());
  if (length >= context) {
    return InvalidArgument("the prompt has " + std::to_string(length) + " tokens, the context " +
                           std::to_string(context) + ": shorten it or raise --max-model-len");
  }
  request.max_tokens = std::min(asked.max_tokens, context - length);
  if (!asked.ignore_eos) request.stop_token_ids = tokenizer.eos_ids();
  request.sampling = asked.sampling;
  return request;
}

// Of these flags or fields of eviction, those that the policy makes no use of.
std::vector<std::string> Unused(const EvictionSettings& eviction, const std::vector<std::string>& names) {
  if (!eviction.evicts()) return names;
  std::vector<std::string> unused;
  for (const std::string& name : names) {
    const bool is_interval = name == "--kv-interval" || name == "kv_interval";
    if (is_interval && eviction.timing == EvictionTiming::kAfterPrefill) unused.push_back(name);
  }
  return unused;
}

// Says so, once for each policy and set of names.
void NoteUnused(const EvictionSettings& eviction, const std::vector<std::string>& names,
                std::vector<std::string>* notes) {
  if (names.empty()) return;
  std::string note = "policy " + eviction.policy +
                     (eviction.evicts() ? " evicts once, when the prompt has been read: " : " keeps everything: ");
  for (const std::string& name : names) note += (&name == &names.front() ? "" : ", ") + name;
  note += names.size() == 1 ? " is not used" : " are not used";
  if (std::find(notes->begin(), notes->end(), note) == notes->end()) notes->push_back(note);
}

// Notes fields that do nothing in their line, and flags that do nothing in any.
void NoteUnused(const GenerateOptions& options, const std::vector<Asked>& prompts, const std::vector<Request>& requests,
                std::vector<std::string>* notes) {
  std::vector<std::string> flags = options.eviction_flags;
  for (size_t i = 0; i < prompts.size(); ++i) {
    NoteUnused(requests[i].eviction, Unused(requests[i].eviction, prompts[i].eviction_fields), notes);
    flags = Unused(requests[i].eviction, flags);
  }
  NoteUnused(requests.front().eviction, flags, notes);
}

}  // namespace

Result<PreparedRequests> PrepareRequests(const GenerateOptions& options, const ModelConfig& config,
                                         const Tokenizer& tokenizer) {
  PreparedRequests prepared;
  prepared.context = options.max_model_len.value_or(config.max_context);
  if (prepared.context > config.max_context) {
    prepared.notes.push_back("--max-model-len " + std::to_string(prepared.context) +
                             " is above the model's context of " + std::to_string(config.max_context) +
                             ": good for memory and speed, not for the quality of the text");
  }
  WINNOW_ASSIGN_OR_RETURN(const std::vector<Asked> prompts, ReadPrompts(options));
  const KvShape shape{config.num_layers, config.num_kv_heads, BytesOf(options.kv_dtype(), 2 * config.head_dim)};
  for (const Asked& asked : prompts) {
    const auto at = [&](const Status& status) { return Status(status.code(), asked.where + ": " + status.message()); };
    // Numbers of a single prompt come from flags, which the message names.
    const auto of_flag = [&](const Status& status) { return options.prompts_file ? at(status) : status; };
    if (Status status = CheckNumbers(asked); !status.ok()) return of_flag(status);
    auto request = ToRequest(asked, tokenizer, prepared.context);
    if (!request.ok()) return at(request.status());
    auto eviction = ResolveEviction(
        asked.eviction, {.prompt_tokens = request->prompt_tokens(), .max_tokens = prepared.context, .shape = shape});
    if (!eviction.ok()) return of_flag(eviction.status());
    request->id = int64_t(prepared.requests.size());
    request->eviction = *eviction;
    if (Replays(request->eviction)) {
      WINNOW_ASSIGN_OR_RETURN(request->eviction.replay_prompt, MakeReplayPrompt(tokenizer));
    }
    if (request->max_tokens < asked.max_tokens) {
      prepared.notes.push_back(asked.where + ": the answer ends after " + std::to_string(request->max_tokens) +
                               " tokens, where the context of " + std::to_string(prepared.context) + " is full");
    }
    prepared.requests.push_back(std::move(request).value());
  }
  NoteUnused(options, prompts, prepared.requests, &prepared.notes);
  return prepared;
}

}  // namespace winnow
