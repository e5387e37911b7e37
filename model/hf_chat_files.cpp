#include "model/hf_chat_files.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "model/file_bytes.h"
#include "model/strict_json.h"
#include "model/tokenizer_text.h"

namespace winnow {
namespace {

bool Exists(const std::string& path) {
  std::error_code error;  // what cannot be asked for is reported by whoever opens it
  return std::filesystem::exists(path, error);
}

// A file of the directory; none if it is not there.
class OptionalJson {
 public:
  static Result<OptionalJson> Read(const std::string& path) {
    OptionalJson file(path);
    if (!Exists(path)) return file;
    WINNOW_ASSIGN_OR_RETURN(file.document_, ReadStrictJson(path));
    WINNOW_RETURN_IF_ERROR(file.view().CheckObject());
    return file;
  }
  // An empty object if there is no file.
  JsonView view() const { return JsonView(document_, path_); }

 private:
  explicit OptionalJson(const std::string& path) : path_(path) {}

  std::string path_;
  nlohmann::json document_ = nlohmann::json::object();
};

// "<s>", or {"content": "<s>", ...}.
Result<std::optional<std::string>> TokenText(const JsonView& file, const char* name) {
  if (!file.Has(name)) return std::optional<std::string>();
  WINNOW_ASSIGN_OR_RETURN(JsonView token, file.Get(name));
  if (token.value().is_object()) {
    WINNOW_ASSIGN_OR_RETURN(token, token.Get("content"));
  }
  WINNOW_ASSIGN_OR_RETURN(const std::string_view text, token.Text());
  return std::optional<std::string>(text);
}

// The template of a list of {"name": ..., "template": ...} that is called default.
Result<std::string> DefaultOf(const JsonView& list) {
  WINNOW_ASSIGN_OR_RETURN(const size_t size, list.ArraySize());
  std::string names;
  for (size_t i = 0; i < size; ++i) {
    WINNOW_ASSIGN_OR_RETURN(const JsonView name_view, list.At(i).Get("name"));
    WINNOW_ASSIGN_OR_RETURN(const std::string_view name, name_view.Text());
    WINNOW_ASSIGN_OR_RETURN(const JsonView text_view, list.At(i).Get("template"));
    WINNOW_ASSIGN_OR_RETURN(const std::string_view text, text_view.Text());
    if (name == "default") return std::string(text);
    names += (names.empty() ? "" : ", ") + QuotedToken(name);
  }
  return list.Bad("expected a template named \"default\", found " + (names.empty() ? "none" : names));
}

}  // namespace

Result<TemplateTokens> ReadHfTemplateTokens(const std::string& directory) {
  TemplateTokens tokens;
  const std::pair<const char*, std::optional<std::string>*> wanted[] = {{"bos_token", &tokens.bos_token},
                                                                        {"eos_token", &tokens.eos_token},
                                                                        {"pad_token", &tokens.pad_token},
                                                                        {"unk_token", &tokens.unk_token}};
  for (const char* name : {"/tokenizer_config.json", "/special_tokens_map.json"}) {
    WINNOW_ASSIGN_OR_RETURN(const OptionalJson file, OptionalJson::Read(directory + name));
    for (const auto& [key, token] : wanted) {
      if (token->has_value()) continue;
      WINNOW_ASSIGN_OR_RETURN(*token, TokenText(file.view(), key));
    }
  }
  return tokens;
}

Result<ChatTemplate> ReadHfChatTemplate(const std::string& directory) {
  std::string source, path = directory + "/chat_template.jinja";
  if (Exists(path)) {
    WINNOW_ASSIGN_OR_RETURN(const FileBytes file, FileBytes::Map(path));
    if (file.bytes().size() > TemplateLimits{}.max_template_bytes) {
      return BadFile(path + ": expected at most " + std::to_string(TemplateLimits{}.max_template_bytes) +
                     " bytes, found " + std::to_string(file.bytes().size()));
    }
    source.assign(file.bytes().begin(), file.bytes().end());
  } else {
    path = directory + "/tokenizer_config.json";
    WINNOW_ASSIGN_OR_RETURN(const OptionalJson file, OptionalJson::Read(path));
    if (!file.view().Has("chat_template")) {
      return BadFile(directory +
                     ": expected a chat template in chat_template.jinja or tokenizer_config.json, found none");
    }
    WINNOW_ASSIGN_OR_RETURN(const JsonView view, file.view().Get("chat_template"));
    if (view.value().is_array()) {
      WINNOW_ASSIGN_OR_RETURN(source, DefaultOf(view));
    } else {
      WINNOW_ASSIGN_OR_RETURN(source, view.Text());
    }
  }
  WINNOW_ASSIGN_OR_RETURN(TemplateTokens tokens, ReadHfTemplateTokens(directory));
  auto chat_template = ChatTemplate::Load(source, std::move(tokens));
  if (!chat_template.ok()) return BadFile(path + ": " + chat_template.status().message());
  return chat_template;
}

}  // namespace winnow
