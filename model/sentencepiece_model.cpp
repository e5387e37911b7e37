#include "model/sentencepiece_model.h"

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/tokenizer_text.h"

namespace winnow {
namespace {

// One field of a message: a number, four bytes, or a range of bytes.
struct Field {
  uint64_t number = 0;
  int wire_type = 0;
  uint64_t value = 0;
  std::span<const uint8_t> bytes;
};

constexpr int kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

// Reads the fields of one message, one after the other.
class Message {
 public:
  explicit Message(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  bool AtEnd() const { return at_ == bytes_.size(); }

  // Nothing: the bytes are no field.
  std::optional<Field> Next() {
    const auto key = Varint();
    if (!key) return std::nullopt;
    Field field{*key >> 3, int(*key & 7), 0, {}};
    if (field.number == 0) return std::nullopt;
    switch (field.wire_type) {
      case kVarint: {
        const auto value = Varint();
        if (!value) return std::nullopt;
        field.value = *value;
        return field;
      }
      case kFixed64:
        return Take(8, &field);
      case kFixed32:
        return Take(4, &field);
      case kBytes: {
        const auto size = Varint();
        if (!size) return std::nullopt;
        return Take(*size, &field);
      }
      default:
        return std::nullopt;
    }
  }

 private:
  std::optional<Field> Take(uint64_t size, Field* field) {
    if (size > bytes_.size() - at_) return std::nullopt;
    field->bytes = bytes_.subspan(at_, size_t(size));
    at_ += size_t(size);
    return *field;
  }

  std::optional<uint64_t> Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (AtEnd()) return std::nullopt;
      const uint8_t byte = bytes_[at_++];
      if (shift == 63 && byte > 1) return std::nullopt;
      value |= uint64_t(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
};

// Calls take(field) for every field of a message.
template <class F>
Status ForEachField(std::span<const uint8_t> bytes, const TokenizerSpec& spec, const std::string& what, F&& take) {
  Message message(bytes);
  while (!message.AtEnd()) {
    const std::optional<Field> field = message.Next();
    if (!field) return spec.Bad(what + ": expected a field of a SentencePiece model, found bytes that are none");
    WINNOW_RETURN_IF_ERROR(take(*field));
  }
  return OkStatus();
}

Status CheckWire(const Field& field, int wire_type, const TokenizerSpec& spec, const std::string& what) {
  if (field.wire_type == wire_type) return OkStatus();
  return spec.Bad(what + ": field " + std::to_string(field.number) + ": expected wire type " +
                  std::to_string(wire_type) + ", found " + std::to_string(field.wire_type));
}

std::string TextOf(const Field& field) {
  return {reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size()};
}

// Of trainer_spec and normalizer_spec, with the values that hold when the file does not say.
struct Settings {
  uint64_t model_type = 1, unknown_id = 0, bos_id = 1, eos_id = 2;
  bool byte_fallback = false, suffix = false;
  bool dummy_prefix = true, remove_spaces = true, escape_spaces = true;
  bool has_character_map = false;
  std::string normalizer_name;
};

Status ReadPiece(const Field& piece, TokenizerSpec* spec) {
  const size_t id = spec->tokens.size();
  const std::string what = ElementName("pieces", id);
  std::string text;
  float score = 0;
  uint64_t type = 1;
  const auto take = [&](const Field& field) {
    if (field.number == 1) {
      text = TextOf(field);
      return CheckWire(field, kBytes, *spec, what);
    }
    if (field.number == 2) {
      WINNOW_RETURN_IF_ERROR(CheckWire(field, kFixed32, *spec, what));
      std::memcpy(&score, field.bytes.data(), sizeof score);
    }
    if (field.number == 3) {
      type = field.value;
      return CheckWire(field, kVarint, *spec, what);
    }
    return OkStatus();
  };
  WINNOW_RETURN_IF_ERROR(ForEachField(piece.bytes, *spec, what, take));
  // GGUF has SentencePiece's numbers for the types. Tokens of type "unused" would have to be split up again.
  if (type < 1 || type > 6 || type == uint64_t(TokenType::kUnused)) {
    return spec->Bad(what + ": expected a type of 1 to 4 or 6, found " + std::to_string(type));
  }
  spec->tokens.push_back(std::move(text));
  spec->scores.push_back(double(score));
  spec->types.push_back(TokenType(type));
  return OkStatus();
}

// Reads the numbers of a message into the places named.
Status ReadNumbers(const Field& message, const TokenizerSpec& spec, const std::string& what,
                   const std::vector<std::pair<uint64_t, uint64_t*>>& numbers,
                   const std::vector<std::pair<uint64_t, bool*>>& flags) {
  return ForEachField(message.bytes, spec, what, [&](const Field& field) {
    for (const auto& [number, place] : numbers) {
      if (field.number != number) continue;
      WINNOW_RETURN_IF_ERROR(CheckWire(field, kVarint, spec, what));
      *place = field.value;
    }
    for (const auto& [number, place] : flags) {
      if (field.number != number) continue;
      WINNOW_RETURN_IF_ERROR(CheckWire(field, kVarint, spec, what));
      *place = field.value != 0;
    }
    return OkStatus();
  });
}

Status ReadNormalizer(const Field& message, const TokenizerSpec& spec, Settings* settings) {
  const std::string what = "normalizer_spec";
  WINNOW_RETURN_IF_ERROR(
      ReadNumbers(message, spec, what, {},
                  {{3, &settings->dummy_prefix}, {4, &settings->remove_spaces}, {5, &settings->escape_spaces}}));
  return ForEachField(message.bytes, spec, what, [&](const Field& field) {
    if (field.number == 1) settings->normalizer_name = TextOf(field);
    if (field.number == 2) settings->has_character_map = !field.bytes.empty();
    return OkStatus();
  });
}

Status ApplySettings(const Settings& settings, TokenizerSpec* spec) {
  if (settings.model_type != 1 && settings.model_type != 2) {
    return spec->Bad("model_type: expected 1 (unigram) or 2 (BPE), found " + std::to_string(settings.model_type));
  }
  if (settings.has_character_map) {
    return spec->Bad("normalizer: expected identity, found " + QuotedToken(settings.normalizer_name));
  }
  const auto check = [&](const char* name, bool expected, bool found) {
    const auto text = [](bool value) { return std::string(value ? "true" : "false"); };
    return expected == found ? OkStatus()
                             : spec->Bad(std::string(name) + ": expected " + text(expected) + ", found " + text(found));
  };
  WINNOW_RETURN_IF_ERROR(check("remove_extra_whitespaces", false, settings.remove_spaces));
  WINNOW_RETURN_IF_ERROR(check("escape_whitespaces", true, settings.escape_spaces));
  WINNOW_RETURN_IF_ERROR(check("treat_whitespace_as_suffix", false, settings.suffix));
  spec->model = settings.model_type == 1 ? TokenizerModel::kUnigram : TokenizerModel::kSentencePieceBpe;
  spec->byte_fallback = settings.byte_fallback;
  spec->fuse_unknown = true;
  std::vector<NormalizerStep> steps;
  if (settings.dummy_prefix) steps.push_back({NormalizerStep::Kind::kPrepend, "", " "});
  steps.push_back({NormalizerStep::Kind::kReplace, " ", kSentencePieceSpace});
  spec->normalizer = Normalizer(std::move(steps));
  spec->has_normalizer = true;
  spec->decode_drops_space = settings.dummy_prefix;
  const auto id_of = [&](uint64_t id) -> std::optional<int32_t> {
    if (id >= spec->tokens.size()) return std::nullopt;  // -1: the model has none
    return int32_t(id);
  };
  spec->unknown_id = id_of(settings.unknown_id);
  spec->special.bos_id = id_of(settings.bos_id);
  spec->special.add_bos = spec->special.bos_id.has_value();  // as Llama's tokenizer class has it
  if (const auto eos = id_of(settings.eos_id)) spec->special.eos_ids.push_back(*eos);
  return OkStatus();
}

}  // namespace

Status ReadSentencePieceModel(std::span<const uint8_t> bytes, TokenizerSpec* spec) {
  spec->tokens_name = "pieces";
  Settings settings;
  const auto take = [&](const Field& field) -> Status {
    if (field.number < 1 || field.number > 3) return OkStatus();
    WINNOW_RETURN_IF_ERROR(CheckWire(field, kBytes, *spec, "model"));
    if (field.number == 1) return ReadPiece(field, spec);
    if (field.number == 3) return ReadNormalizer(field, *spec, &settings);
    return ReadNumbers(
        field, *spec, "trainer_spec",
        {{3, &settings.model_type}, {40, &settings.unknown_id}, {41, &settings.bos_id}, {42, &settings.eos_id}},
        {{24, &settings.suffix}, {35, &settings.byte_fallback}});
  };
  WINNOW_RETURN_IF_ERROR(ForEachField(bytes, *spec, "model", take));
  return ApplySettings(settings, spec);
}

}  // namespace winnow
