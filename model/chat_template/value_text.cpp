#include "model/chat_template/value_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "model/chat_template/python_text.h"

namespace winnow::jinja {
namespace {

// Whether str.isprintable holds, but for the unassigned code points of scripts.
bool IsPrintable(uint32_t c) {
  const auto in = [c](uint32_t first, uint32_t last) { return c >= first && c <= last; };
  return !(in(0, 0x1f) || in(0x7f, 0xa0) || c == 0xad || c == 0x1680 || in(0x2000, 0x200f) || in(0x2028, 0x202f) ||
           in(0x205f, 0x206f) || c == 0x3000 || in(0xd800, 0xf8ff) || c == 0xfeff || in(0xfff0, 0xfffb) ||
           in(0xfffe, 0xffff) || in(0xe0000, 0x10ffff));
}

void AppendQuoted(const MarkedText& text, MarkedText* out) {
  const std::string_view bytes = text.view();
  const bool has_single = bytes.find('\'') != std::string_view::npos;
  const char quote = has_single && bytes.find('"') == std::string_view::npos ? '"' : '\'';
  out->Append(std::string(1, quote));
  for (const TextSpan& span : Characters(bytes)) {
    const uint32_t c = CodePointAt(bytes, span.begin);
    const bool marked = text.IsFromConversation(span.begin);
    if (c == uint32_t(quote) || c == '\\') {
      out->Append(std::string("\\") + char(c), marked);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out->Append(c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t", marked);
    } else if (IsPrintable(c)) {
      out->AppendPart(text, span.begin, span.end);
    } else {
      out->Append(c < 0x100     ? fmt::format("\\x{:02x}", c)
                  : c < 0x10000 ? fmt::format("\\u{:04x}", c)
                                : fmt::format("\\U{:08x}", c),
                  marked);
    }
    if (out->is_cut()) return;
  }
  out->Append(std::string(1, quote));
}

Status AppendRepr(const Value& value, MarkedText* out);

Status AppendList(const List& list, MarkedText* out) {
  const bool is_tuple = list.kind == ListKind::kTuple;
  if (list.kind != ListKind::kList && !is_tuple) {
    return InvalidArgument("a " + TypeName(Value(std::make_shared<const List>(List{list.kind, {}, 1, 1}))) +
                           " cannot be printed: use the filter list first");
  }
  out->Append(is_tuple ? "(" : "[");
  for (size_t i = 0; i < list.items.size() && !out->is_cut(); ++i) {
    if (i > 0) out->Append(", ");
    WINNOW_RETURN_IF_ERROR(AppendRepr(list.items[i], out));
  }
  if (is_tuple && list.items.size() == 1) out->Append(",");
  out->Append(is_tuple ? ")" : "]");
  return OkStatus();
}

Status AppendDict(const Dict& dict, MarkedText* out) {
  out->Append("{");
  for (size_t i = 0; i < dict.items.size() && !out->is_cut(); ++i) {
    if (i > 0) out->Append(", ");
    WINNOW_RETURN_IF_ERROR(AppendRepr(dict.items[i].first, out));
    out->Append(": ");
    WINNOW_RETURN_IF_ERROR(AppendRepr(dict.items[i].second, out));
  }
  out->Append("}");
  return OkStatus();
}

// Everything but texts inside lists.
Status AppendRepr(const Value& value, MarkedText* out) {
  if (value.is_undefined()) {
    out->Append("Undefined");
  } else if (value.is_none()) {
    out->Append("None");
  } else if (const bool* boolean = value.boolean()) {
    out->Append(*boolean ? "True" : "False");
  } else if (const int64_t* integer = value.integer()) {
    out->Append(std::to_string(*integer));
  } else if (const double* number = value.number()) {
    out->Append(FloatText(*number));
  } else if (const Text* text = value.text()) {
    if (text->is_markup) out->Append("Markup(");
    AppendQuoted(text->text, out);
    if (text->is_markup) out->Append(")");
  } else if (const List* list = value.list()) {
    return AppendList(*list, out);
  } else if (const Dict* dict = value.dict()) {
    return AppendDict(*dict, out);
  } else {
    return InvalidArgument("a " + TypeName(value) + " cannot be printed");
  }
  return OkStatus();
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, MarkedText* out) : style_(style), out_(*out) {}

  Status Write(const Value& value) {
    if (out_.is_cut()) return OkStatus();
    if (value.is_none()) {
      out_.Append("null");
    } else if (const bool* boolean = value.boolean()) {
      out_.Append(*boolean ? "true" : "false");
    } else if (const double* number = value.number()) {
      out_.Append(std::isnan(*number)    ? "NaN"
                  : !std::isinf(*number) ? FloatText(*number)
                  : *number < 0          ? "-Infinity"
                                         : "Infinity");
    } else if (const Text* text = value.text()) {
      WriteText(text->text);
    } else if (const Dict* dict = value.dict()) {
      return WriteDict(*dict);
    } else if (const List* list = value.list();
               list && (list->kind == ListKind::kList || list->kind == ListKind::kTuple)) {
      return WriteList(*list);
    } else if (value.integer()) {
      out_.Append(std::to_string(*value.integer()));
    } else {
      return InvalidArgument("Object of type " + TypeName(value) + " is not JSON serializable");
    }
    return OkStatus();
  }

 private:
  void NewLine() {
    if (!style_.indent) return;
    out_.Append("\n");
    for (int i = 0; i < level_ && !out_.is_cut(); ++i) out_.Append(*style_.indent);
  }

  void WriteText(const MarkedText& text) {
    const std::string_view bytes = text.view();
    out_.Append("\"");
    for (const TextSpan& span : Characters(bytes)) {
      const uint32_t c = CodePointAt(bytes, span.begin);
      const std::string escape = Escape(c);
      if (escape.empty()) {
        out_.AppendPart(text, span.begin, span.end);
      } else {
        out_.Append(escape, text.IsFromConversation(span.begin));
      }
    }
    out_.Append("\"");
  }

  std::string Escape(uint32_t c) const {
    switch (c) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\f':
        return "\\f";
      case '\b':
        return "\\b";
    }
    if (c < 0x20 || (style_.ensure_ascii && c >= 0x7f && c < 0x10000)) return fmt::format("\\u{:04x}", c);
    if (style_.ensure_ascii && c >= 0x10000) {
      return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + ((c - 0x10000) & 0x3ff));
    }
    return "";
  }

