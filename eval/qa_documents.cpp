#include "eval/qa_documents.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace winnow {
namespace {

using Json = nlohmann::json;

// Deeper than both formats are: a file of a million brackets must not become a tree.
constexpr int kMaxDepth = 16;

Result<Json> Parse(const std::string& text) {
  bool too_deep = false;
  const auto keep = [&](int depth, Json::parse_event_t, Json&) {
    too_deep |= depth > kMaxDepth;
    return depth <= kMaxDepth;
  };
  Json json = Json::parse(text, keep, /*allow_exceptions=*/false);
  if (json.is_discarded()) return InvalidArgument("not valid JSON");
  if (too_deep) return InvalidArgument("nested more than " + std::to_string(kMaxDepth) + " levels deep");
  return json;
}

// The member, or null if there is none of this type.
const Json& Member(const Json& object, const char* name, Json::value_t type) {
  static const Json kNone;
  if (!object.is_object()) return kNone;
  const auto it = object.find(name);
  return it != object.end() && it->type() == type ? *it : kNone;
}

// Documents by their text while a file is read; indices are final only in Finish.
class Collector {
 public:
  int64_t Document(const std::string& text) { return numbers_.emplace(text, int64_t(numbers_.size())).first->second; }
  void Add(QaDocuments::Question question) { questions_.push_back(std::move(question)); }

  Result<QaDocuments> Finish(const std::string& where) && {
    if (questions_.empty()) return InvalidArgument(where + ": expected questions with answers, found none");
    QaDocuments all;
    std::vector<int64_t> sorted(numbers_.size());
    for (const auto& [text, number] : numbers_) {
      sorted[size_t(number)] = int64_t(all.documents.size());
      all.documents.push_back(text);
    }
    for (auto& question : questions_) {
      for (auto* list : {&question.documents, &question.distractors}) {
        for (int64_t& number : *list) number = sorted[size_t(number)];
      }
    }
    all.questions = std::move(questions_);
    return all;
  }

 private:
  std::map<std::string, int64_t> numbers_;
  std::vector<QaDocuments::Question> questions_;
};

Status SquadArticle(const Json& article, Collector* collector) {
  const Json& paragraphs = Member(article, "paragraphs", Json::value_t::array);
  if (paragraphs.is_null()) return InvalidArgument("expected an array \"paragraphs\"");
  std::vector<int64_t> documents;
  for (const Json& paragraph : paragraphs) {
    const Json& context = Member(paragraph, "context", Json::value_t::string);
    if (context.is_null()) return InvalidArgument("expected a text \"context\" in every paragraph");
    documents.push_back(collector->Document(context.get<std::string>()));
  }
  for (size_t i = 0; i < paragraphs.size(); ++i) {
    const Json& qas = Member(paragraphs[i], "qas", Json::value_t::array);
    if (qas.is_null()) return InvalidArgument("expected an array \"qas\" in every paragraph");
    for (const Json& qa : qas) {
      const Json& text = Member(qa, "question", Json::value_t::string);
      if (text.is_null()) return InvalidArgument("expected a text \"question\"");
      QaDocuments::Question question{text.get<std::string>(), {}, {documents[i]}, {}};
      for (const Json& answer : Member(qa, "answers", Json::value_t::array)) {
        const Json& reference = Member(answer, "text", Json::value_t::string);
        if (reference.is_null()) return InvalidArgument("expected a text \"text\" in every answer");
        auto& answers = question.answers;
        const auto words = reference.get<std::string>();
        if (std::find(answers.begin(), answers.end(), words) == answers.end()) answers.push_back(words);
      }
      for (int64_t document : documents) {
        if (document != documents[i]) question.distractors.push_back(document);
      }
      if (!question.answers.empty()) collector->Add(std::move(question));
    }
  }
  return OkStatus();
}

Status HotpotQuestion(const Json& entry, Collector* collector) {
  const Json& text = Member(entry, "question", Json::value_t::string);
  const Json& answer = Member(entry, "answer", Json::value_t::string);
  const Json& context = Member(entry, "context", Json::value_t::array);
  if (text.is_null() || answer.is_null() || context.is_null()) {
    return InvalidArgument("expected the texts \"question\" and \"answer\" and an array \"context\"");
  }
  QaDocuments::Question question{text.get<std::string>(), {answer.get<std::string>()}, {}, {}};
  for (const Json& paragraph : context) {
    const bool is_pair =
        paragraph.is_array() && paragraph.size() == 2 && paragraph[0].is_string() && paragraph[1].is_array();
    if (!is_pair) return InvalidArgument("expected [title, [sentence, ...]] in every \"context\"");
    std::string document = paragraph[0].get<std::string>() + "\n";
    for (const Json& sentence : paragraph[1]) {
      if (!sentence.is_string()) return InvalidArgument("expected texts as sentences of \"context\"");
      document += sentence.get<std::string>();
    }
    // Which of them answer the question is part of supporting_facts; all of them are given, as in RULER.
    question.documents.push_back(collector->Document(document));
  }
  collector->Add(std::move(question));
  return OkStatus();
}

}  // namespace

Result<QaDocuments> ParseSquad(const std::string& where, const std::string& text) {
  const auto json = Parse(text);
  if (!json.ok()) return InvalidArgument(where + ": " + json.status().message());
  const Json& data = Member(*json, "data", Json::value_t::array);
  if (data.is_null()) return InvalidArgument(where + ": expected a SQuAD file, an object with an array \"data\"");
  Collector collector;
  for (size_t i = 0; i < data.size(); ++i) {
    const Status status = SquadArticle(data[i], &collector);
    if (!status.ok()) return InvalidArgument(where + " article " + std::to_string(i + 1) + ": " + status.message());
  }
  return std::move(collector).Finish(where);
}

Result<QaDocuments> ParseHotpotQa(const std::string& where, const std::string& text) {
  const auto json = Parse(text);
  if (!json.ok()) return InvalidArgument(where + ": " + json.status().message());
  if (!json->is_array()) return InvalidArgument(where + ": expected a HotpotQA file, an array of questions");
  Collector collector;
  for (size_t i = 0; i < json->size(); ++i) {
    const Status status = HotpotQuestion((*json)[i], &collector);
    if (!status.ok()) return InvalidArgument(where + " question " + std::to_string(i + 1) + ": " + status.message());
  }
  return std::move(collector).Finish(where);
}

}  // namespace winnow
