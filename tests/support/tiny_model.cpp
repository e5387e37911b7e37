#include "tests/support/tiny_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/philox.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/tiny_vocabulary.h"

namespace winnow {
namespace {

// Numbers of one tensor, by index.
class TensorRandom {
 public:
  TensorRandom(uint64_t seed, uint32_t tensor) : seed_(seed), tensor_(tensor) {}
  uint32_t Bits(int64_t index) const {
    const PhiloxBlock block = Philox(seed_, {uint32_t(RandomPurpose::kTestWeights), tensor_, uint32_t(index / 4), 0});
    return block[size_t(index % 4)];
  }
  // Uniform in (-sqrt(3), sqrt(3)): variance 1.
  float Unit(int64_t index) const { return (2 * OpenUnitFloat(Bits(index)) - 1) * 1.7320508f; }

 private:
  uint64_t seed_;
  uint32_t tensor_;
};

// A positive normal half-precision number close to `value` (mantissa cut, which is as good as any other random scale).
uint16_t HalfBits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  return uint16_t(sign | ((((bits >> 23 & 0xffu) - 112u) << 10) | (bits >> 13 & 0x3ffu)));
}

// Block formats made of random bytes: where the scales lie, and what a scale of 1 would give.
struct BlockForm {
  DType dtype;
  std::vector<int64_t> halves;  // bytes of d, and of the minimum's scale where there is one
  float deviation;              // of the integers (times their own scales, in K formats)
  float min_per_scale;          // how large the minimum's scale is, so that weights are about as often below zero
};
const BlockForm& FormOf(DType dtype) {
  static const std::vector<BlockForm> forms = {
      {DType::kQ5_0, {0}, 9.2f, 0},      {DType::kQ5_1, {0, 2}, 9.2f, -15.5f}, {DType::kQ2_K, {80, 82}, 12.0f, 1.5f},
      {DType::kQ3_K, {108}, 42.0f, 0},   {DType::kQ4_K, {0, 2}, 180.0f, 7.5f}, {DType::kQ5_K, {0, 2}, 370.0f, 15.5f},
      {DType::kQ6_K, {208}, 1350.0f, 0}, {DType::kIQ4_NL, {0}, 66.0f, 0},      {DType::kIQ4_XS, {0}, 1200.0f, 0}};
  for (const BlockForm& form : forms) {
    if (form.dtype == dtype) return form;
  }
  WINNOW_CHECK(!"a block format of this table");
  __builtin_unreachable();
}

std::vector<uint8_t> RandomBlocks(const BlockForm& form, int64_t count, float deviation, const TensorRandom& random) {
  std::vector<uint8_t> bytes(static_cast<size_t>(BytesOf(form.dtype, count)));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = uint8_t(random.Bits(int64_t(i)) >> 24);
  const int64_t block_bytes = BlockBytes(form.dtype);
  for (int64_t at = 0; at < int64_t(bytes.size()); at += block_bytes) {
    // Not below the smallest normal half, which HalfBits asks for.
    const float scale =
        std::max(6.2e-5f, deviation / form.deviation * (0.75f + 0.5f * OpenUnitFloat(random.Bits(at + 1))));
    for (size_t i = 0; i < form.halves.size(); ++i) {
      const uint16_t half = HalfBits(i == 0 ? scale : scale * form.min_per_scale);
      std::memcpy(&bytes[size_t(at + form.halves[i])], &half, sizeof half);
    }
  }
  return bytes;
}

// Random weights of standard deviation about `deviation` in the given format.
std::vector<uint8_t> RandomWeights(DType dtype, int64_t count, float deviation, const TensorRandom& random) {
  std::vector<uint8_t> bytes;
  bytes.reserve(size_t(BytesOf(dtype, count)));
  if (dtype == DType::kF32 || dtype == DType::kBF16) {
    for (int64_t i = 0; i < count; ++i) {
      const float value = random.Unit(i) * deviation;
      if (dtype == DType::kF32) AppendBytes(&bytes, value);
      if (dtype == DType::kBF16) AppendBytes(&bytes, uint16_t(std::bit_cast<uint32_t>(value) >> 16));
    }
    return bytes;
  }
  if (dtype != DType::kQ4_0 && dtype != DType::kQ4_1 && dtype != DType::kQ8_0) {
    return RandomBlocks(FormOf(dtype), count, deviation, random);
  }
  // Random integers, and a scale per block that varies by half. Deviation of 4-bit integers: 4.6; of
  // 8-bit: 74.
  const bool is_q8 = dtype == DType::kQ8_0;
  const int64_t payload = is_q8 ? 32 : 16;
  for (int64_t block = 0; block < count / 32; ++block) {
    const float scale = deviation / (is_q8 ? 74.0f : 4.6f) * (0.75f + 0.5f * OpenUnitFloat(random.Bits(16 * block)));
    AppendBytes(&bytes, HalfBits(scale));
    if (dtype == DType::kQ4_1) AppendBytes(&bytes, HalfBits(-7.5f * scale));
    for (int64_t i = 0; i < payload; i += 4) AppendBytes(&bytes, random.Bits(16 * block + 1 + i / 4));
  }
  return bytes;
}

}  // namespace

