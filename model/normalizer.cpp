#include "model/normalizer.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uniset.h>

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace winnow {
namespace {

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

// False when `text` is in form C already.
bool ToFormC(std::string_view text, std::string* composed) {
  if (IsAscii(text)) return false;
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* form_c = icu::Normalizer2::getNFCInstance(error);
  WINNOW_CHECK(U_SUCCESS(error));  // its tables are part of the library
  WINNOW_CHECK(text.size() <= size_t(std::numeric_limits<int32_t>::max()));
  const icu::StringPiece piece(text.data(), int32_t(text.size()));
  if (form_c->isNormalizedUTF8(piece, error)) return false;
  icu::StringByteSink<std::string> sink(composed, int32_t(text.size()));
  composed->clear();
  FormCOfUnicode9(*form_c).normalizeUTF8(0, piece, sink, nullptr, error);
  WINNOW_CHECK(U_SUCCESS(error));  // fails only for memory, which is a bad_alloc of the string
  return true;
}

bool Replace(std::string_view text, const std::string& from, const std::string& to, std::string* replaced) {
  size_t found = text.find(from);
  if (found == std::string_view::npos) return false;
  replaced->clear();
  replaced->reserve(text.size() + text.size() / 4 * (to.size() > from.size() ? to.size() - from.size() : 0));
  size_t done = 0;
  for (; found != std::string_view::npos; found = text.find(from, done)) {
    replaced->append(text, done, found - done);
    replaced->append(to);
    done = found + from.size();
  }
  replaced->append(text, done, text.size() - done);
  return true;
}

bool Prepend(std::string_view text, const std::string& mark, std::string* prepended) {
  *prepended = mark;
  prepended->append(text);
  return true;
}

bool ApplyStep(const NormalizerStep& step, std::string_view text, bool at_start, std::string* out) {
  switch (step.kind) {
    case NormalizerStep::Kind::kFormC:
      return ToFormC(text, out);
    case NormalizerStep::Kind::kReplace:
      return Replace(text, step.from, step.to, out);
    case NormalizerStep::Kind::kPrepend:
      return Prepend(text, step.to, out);
    case NormalizerStep::Kind::kPrependOnceAtStart:
      if (!at_start) return false;
      [[fallthrough]];
    case NormalizerStep::Kind::kPrependOnce:
      return !text.starts_with(step.to) && Prepend(text, step.to, out);
  }
  return false;
}

}  // namespace

std::string_view Normalizer::Apply(std::string_view text, bool at_start, std::string* storage) const {
  std::string next;
  for (const NormalizerStep& step : steps_) {
    if (text.empty()) break;
    if (!ApplyStep(step, text, at_start, &next)) continue;
    storage->swap(next);
    text = *storage;
  }
  return text;
}

}  // namespace winnow
