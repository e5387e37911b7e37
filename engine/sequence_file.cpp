#include "engine/sequence_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <set>

#include "engine/context_replay.h"
#include "kv/keep_plan.h"
#include "model/safetensors.h"

namespace winnow {
namespace {

// One more for every change that readers of the old format would misunderstand.
constexpr const char* kFormatVersion = "2";

std::string DTypeName(DType dtype) {
  return dtype == DType::kBF16 ? "bf16" : "f32";
}
std::string NumericsName(Numerics numerics) {
  return numerics == Numerics::kExact ? "exact" : "fast";
}
template <class T>
std::string NameOrNone(const std::optional<T>& choice) {
  return choice ? std::string(Name(*choice)) : "none";
}
std::string Hex(uint64_t value) {
  return fmt::format("{:016x}", value);
}
std::string LayerTensor(int64_t layer, const char* what) {
  return "layers." + std::to_string(layer) + "." + what;
}

std::string IdText(const std::vector<int32_t>& ids) {
  return fmt::format("{}", fmt::join(ids, " "));
}

std::map<std::string, std::string> EvictionMetadata(const EvictionSettings& eviction) {
  std::map<std::string, std::string> metadata = {
      {"eviction.policy", eviction.policy},
      {"eviction.budget", std::to_string(eviction.budget)},
      {"eviction.larger_heads", std::to_string(eviction.larger_heads)},
      {"eviction.interval", std::to_string(eviction.interval)},
      {"eviction.sink_tokens", std::to_string(eviction.sink_tokens)},
      {"eviction.recent_tokens", std::to_string(eviction.recent_tokens)},
      {"eviction.protect_prompt", eviction.protect_prompt ? "true" : "false"},
      {"eviction.scope", NameOrNone(eviction.scope)},
      {"eviction.allocation", NameOrNone(eviction.allocation)},
      {"eviction.timing", std::string(Name(eviction.timing))}};
  if (Replays(eviction)) {
    metadata["eviction.replay_chunk_tokens"] = std::to_string(eviction.replay_prompt.chunk_tokens);
    metadata["eviction.replay_first"] = IdText(eviction.replay_prompt.first);
    metadata["eviction.replay_next"] = IdText(eviction.replay_prompt.next);
  }
  return metadata;
}

std::map<std::string, std::string> MetadataOf(const SequenceFileModel& model, const SavedSequence& saved) {
  auto metadata = EvictionMetadata(saved.eviction);
  metadata.merge(std::map<std::string, std::string>{{"winnow.format_version", kFormatVersion},
                                                    {"model.fingerprint", Hex(model.fingerprint)},
                                                    {"model.name", model.config.name},
                                                    {"kv_cache_dtype", DTypeName(model.kv_cache_dtype)},
                                                    {"numerics", NumericsName(model.numerics)},
                                                    {"prompt_tokens", std::to_string(saved.prompt_tokens)},
                                                    {"seed", std::to_string(saved.seed)},
                                                    {"choice_index", std::to_string(saved.choice_index)},
                                                    {"tokens_seen", std::to_string(saved.resume->cache.tokens_seen)},
                                                    {"evictions", std::to_string(saved.resume->cache.evictions)},
                                                    {"kept_hash", Hex(saved.resume->kept_hash)},
                                                    {"pages_freed", std::to_string(saved.resume->pages_freed)}});
  return metadata;
}

template <class T>
std::span<const uint8_t> BytesOfVector(const std::vector<T>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
void AppendTo(std::vector<T>* all, const std::vector<T>& part) {
  all->insert(all->end(), part.begin(), part.end());
}

SafetensorsType TypeOf(DType dtype) {
  return dtype == DType::kBF16 ? SafetensorsType::kBF16 : SafetensorsType::kF32;
}

// One layer's heads, one after the other: the tensors of the file.
struct LayerRows {
  std::vector<int32_t> lengths, positions;
  std::vector<uint8_t> keys, values;
  std::vector<int64_t> mass;
  std::vector<float> queries;
};

// Reads and checks one file.
class Loader {
 public:
  Loader(const SafetensorsFile& file, const SequenceFileModel& model) : file_(file), model_(model) {}

  Result<SavedSequence> Load() {
    WINNOW_RETURN_IF_ERROR(CheckModel());
    WINNOW_RETURN_IF_ERROR(ReadMetadata());
    WINNOW_RETURN_IF_ERROR(ReadTokens());
    WINNOW_RETURN_IF_ERROR(ReadCache());
    WINNOW_RETURN_IF_ERROR(CheckEviction());
    WINNOW_RETURN_IF_ERROR(CheckFill());
    WINNOW_RETURN_IF_ERROR(CheckNothingElse());
    saved_.resume = std::make_shared<const ResumePoint>(std::move(resume_));
    return std::move(saved_);
  }

 private:
  Status Refuse(const std::string& message) const { return BadFile(file_.path() + ": " + message); }

  Result<std::string> Text(const std::string& key) {
    keys_read_.insert(key);
    return file_.GetMetadata(key);
  }

  Status Expect(const std::string& key, const std::string& expected, const std::string& hint) {
    WINNOW_ASSIGN_OR_RETURN(const std::string found, Text(key));
    if (found == expected) return OkStatus();
    return Refuse(key + ": expected " + expected + ", found '" + found.substr(0, 60) + "'" + hint);
  }

  Status CheckModel() {
    WINNOW_RETURN_IF_ERROR(Expect("winnow.format_version", kFormatVersion, ""));
    WINNOW_RETURN_IF_ERROR(Text("model.name").status());
    WINNOW_RETURN_IF_ERROR(Expect("model.fingerprint", Hex(model_.fingerprint), ": it was saved with another model"));
    WINNOW_RETURN_IF_ERROR(Expect("kv_cache_dtype", DTypeName(model_.kv_cache_dtype), ": give it to --kv-cache-dtype"));
    return Expect("numerics", NumericsName(model_.numerics), ": give it to --numerics");
  }

  template <class T>
  Status Number(const char* key, int base, uint64_t most, T* value) {
    WINNOW_ASSIGN_OR_RETURN(const std::string text, Text(key));
    uint64_t number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number, base);
    const std::string again = base == 16 ? Hex(number) : std::to_string(number);
    if (parsed.ec != std::errc() || again != text || number > most) {
      return Refuse(std::string(key) + ": expected a number from 0 to " + std::to_string(most) + ", found '" +
                    text.substr(0, 60) + "'");
    }
    *value = T(number);
    return OkStatus();
  }
  Status Count(const char* key, int64_t* value) { return Number(key, 10, INT32_MAX, value); }

  template <class T>
  Status Choice(const char* key, Result<T> (*parse)(std::string_view), std::optional<T>* choice) {
    WINNOW_ASSIGN_OR_RETURN(const std::string text, Text(key));
    if (text == "none") return OkStatus();
    const auto parsed = parse(text);
    if (!parsed.ok()) return Refuse(std::string(key) + ": " + parsed.status().message());
    *choice = *parsed;
    return OkStatus();
  }

  Status ReadMetadata() {
    EvictionSettings& eviction = saved_.eviction;
    WINNOW_RETURN_IF_ERROR(Count("prompt_tokens", &saved_.prompt_tokens));
    WINNOW_RETURN_IF_ERROR(Number("seed", 10, UINT64_MAX, &saved_.seed));
    WINNOW_RETURN_IF_ERROR(Count("choice_index", &saved_.choice_index));
    WINNOW_RETURN_IF_ERROR(Count("tokens_seen", &resume_.cache.tokens_seen));
    WINNOW_RETURN_IF_ERROR(Count("evictions", &resume_.cache.evictions));
    WINNOW_RETURN_IF_ERROR(Number("kept_hash", 16, UINT64_MAX, &resume_.kept_hash));
    WINNOW_RETURN_IF_ERROR(Number("pages_freed", 10, INT64_MAX, &resume_.pages_freed));
    WINNOW_ASSIGN_OR_RETURN(eviction.policy, Text("eviction.policy"));
    WINNOW_RETURN_IF_ERROR(Count("eviction.budget", &eviction.budget));
    WINNOW_RETURN_IF_ERROR(Count("eviction.larger_heads", &eviction.larger_heads));
    eviction.num_kv_heads = eviction.larger_heads > 0 ? model_.config.num_kv_heads : 0;
    WINNOW_RETURN_IF_ERROR(Count("eviction.interval", &eviction.interval));
    WINNOW_RETURN_IF_ERROR(Count("eviction.sink_tokens", &eviction.sink_tokens));
    WINNOW_RETURN_IF_ERROR(Count("eviction.recent_tokens", &eviction.recent_tokens));
    WINNOW_ASSIGN_OR_RETURN(const std::string protect, Text("eviction.protect_prompt"));
    if (protect != "true" && protect != "false") {
      return Refuse("eviction.protect_prompt: expected true or false, found '" + protect.substr(0, 60) + "'");
    }
    eviction.protect_prompt = protect == "true";
    WINNOW_RETURN_IF_ERROR(Choice("eviction.scope", &ParseEvictionScope, &eviction.scope));
    WINNOW_RETURN_IF_ERROR(Choice("eviction.allocation", &ParseBudgetAllocation, &eviction.allocation));
    const auto policy = MakePolicy(eviction.policy);
    if (!policy.ok()) return Refuse(policy.status().message());
    observations_ = (*policy)->observations();
    if (observations_.replay == ObservedReplay::kNone) return OkStatus();
    WINNOW_RETURN_IF_ERROR(Count("eviction.replay_chunk_tokens", &eviction.replay_prompt.chunk_tokens));
    WINNOW_RETURN_IF_ERROR(TokenIds("eviction.replay_first", &eviction.replay_prompt.first));
    return TokenIds("eviction.replay_next", &eviction.replay_prompt.next);
  }

  // Ids with a space between each two.
  Status TokenIds(const char* key, std::vector<int32_t>* ids) {
    WINNOW_ASSIGN_OR_RETURN(const std::string text, Text(key));
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at != end) {
      int32_t id = -1;
      const auto parsed = std::from_chars(at, end, id);
      if (parsed.ec != std::errc() || id < 0 || id >= model_.config.vocab_size) break;
      ids->push_back(id);
      at = parsed.ptr == end ? end : parsed.ptr + 1;
    }
    if (IdText(*ids) == text) return OkStatus();
    return Refuse(std::string(key) + ": expected token ids from 0 to " + std::to_string(model_.config.vocab_size - 1) +
                  ", found '" + text.substr(0, 60) + "'");
  }