std::vector<uint8_t> TinyModelBytes(const TinyModelSpec& spec) {
  GgufWriter writer;
  const TinyVocabulary vocabulary;
  const int64_t hidden = spec.hidden_size(), vocab = int64_t(vocabulary.tokens.size());
  const int64_t kv_columns = spec.num_kv_heads * spec.head_dim;
  writer.AddString("general.architecture", "llama");
  writer.AddString("general.name", "tiny random model");
  writer.AddUint32("llama.block_count", uint32_t(spec.num_layers));
  writer.AddUint32("llama.context_length", uint32_t(spec.context));
  writer.AddUint32("llama.embedding_length", uint32_t(hidden));
  writer.AddUint32("llama.feed_forward_length", uint32_t(spec.ffn_size));
  writer.AddUint32("llama.attention.head_count", uint32_t(spec.num_query_heads));
  writer.AddUint32("llama.attention.head_count_kv", uint32_t(spec.num_kv_heads));
  writer.AddUint32("llama.rope.dimension_count", uint32_t(spec.head_dim));
  writer.AddFloat32("llama.rope.freq_base", 10000.0f);
  writer.AddFloat32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  writer.AddUint32("llama.vocab_size", uint32_t(vocab));
  vocabulary.AddTo(&writer);

  uint32_t tensor = 0;
  const auto matrix = [&](const std::string& name, DType dtype, int64_t columns, int64_t rows, float gain) {
    const float deviation = gain / std::sqrt(float(columns));
    writer.AddTensor(name, dtype, {columns, rows},
                     RandomWeights(dtype, columns * rows, deviation, TensorRandom(spec.seed, tensor++)));
  };
  const auto norm = [&](const std::string& name) {
    std::vector<float> gains;
    const TensorRandom random(spec.seed, tensor++);
    for (int64_t i = 0; i < hidden; ++i) gains.push_back(1.0f + 0.2f * random.Unit(i));
    writer.AddFloatTensor(name, {hidden}, gains);
  };
  // The embedding's deviation is 1 per element, so that it can serve as the head with logits of a few units.
  matrix("token_embd.weight", spec.embeddings, hidden, vocab, 2.0f);
  if (!spec.tied_embeddings) matrix("output.weight", spec.embeddings, hidden, vocab, 2.0f);
  norm("output_norm.weight");
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    norm(prefix + "attn_norm.weight");
    norm(prefix + "ffn_norm.weight");
    matrix(prefix + "attn_q.weight", spec.weights, hidden, hidden, 1.5f);
    matrix(prefix + "attn_k.weight", spec.weights, hidden, kv_columns, spec.key_gain);
    matrix(prefix + "attn_v.weight", spec.weights, hidden, kv_columns, 1.0f);
    matrix(prefix + "attn_output.weight", spec.weights, hidden, hidden, 1.0f);
    matrix(prefix + "ffn_gate.weight", spec.weights, hidden, spec.ffn_size, 1.5f);
    matrix(prefix + "ffn_up.weight", spec.weights, hidden, spec.ffn_size, 1.5f);
    matrix(prefix + "ffn_down.weight", spec.weights, spec.ffn_size, hidden, 1.0f);
  }
  return writer.Build();
}

namespace {

template <class T>
T ValueOrDie(Result<T> result) {
  if (!result.ok()) std::fprintf(stderr, "%s\n", result.status().message().c_str());
  return std::move(result).value();
}

}  // namespace

TinyModel::TinyModel(const TinyModelSpec& spec)
    : file(ValueOrDie(GgufFile::FromBytes("tiny model", TinyModelBytes(spec)))),
      config(ValueOrDie(ReadModelConfig(file))) {}

}  // namespace winnow
