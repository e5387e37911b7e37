#include "engine/step_plan.h"

#include "base/byte_stream.h"
#include "engine/resume_point.h"

namespace winnow {
namespace {

void WriteRequest(const Request& request, ByteWriter& writer) {
  writer.Write(request.id);
  writer.WriteAll(std::span<const int32_t>(request.prompt));
  writer.Write(request.original_prompt_tokens);
  writer.Write(request.max_tokens);
  writer.WriteAll(std::span<const int32_t>(request.stop_token_ids));
  writer.Write(request.sampling.temperature);
  writer.Write(request.sampling.top_k);
  writer.Write(request.sampling.top_p);
  writer.Write(request.sampling.min_p);
  writer.Write(request.sampling.seed);
  writer.Write(request.choice_index);
  writer.Write(request.eviction.policy);
  writer.Write(request.eviction.budget);
  writer.Write(request.eviction.interval);
  writer.Write(request.eviction.sink_tokens);
  writer.Write(request.eviction.recent_tokens);
  writer.Write(request.eviction.protect_prompt);
  writer.Write(request.eviction.timing);
  writer.Write(request.eviction.scope.has_value());
  writer.Write(request.eviction.scope.value_or(EvictionScope::kHead));
  writer.Write(request.eviction.even_heads);
  writer.Write(request.eviction.allocation.has_value());
  writer.Write(request.eviction.allocation.value_or(BudgetAllocation::kHead));
  writer.Write(request.eviction.budget_ratio.has_value());
  writer.Write(request.eviction.budget_ratio.value_or(0));
  writer.Write(request.eviction.budget_bytes.has_value());
  writer.Write(request.eviction.budget_bytes.value_or(0));
  writer.Write(request.eviction.larger_heads);
  writer.Write(request.eviction.num_kv_heads);
  writer.Write(request.eviction.replay_prompt.chunk_tokens);
  writer.WriteAll(std::span<const int32_t>(request.eviction.replay_prompt.first));
  writer.WriteAll(std::span<const int32_t>(request.eviction.replay_prompt.next));
  writer.Write(uint64_t(request.pinned.size()));
  for (const PinnedBlock& block : request.pinned) {
    writer.Write(block.after_tokens);
    writer.Write(block.num_slots);
    writer.WriteAll(std::span<const float>(block.keys));
    writer.WriteAll(std::span<const float>(block.values));
  }
  writer.Write(request.save_cache);
  writer.Write(request.recording);
  writer.Write(request.resume != nullptr);
  if (request.resume != nullptr) WriteResumePoint(*request.resume, writer);
}

Request ReadRequest(ByteReader& reader) {
  Request request;
  request.id = reader.Read<int64_t>();
  request.prompt = reader.ReadAll<int32_t>();
  request.original_prompt_tokens = reader.Read<int64_t>();
  request.max_tokens = reader.Read<int64_t>();
  request.stop_token_ids = reader.ReadAll<int32_t>();
  request.sampling.temperature = reader.Read<float>();
  request.sampling.top_k = reader.Read<int32_t>();
  request.sampling.top_p = reader.Read<float>();
  request.sampling.min_p = reader.Read<float>();
  request.sampling.seed = reader.Read<uint64_t>();
  request.choice_index = reader.Read<int64_t>();
  request.eviction.policy = reader.ReadString();
  request.eviction.budget = reader.Read<int64_t>();
  request.eviction.interval = reader.Read<int64_t>();
  request.eviction.sink_tokens = reader.Read<int64_t>();
  request.eviction.recent_tokens = reader.Read<int64_t>();
  request.eviction.protect_prompt = reader.Read<bool>();
  request.eviction.timing = reader.Read<EvictionTiming>();
  const bool has_scope = reader.Read<bool>();
  const auto scope = reader.Read<EvictionScope>();
  if (has_scope) request.eviction.scope = scope;
  request.eviction.even_heads = reader.Read<bool>();
  const bool has_allocation = reader.Read<bool>();
  const auto allocation = reader.Read<BudgetAllocation>();
  if (has_allocation) request.eviction.allocation = allocation;
  const bool has_ratio = reader.Read<bool>();
  const double ratio = reader.Read<double>();
  if (has_ratio) request.eviction.budget_ratio = ratio;
  const bool has_bytes = reader.Read<bool>();
  const int64_t bytes = reader.Read<int64_t>();
  if (has_bytes) request.eviction.budget_bytes = bytes;
  request.eviction.larger_heads = reader.Read<int64_t>();
  request.eviction.num_kv_heads = reader.Read<int64_t>();
  request.eviction.replay_prompt.chunk_tokens = reader.Read<int64_t>();
  request.eviction.replay_prompt.first = reader.ReadAll<int32_t>();
  request.eviction.replay_prompt.next = reader.ReadAll<int32_t>();
  const auto num_pinned = reader.Read<uint64_t>();
  for (uint64_t i = 0; i < num_pinned; ++i) {
    PinnedBlock& block = request.pinned.emplace_back();
    block.after_tokens = reader.Read<int64_t>();
    block.num_slots = reader.Read<int64_t>();
    block.keys = reader.ReadAll<float>();
    block.values = reader.ReadAll<float>();
  }
  request.save_cache = reader.Read<bool>();
  request.recording = reader.Read<int64_t>();
  if (reader.Read<bool>()) request.resume = std::make_shared<const ResumePoint>(ReadResumePoint(reader));
  return request;
}

}  // namespace

std::vector<std::byte> Serialise(const StepPlan& plan) {
  ByteWriter writer;
  writer.Write(plan.step);
  writer.WriteAll(std::span<const int64_t>(plan.finished));
  writer.Write(uint64_t(plan.admitted.size()));
  for (const Request& request : plan.admitted) WriteRequest(request, writer);
  writer.Write(uint64_t(plan.items.size()));
  for (const StepItem& item : plan.items) {
    writer.Write(item.request_id);
    writer.Write(item.num_tokens);
    writer.Write(item.sample);
    writer.Write(item.score);
    writer.Write(item.reference_item);
    writer.Write(item.pinned_block);
    writer.Write(item.evict);
  }
  writer.Write(plan.stop);
  return writer.Take();
}

StepPlan ParseStepPlan(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  StepPlan plan;
  plan.step = reader.Read<int64_t>();
  plan.finished = reader.ReadAll<int64_t>();
  const auto num_admitted = reader.Read<uint64_t>();
  for (uint64_t i = 0; i < num_admitted; ++i) plan.admitted.push_back(ReadRequest(reader));
  const auto num_items = reader.Read<uint64_t>();
  for (uint64_t i = 0; i < num_items; ++i) {
    StepItem& item = plan.items.emplace_back();
    item.request_id = reader.Read<int64_t>();
    item.num_tokens = reader.Read<int64_t>();
    item.sample = reader.Read<bool>();
    item.score = reader.Read<bool>();
    item.reference_item = reader.Read<int32_t>();
    item.pinned_block = reader.Read<int32_t>();
    item.evict = reader.Read<bool>();
  }
  plan.stop = reader.Read<bool>();
  WINNOW_CHECK(reader.AtEnd());
  return plan;
}

}  // namespace winnow
