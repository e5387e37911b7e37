#include "model/peft_adapter.h"

#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include "model/hf_config_fields.h"
#include "model/hf_names.h"
#include "model/strict_json.h"

namespace winnow {
namespace {

constexpr std::string_view kPrefix = "base_model.model.", kA = ".lora_A.weight", kB = ".lora_B.weight";
constexpr int kMaxRank = 1 << 16;

// What PEFT calls the matrices of a layer, and what GGUF files call them.
constexpr std::array<std::pair<const char*, const char*>, 7> kModules = {{{"q_proj", "attn_q"},
                                                                          {"k_proj", "attn_k"},
                                                                          {"v_proj", "attn_v"},
                                                                          {"o_proj", "attn_output"},
                                                                          {"gate_proj", "ffn_gate"},
                                                                          {"up_proj", "ffn_up"},
                                                                          {"down_proj", "ffn_down"}}};

std::string MatrixName(int64_t layer, const std::string& matrix) {
  return "blk." + std::to_string(layer) + "." + matrix + ".weight";
}

// [outputs, inputs] of a matrix of the list above.
std::pair<int64_t, int64_t> ShapeOf(const ModelConfig& model, const std::string& matrix) {
  const int64_t q = int64_t(model.num_query_heads) * model.head_dim, kv = int64_t(model.num_kv_heads) * model.head_dim;
  if (matrix == "attn_q") return {q, model.hidden_size};
  if (matrix == "attn_k" || matrix == "attn_v") return {kv, model.hidden_size};
  if (matrix == "attn_output") return {model.hidden_size, q};
  if (matrix == "ffn_down") return {model.hidden_size, model.ffn_size};
  return {model.ffn_size, model.hidden_size};
}

// null, false, nothing in a list or object: a feature that is not used.
bool IsUnused(const nlohmann::json& value) {
  return value.is_null() || value == false || (value.is_structured() && value.empty());
}

// The target modules' names.
Result<std::map<std::string, std::string>> ReadModules(HfFields* fields) {
  constexpr const char* kKey = "target_modules";
  std::map<std::string, std::string> modules;
  const nlohmann::json* value = fields->Take(kKey);
  const bool all = value != nullptr && *value == "all-linear";
  if (value == nullptr || value->empty() || !(all || value->is_array())) {
    return fields->Expected(kKey, "a list of module names, or all-linear");
  }
  for (const auto& [name, matrix] : kModules) {
    if (all) modules.emplace(name, matrix);
  }
  if (all) return modules;
  for (const nlohmann::json& asked : *value) {
    bool known = false;
    for (const auto& [name, matrix] : kModules) {
      if (asked != name) continue;
      known = true;
      if (!modules.emplace(name, matrix).second) return fields->Bad(kKey, std::string(name) + " is there twice");
    }
    if (!known) {
      return fields->Bad(kKey, "expected names among q_proj k_proj v_proj o_proj gate_proj up_proj down_proj, found " +
                                   (asked.is_string() ? asked.dump() : "something else"));
    }
  }
  return modules;
}

bool IsFloat(SafetensorsType type) {
  return type == SafetensorsType::kF32 || type == SafetensorsType::kF16 || type == SafetensorsType::kBF16;
}

}  // namespace

bool PeftAdapter::IsAdapter(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path + "/adapter_config.json", error);
}

Result<PeftAdapter> PeftAdapter::Open(const std::string& directory) {
  WINNOW_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(directory + "/adapter_model.safetensors"));
  PeftAdapter adapter(directory, std::move(file));
  WINNOW_RETURN_IF_ERROR(adapter.ReadConfig());
  WINNOW_RETURN_IF_ERROR(adapter.TakeTensors());
  WINNOW_RETURN_IF_ERROR(adapter.CheckModules());
  return adapter;
}

