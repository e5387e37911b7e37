#include "model/hf_weights.h"

#include <cstring>
#include <optional>

#include "base/check.h"
#include "base/printable_text.h"
#include "model/hf_names.h"

namespace winnow {
namespace {

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";

std::optional<DType> DTypeOf(SafetensorsType type) {
  switch (type) {
    case SafetensorsType::kF32:
      return DType::kF32;
    case SafetensorsType::kF16:
      return DType::kF16;
    case SafetensorsType::kBF16:
      return DType::kBF16;
    default:
      return std::nullopt;
  }
}

// The frequencies of RoPE, which old checkpoints carry although they follow from config.json.
bool IsDerived(std::string_view name) {
  return name.starts_with("model.layers.") && name.ends_with(".self_attn.rotary_emb.inv_freq");
}

}  // namespace

Result<HfWeights> HfWeights::Make(ShardedSafetensors files, const std::string& directory, bool tied) {
  HfWeights weights(std::move(files), directory);
  WINNOW_RETURN_IF_ERROR(weights.AddTensors());
  WINNOW_RETURN_IF_ERROR(weights.CheckHead(tied));
  return weights;
}

Status HfWeights::AddTensors() {
  std::string unknown;
  for (const auto& [name, entry] : files_.tensors()) {
    if (IsDerived(name)) continue;
    const std::optional<std::string> known = GgufNameOf(name);
    if (!known) {
      unknown += (unknown.empty() ? "" : ", ") + Printable(name);
      continue;
    }
    const SafetensorsTensor& tensor = *entry.tensor;
    const std::string where = entry.file->path() + ": tensor " + Printable(name) + ": ";
    const auto refuse = [&where](const std::string& message) { return BadFile(where + message); };
    const std::optional<DType> dtype = DTypeOf(tensor.type);
    if (!dtype) return refuse("expected F32, F16 or BF16, found " + std::string(winnow::Name(tensor.type)));
    if (tensor.shape.empty() || tensor.shape.size() > 2 || tensor.bytes.empty()) {
      return refuse("expected a vector or a matrix, found shape " + ShapeText(std::span<const int64_t>(tensor.shape)));
    }
    TensorInfo info{*known, *dtype, {tensor.shape.rbegin(), tensor.shape.rend()}, int64_t(tensor.bytes.size())};
    tensors_.emplace(*known, std::move(info));
  }
  if (unknown.empty()) return OkStatus();
  constexpr size_t kMaxShown = 2000;
  if (unknown.size() > kMaxShown) unknown = unknown.substr(0, kMaxShown) + "...";
  return Bad("winnow does not know what these tensors are for: " + unknown);
}

Status HfWeights::CheckHead(bool tied) {
  const auto head = files_.tensors().find(kHead);
  const auto embedding = files_.tensors().find(kEmbedding);
  if (!tied) {
    if (head != files_.tensors().end()) return OkStatus();
    return Bad(std::string("expected tensor ") + kHead +
               ", found none; if the model is to use its embedding as head, set tie_word_embeddings to true in "
               "config.json");
  }
  if (head == files_.tensors().end()) return OkStatus();
  if (embedding != files_.tensors().end()) {
    const SafetensorsTensor &a = *head->second.tensor, &b = *embedding->second.tensor;
    const bool same = a.type == b.type && a.shape == b.shape && a.bytes.size() == b.bytes.size() &&
                      std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0;
    head->second.file->DropPages(a);
    embedding->second.file->DropPages(b);
    if (!same) {
      return Bad(std::string("tensor ") + kHead + ": config.json says tie_word_embeddings, but it differs from " +
                 kEmbedding + "; set tie_word_embeddings to false if the head is to be used, else remove it");
    }
  }
  tensors_.erase("output.weight");
  return OkStatus();
}

const TensorInfo* HfWeights::Find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

std::vector<const TensorInfo*> HfWeights::tensors() const {
  std::vector<const TensorInfo*> all;
  for (const auto& [name, tensor] : tensors_) all.push_back(&tensor);
  return all;
}

std::string HfWeights::NameInFile(std::string_view name) const {
  return Printable(HfNameOf(name));
}

const ShardedSafetensors::Tensor& HfWeights::InFile(const TensorInfo& tensor) const {
  WINNOW_CHECK(Find(tensor.name) == &tensor);
  return files_.tensors().at(HfNameOf(tensor.name));
}

Result<TensorRows> HfWeights::Rows(const TensorInfo& tensor, std::vector<int64_t> rows) const {
  return TensorRows{std::as_bytes(InFile(tensor).tensor->bytes), std::move(rows), {}};
}

void HfWeights::Release(const TensorInfo& tensor) const {
  const ShardedSafetensors::Tensor& file = InFile(tensor);
  file.file->DropPages(*file.tensor);
}

}  // namespace winnow
