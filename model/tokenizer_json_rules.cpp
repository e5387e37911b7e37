#include <utility>
#include <vector>

#include "model/pre_tokenizer.h"
#include "model/tokenizer_json.h"
#include "model/tokenizer_pattern.h"
#include "model/tokenizer_text.h"

namespace winnow {
namespace {

using Kind = NormalizerStep::Kind;

constexpr size_t kMaxSteps = 16;

Result<std::string_view> TypeOf(const JsonView& object) {
  WINNOW_ASSIGN_OR_RETURN(const JsonView type, object.Get("type"));
  return type.Text();
}

Result<std::string> TextMember(const JsonView& object, const char* name) {
  WINNOW_ASSIGN_OR_RETURN(const JsonView member, object.Get(name));
  WINNOW_ASSIGN_OR_RETURN(const std::string_view text, member.Text());
  return std::string(text);
}

// Calls take(step) for a step, or for those of a "Sequence" (which holds no further one), whose list is `list`.
template <class F>
Status ForEachStep(const JsonView& rules, const char* list, F&& take) {
  WINNOW_ASSIGN_OR_RETURN(const std::string_view type, TypeOf(rules));
  if (type != "Sequence") return take(rules);
  WINNOW_RETURN_IF_ERROR(rules.OnlyMembers({"type", list}));
  WINNOW_ASSIGN_OR_RETURN(const JsonView steps, rules.Get(list));
  WINNOW_ASSIGN_OR_RETURN(const size_t size, steps.ArraySize());
  if (size > kMaxSteps) return steps.Bad("expected at most 16 steps, found " + std::to_string(size));
  for (size_t i = 0; i < size; ++i) WINNOW_RETURN_IF_ERROR(take(steps.At(i)));
  return OkStatus();
}

Status CheckValue(const JsonView& object, const char* name, const nlohmann::json& expected) {
  WINNOW_ASSIGN_OR_RETURN(const JsonView member, object.Get(name));
  return member.value() == expected ? OkStatus() : member.Unexpected(expected.dump());
}

Status ReadNormalizerStep(const JsonView& step, std::vector<NormalizerStep>* steps) {
  WINNOW_ASSIGN_OR_RETURN(const std::string_view type, TypeOf(step));
  if (type == "NFC") {
    steps->push_back({Kind::kFormC, "", ""});
    return step.OnlyMembers({"type"});
  }
  if (type == "Prepend") {
    WINNOW_ASSIGN_OR_RETURN(std::string mark, TextMember(step, "prepend"));
    steps->push_back({Kind::kPrepend, "", std::move(mark)});
    return step.OnlyMembers({"type", "prepend"});
  }
  if (type == "Replace") {
    WINNOW_ASSIGN_OR_RETURN(const JsonView pattern, step.Get("pattern"));
    WINNOW_RETURN_IF_ERROR(pattern.OnlyMembers({"String"}));
    WINNOW_ASSIGN_OR_RETURN(std::string from, TextMember(pattern, "String"));
    WINNOW_ASSIGN_OR_RETURN(std::string to, TextMember(step, "content"));
    if (from.empty()) return pattern.Bad("expected text to replace, found \"\"");
    steps->push_back({Kind::kReplace, std::move(from), std::move(to)});
    return step.OnlyMembers({"type", "pattern", "content"});
  }
  WINNOW_ASSIGN_OR_RETURN(const JsonView type_view, step.Get("type"));
  return type_view.Unexpected("NFC, Prepend, Replace or a Sequence of them");
}

// `scheme`: of "prepend_scheme", which is older files' "add_prefix_space" as well.
Result<std::string> PrependScheme(const JsonView& metaspace) {
  WINNOW_RETURN_IF_ERROR(
      metaspace.OnlyMembers({"type", "replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"}));
  WINNOW_RETURN_IF_ERROR(CheckValue(metaspace, "replacement", kSentencePieceSpace));
  if (metaspace.Has("prepend_scheme")) {
    WINNOW_ASSIGN_OR_RETURN(std::string scheme, TextMember(metaspace, "prepend_scheme"));
    if (scheme == "always" || scheme == "first" || scheme == "never") return scheme;
    WINNOW_ASSIGN_OR_RETURN(const JsonView view, metaspace.Get("prepend_scheme"));
    return view.Unexpected("always, first or never");
  }
  WINNOW_ASSIGN_OR_RETURN(const bool prefix, metaspace.BoolOr("add_prefix_space", true));
  return std::string(prefix ? "always" : "never");
}

Status ReadMetaspace(const JsonView& metaspace, std::vector<NormalizerStep>* steps, TokenizerSpec* spec) {
  if (!spec->cuts.empty()) return metaspace.Bad("expected Metaspace to come first, found it after a split");
  WINNOW_ASSIGN_OR_RETURN(const std::string scheme, PrependScheme(metaspace));
  WINNOW_ASSIGN_OR_RETURN(const bool split, metaspace.BoolOr("split", true));
  steps->push_back({Kind::kReplace, " ", kSentencePieceSpace});
  if (scheme == "always") steps->push_back({Kind::kPrependOnce, "", kSentencePieceSpace});
  if (scheme == "first") steps->push_back({Kind::kPrependOnceAtStart, "", kSentencePieceSpace});
  // Every mark begins a piece.
  if (split) spec->cuts.push_back("\xe2\x96\x81?[^\xe2\x96\x81]+|\xe2\x96\x81");
  return OkStatus();
}

Status ReadSplit(const JsonView& split, TokenizerSpec* spec) {
  WINNOW_RETURN_IF_ERROR(split.OnlyMembers({"type", "pattern", "behavior", "invert"}));
  WINNOW_RETURN_IF_ERROR(CheckValue(split, "behavior", "Isolated"));
  WINNOW_RETURN_IF_ERROR(CheckValue(split, "invert", false));
  WINNOW_ASSIGN_OR_RETURN(const JsonView pattern, split.Get("pattern"));
  WINNOW_RETURN_IF_ERROR(pattern.OnlyMembers({"Regex", "String"}));
  if (pattern.Has("String")) {
    WINNOW_ASSIGN_OR_RETURN(const std::string text, TextMember(pattern, "String"));
    spec->cuts.push_back(PatternOfText(text));
    return OkStatus();
  }
  WINNOW_ASSIGN_OR_RETURN(const JsonView regex, pattern.Get("Regex"));
  WINNOW_ASSIGN_OR_RETURN(const std::string_view text, regex.Text());
  auto translated = TranslatePattern(text);
  if (!translated.ok()) return regex.Bad(translated.status().message());
  spec->cuts.push_back(std::move(translated).value());
  return OkStatus();
}

Status ReadPreTokenizerStep(const JsonView& step, std::vector<NormalizerStep>* normalizer, TokenizerSpec* spec) {
  WINNOW_ASSIGN_OR_RETURN(const std::string_view type, TypeOf(step));
  WINNOW_ASSIGN_OR_RETURN(const JsonView type_view, step.Get("type"));
  if (spec->model == TokenizerModel::kByteLevelBpe) return type_view.Unexpected("nothing after ByteLevel");
  if (type == "Split") return ReadSplit(step, spec);
  if (type == "Metaspace") return ReadMetaspace(step, normalizer, spec);
  if (type == "Digits") {
    WINNOW_RETURN_IF_ERROR(step.OnlyMembers({"type", "individual_digits"}));
    WINNOW_ASSIGN_OR_RETURN(const bool individual, step.BoolOr("individual_digits", false));
    spec->cuts.push_back(individual ? DigitPattern() : DigitPattern() + "+");
    return OkStatus();
  }
  if (type == "ByteLevel") {
    WINNOW_RETURN_IF_ERROR(step.OnlyMembers({"type", "add_prefix_space", "trim_offsets", "use_regex"}));
    WINNOW_RETURN_IF_ERROR(CheckValue(step, "add_prefix_space", false));
    if (spec->model == TokenizerModel::kUnigram) return type_view.Unexpected("no ByteLevel before Unigram");
    WINNOW_ASSIGN_OR_RETURN(const bool use_regex, step.BoolOr("use_regex", true));
    if (use_regex) spec->cuts.push_back(Gpt2Pattern());
    spec->model = TokenizerModel::kByteLevelBpe;
    return OkStatus();
  }
  return type_view.Unexpected("Split, Digits, ByteLevel, Metaspace or a Sequence of them");
}

// [{"SpecialToken": {"id": ..., "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], or without the first.
Status ReadTemplate(const JsonView& processor, TokenizerSpec* spec) {
  WINNOW_RETURN_IF_ERROR(processor.OnlyMembers({"type", "single", "pair", "special_tokens"}));
  spec->has_template = true;
  WINNOW_ASSIGN_OR_RETURN(const JsonView single, processor.Get("single"));
  WINNOW_ASSIGN_OR_RETURN(const size_t size, single.ArraySize());
  if (size == 0 || size > 2 || !single.At(size - 1).Has("Sequence") ||
      (size == 2 && !single.At(0).Has("SpecialToken"))) {
    return single.Bad("expected the text, with one special token in front or none, found something else");
  }
  if (size == 1) return OkStatus();
  WINNOW_ASSIGN_OR_RETURN(const JsonView token, single.At(0).Get("SpecialToken"));
  WINNOW_ASSIGN_OR_RETURN(const std::string name, TextMember(token, "id"));
  WINNOW_ASSIGN_OR_RETURN(const JsonView specials, processor.Get("special_tokens"));
  WINNOW_ASSIGN_OR_RETURN(const JsonView special, specials.Get(name.c_str()));
  WINNOW_ASSIGN_OR_RETURN(const JsonView ids, special.Get("ids"));
  WINNOW_ASSIGN_OR_RETURN(const size_t num_ids, ids.ArraySize());
  if (num_ids != 1) return ids.Bad("expected one id, found " + std::to_string(num_ids));
  WINNOW_ASSIGN_OR_RETURN(const int32_t id, ids.At(0).Id());
  if (size_t(id) >= spec->tokens.size() || spec->types[size_t(id)] != TokenType::kControl) {
    return ids.At(0).Unexpected("the id of a special token");
  }
  spec->special.bos_id = id;
  spec->special.add_bos = true;
  return OkStatus();
}

// What the decoders of known files do is what Tokenizer::Decode does; anything else is refused.
Status ReadDecoderStep(const JsonView& step, TokenizerSpec* spec) {
  WINNOW_ASSIGN_OR_RETURN(const std::string_view type, TypeOf(step));
  const bool byte_level = spec->model == TokenizerModel::kByteLevelBpe;
  if (type == "ByteLevel" && byte_level) return OkStatus();
  if (type == "Fuse") return OkStatus();
  if (!byte_level && type == "Replace") {
    WINNOW_RETURN_IF_ERROR(CheckValue(step, "pattern", {{"String", kSentencePieceSpace}}));
    return CheckValue(step, "content", " ");
  }
  if (!byte_level && type == "ByteFallback") return OkStatus();
  if (!byte_level && type == "Strip") {
    WINNOW_RETURN_IF_ERROR(CheckValue(step, "content", " "));
    WINNOW_RETURN_IF_ERROR(CheckValue(step, "stop", 0));
    WINNOW_RETURN_IF_ERROR(CheckValue(step, "start", 1));
    spec->decode_drops_space = true;
    return OkStatus();
  }
  if (!byte_level && type == "Metaspace") {
    WINNOW_ASSIGN_OR_RETURN(const std::string scheme, PrependScheme(step));
    spec->decode_drops_space = scheme != "never";
    return OkStatus();
  }
  WINNOW_ASSIGN_OR_RETURN(const JsonView type_view, step.Get("type"));
  return type_view.Unexpected(byte_level ? "ByteLevel" : "Replace, ByteFallback, Fuse, Strip, Metaspace");
}

}  // namespace

Status ReadTextRules(const JsonView& file, TokenizerSpec* spec) {
  std::vector<NormalizerStep> steps;
  if (file.Has("normalizer")) {
    WINNOW_ASSIGN_OR_RETURN(const JsonView rules, file.Get("normalizer"));
    WINNOW_RETURN_IF_ERROR(
        ForEachStep(rules, "normalizers", [&](const JsonView& step) { return ReadNormalizerStep(step, &steps); }));
  }
  spec->has_normalizer = !steps.empty();
  if (file.Has("pre_tokenizer")) {
    WINNOW_ASSIGN_OR_RETURN(const JsonView rules, file.Get("pre_tokenizer"));
    WINNOW_RETURN_IF_ERROR(ForEachStep(rules, "pretokenizers",
                                       [&](const JsonView& step) { return ReadPreTokenizerStep(step, &steps, spec); }));
  }
  spec->normalizer = Normalizer(std::move(steps));
  return OkStatus();
}

Status ReadOutputRules(const JsonView& file, TokenizerSpec* spec) {
  if (file.Has("post_processor")) {
    WINNOW_ASSIGN_OR_RETURN(const JsonView rules, file.Get("post_processor"));
    WINNOW_RETURN_IF_ERROR(ForEachStep(rules, "processors", [&](const JsonView& step) -> Status {
      WINNOW_ASSIGN_OR_RETURN(const std::string_view type, TypeOf(step));
      if (type == "ByteLevel") return OkStatus();  // decides about offsets only
      if (type == "TemplateProcessing") return ReadTemplate(step, spec);
      WINNOW_ASSIGN_OR_RETURN(const JsonView type_view, step.Get("type"));
      return type_view.Unexpected("ByteLevel, TemplateProcessing or a Sequence of them");
    }));
  }
  if (!file.Has("decoder")) return file.Bad("expected a \"decoder\", found none");
  WINNOW_ASSIGN_OR_RETURN(const JsonView rules, file.Get("decoder"));
  return ForEachStep(rules, "decoders", [&](const JsonView& step) { return ReadDecoderStep(step, spec); });
}

}  // namespace winnow
