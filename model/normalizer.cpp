#include "model/normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uniset.h>

#include <algorithm>

#include "base/check.h"

namespace winnow {
namespace {

// A space becomes three bytes in every model at hand, and form C makes at most three times the bytes. Steps of a file
// that write a thousand bytes for one, one after the other, are no rules of a language.
constexpr size_t kMaxGrowth = 64;
constexpr size_t kFreeBytes = size_t(64) << 10;

Status TooLong(size_t most_bytes, size_t num_bytes) {
  return InvalidArgument("text: expected the model's normalizer to make at most " + std::to_string(most_bytes) +
                         " bytes of it, found at least " + std::to_string(num_bytes));
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char byte) { return uint8_t(byte) < 0x80; });
}

// Form C as Hugging Face's tokenizers make it, whose tables are those of Unicode 9: marks that came later stay where
// they are. What today's form C leaves alone, theirs leaves alone too.
const icu::Normalizer2& FormCOfUnicode9(const icu::Normalizer2& form_c) {
  static const icu::UnicodeSet* const characters = [] {
    UErrorCode error = U_ZERO_ERROR;
    auto* set = new icu::UnicodeSet(u"[:age=9.0:]", error);
    WINNOW_CHECK(U_SUCCESS(error));
    set->freeze();
    return set;
  }();
  static const icu::FilteredNormalizer2 filtered(form_c, *characters);
  return filtered;
}

// What ICU writes, up to `most_bytes` of it.
class BoundedSink : public icu::ByteSink {
 public:
  BoundedSink(size_t most_bytes, std::string* out) : most_bytes_(most_bytes), out_(out) {}
  void Append(const char* bytes, int32_t num_bytes) override {
    num_bytes_ += size_t(num_bytes);
    if (num_bytes_ <= most_bytes_) out_->append(bytes, size_t(num_bytes));
  }
  size_t num_bytes() const { return num_bytes_; }

 private:
  size_t most_bytes_, num_bytes_ = 0;
  std::string* out_;
};

// Each step: false when it changes nothing; else its text is in `out`, which holds at most `most_bytes`.
Result<bool> ToFormC(std::string_view text, size_t most_bytes, std::string* composed) {
  if (IsAscii(text)) return false;
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* form_c = icu::Normalizer2::getNFCInstance(error);
  WINNOW_CHECK(U_SUCCESS(error));                                   // its tables are part of the library
  const icu::StringPiece piece(text.data(), int32_t(text.size()));  // at most 1 GiB: see Apply
  if (form_c->isNormalizedUTF8(piece, error)) return false;
  composed->clear();
  composed->reserve(text.size());
  BoundedSink sink(most_bytes, composed);
  FormCOfUnicode9(*form_c).normalizeUTF8(0, piece, sink, nullptr, error);
  WINNOW_CHECK(U_SUCCESS(error));  // fails only for memory, which is a bad_alloc of the string
  if (sink.num_bytes() > most_bytes) return TooLong(most_bytes, sink.num_bytes());
  return true;
}

Result<bool> Replace(std::string_view text, const NormalizerStep& step, size_t most_bytes, std::string* replaced) {
  const std::string &from = step.from, &to = step.to;
  size_t num_bytes = text.size();
  bool has_any = false;
  for (size_t found = text.find(from); found != std::string_view::npos; found = text.find(from, found + from.size())) {
    has_any = true;
    num_bytes = num_bytes - from.size() + to.size();
    // What shrinks later cannot make up for it: every replacement is by the same text.
    if (num_bytes > most_bytes && to.size() > from.size()) return TooLong(most_bytes, num_bytes);
  }
  if (!has_any) return false;
  replaced->clear();
  replaced->reserve(num_bytes);
  size_t done = 0;
  for (size_t found = text.find(from); found != std::string_view::npos; found = text.find(from, done)) {
    replaced->append(text, done, found - done);
    replaced->append(to);
    done = found + from.size();
  }
  replaced->append(text, done, text.size() - done);
  return true;
}

Result<bool> Prepend(std::string_view text, const std::string& mark, size_t most_bytes, std::string* prepended) {
  if (mark.size() > most_bytes - text.size()) return TooLong(most_bytes, text.size() + mark.size());
  prepended->clear();
  prepended->reserve(mark.size() + text.size());
  prepended->append(mark).append(text);
  return true;
}

// `text` is at most `most_bytes`.
Result<bool> ApplyStep(const NormalizerStep& step, std::string_view text, bool at_start, size_t most_bytes,
                       std::string* out) {
  switch (step.kind) {
    case NormalizerStep::Kind::kFormC:
      return ToFormC(text, most_bytes, out);
    case NormalizerStep::Kind::kReplace:
      return Replace(text, step, most_bytes, out);
    case NormalizerStep::Kind::kPrependAtStart:
      if (!at_start) return false;
      [[fallthrough]];
    case NormalizerStep::Kind::kPrepend:
      return Prepend(text, step.to, most_bytes, out);
    case NormalizerStep::Kind::kPrependOnceAtStart:
      if (!at_start) return false;
      [[fallthrough]];
    case NormalizerStep::Kind::kPrependOnce:
      if (text.starts_with(step.to)) return false;
      return Prepend(text, step.to, most_bytes, out);
  }
  return false;
}

}  // namespace

Result<std::string_view> Normalizer::Apply(std::string_view text, bool at_start, std::string* storage) const {
  if (text.size() > kMaxTextBytes) return TooLong(kMaxTextBytes, text.size());
  const size_t most_bytes = std::min(kMaxTextBytes, kFreeBytes + kMaxGrowth * text.size());
  std::string next;
  for (const NormalizerStep& step : steps_) {
    if (text.empty()) break;
    WINNOW_ASSIGN_OR_RETURN(const bool changed, ApplyStep(step, text, at_start, most_bytes, &next));
    if (!changed) continue;
    storage->swap(next);
    text = *storage;
  }
  return text;
}

}  // namespace winnow