  template <class T>
  Result<std::vector<T>> Read(const std::string& name, SafetensorsType type, std::vector<int64_t> shape) {
    WINNOW_ASSIGN_OR_RETURN(const SafetensorsTensor tensor, file_.Get(name, type, shape));
    ++tensors_read_;
    std::vector<T> values(tensor.bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
  }

  Status ReadTokens() {
    WINNOW_ASSIGN_OR_RETURN(saved_.tokens, Read<int32_t>("tokens", SafetensorsType::kI32, {-1}));
    const int64_t count = int64_t(saved_.tokens.size());
    if (count != resume_.cache.tokens_seen + 1) {
      return Refuse("tokens: expected one more than the " + std::to_string(resume_.cache.tokens_seen) +
                    " in the cache, found " + std::to_string(count));
    }
    for (int32_t id : saved_.tokens) {
      if (id < 0 || id >= model_.config.vocab_size) {
        return Refuse("tokens: expected ids from 0 to " + std::to_string(model_.config.vocab_size - 1) + ", found " +
                      std::to_string(id));
      }
    }
    if (saved_.prompt_tokens >= 1 && saved_.prompt_tokens < count) return OkStatus();
    return Refuse("prompt_tokens: expected 1 to " + std::to_string(count - 1) + ", found " +
                  std::to_string(saved_.prompt_tokens));
  }

  Status ReadCache() {
    SequenceSnapshot& cache = resume_.cache;
    cache.dtype = model_.kv_cache_dtype;
    cache.head_dim = model_.config.head_dim;
    cache.num_layers = model_.config.num_layers;
    cache.num_kv_heads = model_.config.num_kv_heads;
    WINNOW_ASSIGN_OR_RETURN(cache.pinned_positions, Read<int32_t>("pinned_positions", SafetensorsType::kI32, {-1}));
    with_mass_ = observations_.mass != ObservedMass::kNone;
    WINNOW_RETURN_IF_ERROR(CountQueries());
    for (int64_t layer = 0; layer < cache.num_layers; ++layer) WINNOW_RETURN_IF_ERROR(ReadLayer(layer));
    const Status status = CheckSnapshot(cache);
    return status.ok() ? status : Refuse(status.message());
  }

  // How many tokens' queries the file holds, as its first layer says: none of them outside an observation window.
  Status CountQueries() {
    const auto tensor = file_.tensors().find(LayerTensor(0, "queries"));
    if (!observations_.queries || tensor == file_.tensors().end()) return OkStatus();
    SequenceSnapshot& cache = resume_.cache;
    cache.query_group = model_.config.num_query_heads / model_.config.num_kv_heads;
    const std::vector<int64_t> shape = {cache.num_kv_heads, -1, cache.query_group, cache.head_dim};
    WINNOW_RETURN_IF_ERROR(file_.Get(tensor->first, SafetensorsType::kF32, shape).status());
    cache.query_rows = tensor->second.shape[1];
    if (cache.query_rows > 0) return OkStatus();
    return Refuse(tensor->first + ": expected the queries of 1 or more tokens, found none");
  }

  Status ReadLayer(int64_t layer) {
    SequenceSnapshot& cache = resume_.cache;
    const auto name = [&](const char* what) { return LayerTensor(layer, what); };
    LayerRows rows;
    WINNOW_ASSIGN_OR_RETURN(rows.lengths, Read<int32_t>(name("lengths"), SafetensorsType::kI32, {cache.num_kv_heads}));
    int64_t total = 0;
    for (int32_t length : rows.lengths) {
      if (length < 0) return Refuse(name("lengths") + ": expected 0 or more slots, found " + std::to_string(length));
      total += length;
    }
    WINNOW_ASSIGN_OR_RETURN(rows.positions, Read<int32_t>(name("positions"), SafetensorsType::kI32, {total}));
    const SafetensorsType type = TypeOf(cache.dtype);
    WINNOW_ASSIGN_OR_RETURN(rows.keys, Read<uint8_t>(name("keys"), type, {total, cache.head_dim}));
    WINNOW_ASSIGN_OR_RETURN(rows.values, Read<uint8_t>(name("values"), type, {total, cache.head_dim}));
    if (with_mass_) {
      WINNOW_ASSIGN_OR_RETURN(rows.mass, Read<int64_t>(name("mass"), SafetensorsType::kI64, {total}));
    }
    const int64_t query_floats = cache.query_rows * cache.query_group * cache.head_dim;
    if (cache.query_rows > 0) {
      WINNOW_ASSIGN_OR_RETURN(rows.queries,
                              Read<float>(name("queries"), SafetensorsType::kF32,
                                          {cache.num_kv_heads, cache.query_rows, cache.query_group, cache.head_dim}));
    }
    const int64_t row_bytes = BytesOf(cache.dtype, cache.head_dim);
    int64_t at = 0, at_query = 0;
    for (int32_t length : rows.lengths) {
      const auto part = [&](const auto& all, int64_t per_slot) {
        return std::decay_t<decltype(all)>(all.begin() + at * per_slot, all.begin() + (at + length) * per_slot);
      };
      cache.heads.push_back(
          {.positions = part(rows.positions, 1),
           .keys = part(rows.keys, row_bytes),
           .values = part(rows.values, row_bytes),
           .mass = with_mass_ ? part(rows.mass, 1) : std::vector<int64_t>(),
           .queries = {rows.queries.begin() + at_query, rows.queries.begin() + at_query + query_floats}});
      at += length;
      at_query += query_floats;
    }
    return OkStatus();
  }

  // Resolved settings resolve to themselves.
  Status CheckEviction() {
    EvictionSettings& eviction = saved_.eviction;
    const auto resolved = ResolveEviction(eviction, {.prompt_tokens = saved_.prompt_tokens,
                                                     .pinned_slots = int64_t(resume_.cache.pinned_positions.size())});
    if (!resolved.ok()) return Refuse(resolved.status().message());
    const int64_t num_heads = resume_.cache.num_layers * resume_.cache.num_kv_heads;
    if (eviction.larger_heads >= num_heads || (eviction.larger_heads > 0 && !eviction.evicts())) {
      return Refuse("eviction.larger_heads: expected fewer than the " + std::to_string(num_heads) +
                    " KV heads of a model under a budget, found " + std::to_string(eviction.larger_heads));
    }
    for (const auto& [key, expected] : EvictionMetadata(*resolved)) {
      WINNOW_RETURN_IF_ERROR(Expect(key, expected, ""));
    }
    eviction = *resolved;
    return OkStatus();
  }

  // The engine counts on what evictions leave: every head its budget and what came since, sharing heads the same set.
  Status CheckFill() const {
    const SequenceSnapshot& cache = resume_.cache;
    const EvictionSettings& eviction = saved_.eviction;
    if (cache.evictions > 0 && !eviction.evicts()) {
      return Refuse("evictions: expected 0 under policy " + eviction.policy + ", found " +
                    std::to_string(cache.evictions));
    }
    const int64_t num_heads = cache.num_layers * cache.num_kv_heads;
    const int64_t slots = SlotsPerHead(resume_, eviction);
    const int64_t least = cache.evictions > 0 ? eviction.budget : cache.next_position();
    const bool is_bounded = eviction.evicts() && eviction.timing == EvictionTiming::kChunked;
    if (slots < least || (is_bounded && slots >= eviction.Trigger())) {
      return Refuse("lengths: expected " + std::to_string(least) + " or more slots a head after " +
                    std::to_string(cache.evictions) + " evictions" +
                    (is_bounded ? ", fewer than " + std::to_string(eviction.Trigger()) : "") + ", found " +
                    std::to_string(slots));
    }
    const int64_t entries = slots * num_heads + (cache.evictions > 0 ? eviction.larger_heads : 0);
    if (cache.entries() != entries) {
      return Refuse("lengths: expected " + std::to_string(entries) + " slots over all heads, found " +
                    std::to_string(cache.entries()));
    }
    WINNOW_RETURN_IF_ERROR(CheckQueries(slots));
    const bool is_even = eviction.even_heads || cache.evictions == 0;
    for (int64_t layer = 0; layer < cache.num_layers; ++layer) {
      for (int64_t head = 0; head < cache.num_kv_heads; ++head) {
        const auto refuse = [&](const std::string& message) {
          return Refuse("layer " + std::to_string(layer) + ", KV head " + std::to_string(head) + ": " + message);
        };
        const int64_t more = cache.evictions > 0 ? eviction.head_budgets().BudgetOf(layer, head) - eviction.budget : 0;
        const int64_t length = cache.head(layer, head).length();
        if (is_even && length != slots + more) {
          return refuse("expected " + std::to_string(slots + more) + " slots, found " + std::to_string(length));
        }
        if (NumProtected(cache.head(layer, head)) != NumProtected(cache.head(0, 0))) {
          return refuse("expected the " + std::to_string(NumProtected(cache.head(0, 0))) +
                        " protected slots of the first head, found " +
                        std::to_string(NumProtected(cache.head(layer, head))));
        }
        const bool shares =
            eviction.scope == EvictionScope::kSequence || (eviction.scope == EvictionScope::kLayer && head > 0);
        const HeadSnapshot& first =
            eviction.scope == EvictionScope::kSequence ? cache.head(0, 0) : cache.head(layer, 0);
        if (shares && cache.head(layer, head).positions != first.positions) {
          return refuse("expected the positions of the heads that it shares its kept set with, found others");
        }
      }
    }
    return OkStatus();
  }

  // The engine counts on the queries of all tokens of the window that has begun. Pinned slots among those that came
  // after the last eviction are not told apart, so there may be as many tokens fewer.
  Status CheckQueries(int64_t slots) const {
    const SequenceSnapshot& cache = resume_.cache;
    const EvictionSettings& eviction = saved_.eviction;
    int64_t least = 0, most = 0;
    if (observations_.queries && eviction.timing == EvictionTiming::kChunked) {
      const int64_t window = observations_.Window(eviction.recent_tokens);
      const int64_t begun = std::clamp<int64_t>(window - (eviction.Trigger() - slots), 0, cache.tokens_seen);
      const bool is_new_window = cache.evictions > 0 && !observations_.window_spans_evictions;
      const int64_t appended = is_new_window ? slots - eviction.budget : cache.tokens_seen;
      most = std::min(begun, appended);
      least = std::clamp<int64_t>(appended - int64_t(cache.pinned_positions.size()), 0, most);
    }
    if (cache.query_rows >= least && cache.query_rows <= most) return OkStatus();
    return Refuse("queries: expected those of the " + std::to_string(most) +
                  " newest tokens, which the observation window has reached, found " +
                  std::to_string(cache.query_rows));
  }

  int64_t NumProtected(const HeadSnapshot& head) const {
    const EvictionSettings& eviction = saved_.eviction;
    const int64_t prompt = eviction.protect_prompt ? saved_.prompt_tokens : 0;
    const auto is_protected = ProtectedSlots(head.positions, {.sink_tokens = std::max(eviction.sink_tokens, prompt),
                                                              .recent_tokens = eviction.recent_tokens,
                                                              .pinned_positions = resume_.cache.pinned_positions});
    return std::count(is_protected.begin(), is_protected.end(), 1);
  }

  Status CheckNothingElse() const {
    for (const auto& [key, value] : file_.metadata()) {
      if (!keys_read_.contains(key)) return Refuse("metadata: unknown key '" + key.substr(0, 60) + "'");
    }
    if (tensors_read_ == int64_t(file_.tensors().size())) return OkStatus();
    return Refuse("expected " + std::to_string(tensors_read_) + " tensors, found " +
                  std::to_string(file_.tensors().size()));
  }

  const SafetensorsFile& file_;
  const SequenceFileModel& model_;
  SavedSequence saved_;
  ResumePoint resume_;
  Observations observations_;
  bool with_mass_ = false;
  std::set<std::string> keys_read_;
  int64_t tensors_read_ = 0;
};

}  // namespace

Status SaveSequence(const std::string& path, const SequenceFileModel& model, const SavedSequence& saved) {
  const SequenceSnapshot& cache = saved.resume->cache;
  WINNOW_CHECK(int64_t(saved.tokens.size()) == cache.tokens_seen + 1 && cache.dtype == model.kv_cache_dtype);
  std::vector<LayerRows> layers(static_cast<size_t>(cache.num_layers));
  std::map<std::string, SafetensorsTensor> tensors;
  const auto add = [&](const std::string& name, SafetensorsType type, const std::vector<int64_t>& shape,
                       std::span<const uint8_t> bytes) {
    tensors[name] = {type, shape, bytes};
  };
  add("tokens", SafetensorsType::kI32, {int64_t(saved.tokens.size())}, BytesOfVector(saved.tokens));
  add("pinned_positions", SafetensorsType::kI32, {int64_t(cache.pinned_positions.size())},
      BytesOfVector(cache.pinned_positions));
  for (int64_t layer = 0; layer < cache.num_layers; ++layer) {
    LayerRows& rows = layers[size_t(layer)];
    for (int64_t head = 0; head < cache.num_kv_heads; ++head) {
      const HeadSnapshot& from = cache.head(layer, head);
      rows.lengths.push_back(int32_t(from.length()));
      AppendTo(&rows.positions, from.positions);
      AppendTo(&rows.keys, from.keys);
      AppendTo(&rows.values, from.values);
      AppendTo(&rows.mass, from.mass);
      AppendTo(&rows.queries, from.queries);
    }
    const int64_t total = int64_t(rows.positions.size());
    const auto name = [&](const char* what) { return LayerTensor(layer, what); };
    add(name("lengths"), SafetensorsType::kI32, {cache.num_kv_heads}, BytesOfVector(rows.lengths));
    add(name("positions"), SafetensorsType::kI32, {total}, BytesOfVector(rows.positions));
    add(name("keys"), TypeOf(cache.dtype), {total, cache.head_dim}, rows.keys);
    add(name("values"), TypeOf(cache.dtype), {total, cache.head_dim}, rows.values);
    if (cache.query_rows > 0) {
      add(name("queries"), SafetensorsType::kF32,
          {cache.num_kv_heads, cache.query_rows, cache.query_group, cache.head_dim}, BytesOfVector(rows.queries));
    }
    if (cache.has_mass()) add(name("mass"), SafetensorsType::kI64, {total}, BytesOfVector(rows.mass));
  }
  return WriteSafetensors(path, MetadataOf(model, saved), tensors);
}

Result<SavedSequence> LoadSequence(const std::string& path, const SequenceFileModel& model) {
  WINNOW_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  return Loader(file, model).Load();
}

Result<std::string> SavedCacheDType(const std::string& path) {
  WINNOW_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  return file.GetMetadata("kv_cache_dtype");
}

}  // namespace winnow
