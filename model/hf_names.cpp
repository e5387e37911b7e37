#include "model/hf_names.h"

#include <algorithm>
#include <array>

namespace winnow {
namespace {

struct NamePair {
  std::string_view hf, gguf;
};

constexpr std::array<NamePair, 3> kModelNames = {{
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
}};
constexpr std::array<NamePair, 14> kLayerNames = {{
    {"input_layernorm.weight", "attn_norm.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.q_proj.bias", "attn_q.bias"},
    {"self_attn.k_proj.bias", "attn_k.bias"},
    {"self_attn.v_proj.bias", "attn_v.bias"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"post_attention_layernorm.weight", "ffn_norm.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
}};
constexpr std::string_view kHfLayer = "model.layers.", kGgufLayer = "blk.";

struct LayerName {
  std::string_view index, rest;
};

// The parts of "<prefix>12.<rest>"; the index as a number is written, so that no layer has two names.
std::optional<LayerName> SplitLayer(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  const size_t dot = name.find('.');
  if (dot == 0 || dot == std::string_view::npos) return std::nullopt;
  const std::string_view index = name.substr(0, dot);
  if (index.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  if (index.size() > 1 && index[0] == '0') return std::nullopt;
  return LayerName{index, name.substr(dot + 1)};
}

template <size_t n>
std::string_view Translate(const std::array<NamePair, n>& pairs, std::string_view name,
                           std::string_view NamePair::*from, std::string_view NamePair::*to) {
  const auto pair = std::find_if(pairs.begin(), pairs.end(), [&](const NamePair& p) { return p.*from == name; });
  return pair == pairs.end() ? std::string_view() : (*pair).*to;
}

// Empty for an unknown name.
std::string TranslateName(std::string_view name, std::string_view from_layer, std::string_view to_layer,
                          std::string_view NamePair::*from, std::string_view NamePair::*to) {
  if (const std::string_view whole = Translate(kModelNames, name, from, to); !whole.empty()) return std::string(whole);
  const auto layer = SplitLayer(name, from_layer);
  const std::string_view rest = layer ? Translate(kLayerNames, layer->rest, from, to) : std::string_view();
  if (rest.empty()) return "";
  return std::string(to_layer) + std::string(layer->index) + "." + std::string(rest);
}

}  // namespace

std::optional<std::string> GgufNameOf(std::string_view hf_name) {
  std::string name = TranslateName(hf_name, kHfLayer, kGgufLayer, &NamePair::hf, &NamePair::gguf);
  if (name.empty()) return std::nullopt;
  return name;
}

std::string HfNameOf(std::string_view gguf_name) {
  std::string name = TranslateName(gguf_name, kGgufLayer, kHfLayer, &NamePair::gguf, &NamePair::hf);
  return name.empty() ? std::string(gguf_name) : name;
}

}  // namespace winnow