Status PeftAdapter::ReadConfig() {
  const std::string path = directory_ + "/adapter_config.json";
  WINNOW_ASSIGN_OR_RETURN(const nlohmann::json document, ReadStrictJson(path));
  const JsonView view(document, path);
  WINNOW_RETURN_IF_ERROR(view.CheckObject());
  HfFields fields(view);
  WINNOW_ASSIGN_OR_RETURN(const auto type, fields.Text("peft_type"));
  if (type != "LORA") return fields.Expected("peft_type", "LORA");
  WINNOW_ASSIGN_OR_RETURN(const auto task, fields.Text("task_type"));
  if (task && *task != "CAUSAL_LM") return fields.Expected("task_type", "CAUSAL_LM");
  WINNOW_ASSIGN_OR_RETURN(rank_, fields.RequiredInt("r", 1, kMaxRank));
  WINNOW_ASSIGN_OR_RETURN(const auto alpha, fields.Number("lora_alpha"));
  if (!alpha) return fields.Expected("lora_alpha", "a number");
  WINNOW_ASSIGN_OR_RETURN(const auto is_stabilised, fields.Bool("use_rslora"));
  scale_ = *alpha / (is_stabilised.value_or(false) ? std::sqrt(double(rank_)) : double(rank_));
  WINNOW_ASSIGN_OR_RETURN(modules_, ReadModules(&fields));
  WINNOW_ASSIGN_OR_RETURN(const auto bias, fields.Text("bias"));
  if (bias && *bias != "none") return fields.Expected("bias", "none");
  WINNOW_ASSIGN_OR_RETURN(const auto base, fields.Text("base_model_name_or_path"));
  base_model_ = base.value_or("");
  // Forms of LoRA that add something else, or elsewhere.
  for (const char* key : {"use_dora", "fan_in_fan_out", "lora_bias", "modules_to_save", "layers_to_transform",
                          "layers_pattern", "rank_pattern", "alpha_pattern", "layer_replication", "exclude_modules",
                          "trainable_token_indices", "target_parameters", "use_qalora", "alora_invocation_tokens",
                          "arrow_config", "auto_mapping", "megatron_config"}) {
    const nlohmann::json* value = fields.Take(key);
    if (value != nullptr && !IsUnused(*value)) return fields.Bad(key, "winnow does not have this form of LoRA");
  }
  // Some ways to begin (pissa, olora, corda, loftq) change the model's own weights, which are then not those at hand.
  const nlohmann::json* begin = fields.Take("init_lora_weights");
  if (begin != nullptr && !begin->is_boolean() && *begin != "gaussian" && *begin != "eva" && *begin != "orthogonal") {
    return fields.Expected("init_lora_weights", "true, false, gaussian, eva or orthogonal");
  }
  // How it was trained and saved.
  fields.Ignore({"lora_dropout", "inference_mode", "loftq_config", "eva_config", "corda_config", "revision",
                 "megatron_core", "runtime_config", "qalora_group_size", "peft_version"});
  return fields.RefuseOthers();
}

Status PeftAdapter::TakeTensors() {
  std::map<std::string, int> halves;
  for (const auto& [name, tensor] : file_.tensors()) {
    std::string_view rest = name;
    const bool is_a = rest.ends_with(kA), is_b = rest.ends_with(kB);
    std::optional<std::string> matrix;
    if (rest.starts_with(kPrefix) && (is_a || is_b)) {
      rest.remove_prefix(kPrefix.size());
      rest.remove_suffix(is_a ? kA.size() : kB.size());
      const std::string module(rest.substr(rest.rfind('.') + 1));
      if (modules_.contains(module)) matrix = GgufNameOf(std::string(rest) + ".weight");
    }
    if (!matrix) return Bad("tensor " + name + ": expected the factor lora_A or lora_B of a target module");
    if (!IsFloat(tensor.type)) {
      return Bad("tensor " + name + ": expected F32, F16 or BF16, found " + std::string(Name(tensor.type)));
    }
    if (tensor.shape.size() != 2 || tensor.shape[is_a ? 0 : 1] != rank_) {
      return Bad("tensor " + name + ": expected " + (is_a ? "[r, inputs]" : "[outputs, r]") + " with the r of " +
                 std::to_string(rank_) + ", found " + ShapeText(tensor.shape));
    }
    (is_a ? updates_[*matrix].a : updates_[*matrix].b) = tensor;
    halves[*matrix] |= is_a ? 1 : 2;
  }
  for (const auto& [matrix, found] : halves) {
    if (found != 3) {
      return Bad("matrix " + HfNameOf(matrix) + ": expected lora_A and lora_B, found lora_" + (found == 1 ? "A" : "B") +
                 " alone");
    }
  }
  return OkStatus();
}

Status PeftAdapter::CheckModules() const {
  for (const auto& [module, matrix] : modules_) {
    bool found = false;
    for (const auto& [name, update] : updates_) found |= name.ends_with("." + matrix + ".weight");
    if (!found) return Bad("target module " + module + ": expected tensors, found none");
  }
  return OkStatus();
}

Status PeftAdapter::CheckFits(const ModelConfig& model) const {
  std::set<std::string> matrices;
  for (int64_t layer = 0; layer < model.num_layers; ++layer) {
    for (const auto& [module, matrix] : modules_) {
      const auto found = updates_.find(MatrixName(layer, matrix));
      if (found == updates_.end()) {
        return Bad("target module " + module + ": expected tensors for each of the model's " +
                   std::to_string(model.num_layers) + " layers, found none for layer " + std::to_string(layer));
      }
      const auto [outputs, inputs] = ShapeOf(model, matrix);
      const LowRankUpdate& update = found->second;
      if (update.b.shape[0] != outputs || update.a.shape[1] != inputs) {
        return Bad("matrix " + HfNameOf(found->first) + ": expected factors for " +
                   ShapeText(std::vector<int64_t>{outputs, inputs}) + ", found lora_B " + ShapeText(update.b.shape) +
                   " and lora_A " + ShapeText(update.a.shape));
      }
      matrices.insert(found->first);
    }
  }
  for (const auto& [name, update] : updates_) {
    if (matrices.contains(name)) continue;
    return Bad("matrix " + HfNameOf(name) + ": the model has " + std::to_string(model.num_layers) + " layers");
  }
  return OkStatus();
}

}  // namespace winnow
