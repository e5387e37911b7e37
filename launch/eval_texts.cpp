#include "launch/eval_texts.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "base/byte_stream.h"
#include "launch/json_fields.h"
#include "launch/text_file.h"

namespace winnow {
namespace {

struct Document {
  std::string id, kind = "text", split, text, prompt;
};

Status TakeField(const JsonField& field, Document* document) {
  std::string* const to = field.name == "text"     ? &document->text
                          : field.name == "id"     ? &document->id
                          : field.name == "kind"   ? &document->kind
                          : field.name == "split"  ? &document->split
                          : field.name == "prompt" ? &document->prompt
                                                   : nullptr;
  if (to == nullptr) return OkStatus();  // other tools' fields (answers, sources) do not matter here
  if (!field.value.is_string()) {
    return InvalidArgument("field \"" + field.name + "\": expected text, found " + Describe(field.value));
  }
  *to = field.value.get<std::string>();
  return OkStatus();
}

Result<std::vector<Document>> ReadJsonLines(const std::string& path, const std::string& content) {
  std::vector<Document> documents;
  const auto take = [&](const std::string& where, const std::vector<JsonField>& fields) {
    Document& document = documents.emplace_back();
    document.id = where;
    for (const JsonField& field : fields) WINNOW_RETURN_IF_ERROR(TakeField(field, &document));
    if (document.text.empty()) return InvalidArgument("expected the field \"text\" with text in it");
    if (document.text.starts_with(document.prompt)) return OkStatus();
    return InvalidArgument("the text does not begin with its \"prompt\"");
  };
  WINNOW_RETURN_IF_ERROR(ForEachJsonLine(path, content, take));
  return documents;
}

Result<std::vector<Document>> ReadDocuments(const std::string& path) {
  WINNOW_ASSIGN_OR_RETURN(std::string content, ReadTextFile(path, "text file"));
  if (path.ends_with(".jsonl")) return ReadJsonLines(path, content);
  Document document;
  document.id = path;
  document.kind = std::filesystem::path(path).stem();
  document.text = std::move(content);
  return std::vector<Document>{std::move(document)};
}

Result<EvalText> ToText(const Document& document, const EvalTextLimits& limits, const Tokenizer& tokenizer) {
  const auto encode = [&](const std::string& part) -> Result<std::vector<int32_t>> {
    auto tokens = tokenizer.Encode(part);
    if (!tokens.ok()) return InvalidArgument(document.id + ": " + tokens.status().message());
    return tokens;
  };
  EvalText text{.id = document.id, .kind = document.kind, .tokens = {}, .prompt_tokens = 0};
  WINNOW_ASSIGN_OR_RETURN(text.tokens, encode(document.text));
  if (int64_t(text.tokens.size()) > limits.max_tokens) text.tokens.resize(size_t(limits.max_tokens));
  if (text.tokens.size() < 2) return InvalidArgument(document.id + ": expected a text of 2 tokens or more");
  if (limits.prompt_tokens) {
    if (int64_t(text.tokens.size()) < *limits.prompt_tokens + 2) {
      return InvalidArgument("--prompt-tokens " + std::to_string(*limits.prompt_tokens) + ": " + document.id + " has " +
                             std::to_string(text.tokens.size()) + " tokens, expected 2 or more beyond it");
    }
    text.prompt_tokens = *limits.prompt_tokens;
  } else if (!document.prompt.empty()) {
    WINNOW_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt, encode(document.prompt));
    // A token may reach over the prompt's end: only whole tokens of it are protected.
    const auto differ = std::mismatch(prompt.begin(), prompt.end(), text.tokens.begin(), text.tokens.end());
    text.prompt_tokens = differ.first - prompt.begin();
  }
  return text;
}

}  // namespace

Result<std::vector<EvalText>> ReadEvalTexts(const std::vector<std::string>& paths, const EvalTextLimits& limits,
                                            const Tokenizer& tokenizer) {
  std::vector<EvalText> texts;
  std::map<std::string, int64_t> num_of_kind;
  for (const std::string& path : paths) {
    WINNOW_ASSIGN_OR_RETURN(const std::vector<Document> documents, ReadDocuments(path));
    for (const Document& document : documents) {
      if (limits.split && document.split != *limits.split) continue;
      if (limits.max_texts && num_of_kind[document.kind] == *limits.max_texts) continue;
      ++num_of_kind[document.kind];
      WINNOW_ASSIGN_OR_RETURN(EvalText text, ToText(document, limits, tokenizer));
      texts.push_back(std::move(text));
    }
  }
  if (!texts.empty()) return texts;
  return InvalidArgument(limits.split ? "--text: no document of the split '" + *limits.split + "'"
                                      : std::string("--text: the files hold no document"));
}

void BroadcastEvalTexts(Communicator& communicator, std::vector<EvalText>& texts) {
  ByteWriter writer;
  writer.Write(uint64_t(texts.size()));
  for (const EvalText& text : texts) {
    writer.Write(text.id);
    writer.Write(text.kind);
    writer.WriteAll(std::span<const int32_t>(text.tokens));
    writer.Write(text.prompt_tokens);
  }
  std::vector<std::byte> bytes = writer.Take();
  communicator.Broadcast(bytes, 0);
  ByteReader reader(bytes);
  texts.resize(reader.Read<uint64_t>());
  for (EvalText& text : texts) {
    text.id = reader.ReadString();
    text.kind = reader.ReadString();
    text.tokens = reader.ReadAll<int32_t>();
    text.prompt_tokens = reader.Read<int64_t>();
  }
}

}  // namespace winnow