  Status WriteKey(const Value& key) {
    if (key.text()) {
      WriteText(key.text()->text);
      return OkStatus();
    }
    if (!key.is_none() && !IsNumber(key)) {
      return InvalidArgument("keys must be str, int, float, bool or None, not " + TypeName(key));
    }
    out_.Append("\"");
    WINNOW_RETURN_IF_ERROR(Write(key));
    out_.Append("\"");
    return OkStatus();
  }

  Result<std::vector<const std::pair<Value, Value>*>> Entries(const Dict& dict) const {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.items) {
      if (style_.sort_keys && !entry.first.text()) return InvalidArgument("sort_keys: expected keys that are text");
      entries.push_back(&entry);
    }
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [](const auto* a, const auto* b) { return a->first.view() < b->first.view(); });
    }
    return entries;
  }

  Status WriteDict(const Dict& dict) {
    WINNOW_ASSIGN_OR_RETURN(const auto entries, Entries(dict));
    out_.Append("{");
    ++level_;
    for (size_t i = 0; i < entries.size() && !out_.is_cut(); ++i) {
      if (i > 0) out_.Append(style_.item_separator);
      NewLine();
      WINNOW_RETURN_IF_ERROR(WriteKey(entries[i]->first));
      out_.Append(style_.key_separator);
      WINNOW_RETURN_IF_ERROR(Write(entries[i]->second));
    }
    --level_;
    if (!entries.empty()) NewLine();
    out_.Append("}");
    return OkStatus();
  }

  Status WriteList(const List& list) {
    out_.Append("[");
    ++level_;
    for (size_t i = 0; i < list.items.size() && !out_.is_cut(); ++i) {
      if (i > 0) out_.Append(style_.item_separator);
      NewLine();
      WINNOW_RETURN_IF_ERROR(Write(list.items[i]));
    }
    --level_;
    if (!list.items.empty()) NewLine();
    out_.Append("]");
    return OkStatus();
  }

  const JsonStyle& style_;
  MarkedText& out_;
  int level_ = 0;
};

}  // namespace

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto scientific = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const std::string digits(buffer, scientific.ptr);
  const int exponent = std::stoi(digits.substr(digits.find('e') + 1));
  if (exponent < -4 || exponent >= 16) return digits;
  const auto fixed = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed);
  std::string text(buffer, fixed.ptr);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

Result<MarkedText> ToText(const Value& value) {
  if (value.is_undefined()) return MarkedText();
  if (value.text()) return value.text()->text;
  return ToRepr(value);
}

Result<MarkedText> ToRepr(const Value& value) {
  MarkedText text;
  WINNOW_RETURN_IF_ERROR(AppendRepr(value, &text));
  return text;
}

Result<MarkedText> ToJson(const Value& value, const JsonStyle& style) {
  MarkedText text;
  WINNOW_RETURN_IF_ERROR(JsonWriter(style, &text).Write(value));
  return text;
}

}  // namespace winnow::jinja
