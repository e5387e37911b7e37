// A low-rank adapter (LoRA, arXiv 2106.09685) as Hugging Face's PEFT writes it: adapter_config.json and
// adapter_model.safetensors. Read strictly: whatever could change what the adapter adds is read or refused by name.
// Owned by whoever opened it; immutable, so any thread may read.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/status.h"
#include "model/model_config.h"
#include "model/safetensors.h"

namespace winnow {

// What one matrix W [outputs, inputs] of the model gets: W + scale * b a.
struct LowRankUpdate {
  SafetensorsTensor a;  // [rank, inputs], F32, F16 or BF16; views into the adapter's file
  SafetensorsTensor b;  // [outputs, rank]
};

class PeftAdapter {
 public:
  // BadFile naming the file, what was expected and what was found: another peft_type, forms of LoRA that winnow does
  // not have (DoRA, ranks or alphas of single layers, trained biases, saved modules, ...), unknown keys, matrices that
  // have only one of the two factors, factors of another rank or type, tensors that belong to no target module, and
  // target modules without any.
  static Result<PeftAdapter> Open(const std::string& directory);
  // Whether `path` is a directory with an adapter_config.json.
  static bool IsAdapter(const std::string& path);

  // BadFile if the model has no such matrix or one of another shape, or if a target module is adapted in some of its
  // layers only.
  Status CheckFits(const ModelConfig& model) const;

  int rank() const { return rank_; }
  double scale() const { return scale_; }                        // lora_alpha / rank, or / sqrt(rank) with use_rslora
  const std::string& base_model() const { return base_model_; }  // as the adapter's maker named it; may be empty
  // "q_proj" -> "attn_q", of the matrices that are adapted.
  const std::map<std::string, std::string>& modules() const { return modules_; }
  // By GGUF's name of the matrix ("blk.3.attn_q.weight"). Rows of B are in Hugging Face's order (half-split heads).
  const std::map<std::string, LowRankUpdate>& updates() const { return updates_; }
  uint64_t num_file_bytes() const { return file_.num_file_bytes(); }

 private:
  PeftAdapter(std::string directory, SafetensorsFile file) : directory_(std::move(directory)), file_(std::move(file)) {}
  Status ReadConfig();
  Status TakeTensors();
  Status CheckModules() const;
  Status Bad(const std::string& message) const { return BadFile(directory_ + ": " + message); }

  std::string directory_;
  SafetensorsFile file_;
  int rank_ = 0;
  double scale_ = 0;
  std::string base_model_;
  std::map<std::string, std::string> modules_;
  std::map<std::string, LowRankUpdate> updates_;
};

}  // namespace winnow
