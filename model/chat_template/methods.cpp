#include "model/chat_template/methods.h"

#include <algorithm>

#include "base/check.h"
#include "model/chat_template/operators.h"
#include "model/chat_template/python_format.h"
#include "model/chat_template/python_text.h"
#include "model/chat_template/value_text.h"

namespace winnow::jinja {
namespace {

using Function1 = Result<Value> (*)(const Value& object, const Arguments& arguments);

struct NamedMethod {
  std::string_view name;
  Function1 call;
};

template <MarkedText (*map)(const MarkedText&)>
Result<Value> Map(const Value& object, const Arguments& arguments) {
  WINNOW_RETURN_IF_ERROR(arguments.Bind("method", {}).status());
  return Value(map(object.text()->text));
}

template <bool kLeft, bool kRight>
Result<Value> StripMethod(const Value& object, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("strip", {"chars"}));
  const Sides sides{kLeft, kRight};
  if (!bound[0] || bound[0]->is_none()) return Value(Strip(object.text()->text, std::nullopt, sides));
  WINNOW_ASSIGN_OR_RETURN(const MarkedText* characters, TextOf(*bound[0], "strip"));
  return Value(Strip(object.text()->text, characters->view(), sides));
}

template <Result<std::vector<MarkedText>> (*split)(const MarkedText&, const MarkedText*, int64_t)>
Result<Value> SplitMethod(const Value& object, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("split", {"sep", "maxsplit"}));
  const MarkedText* separator = nullptr;
  if (bound[0] && !bound[0]->is_none()) {
    WINNOW_ASSIGN_OR_RETURN(separator, TextOf(*bound[0], "split"));
  }
  int64_t max_splits = -1;
  if (bound[1]) {
    WINNOW_ASSIGN_OR_RETURN(max_splits, IntegerOf(*bound[1], "split: maxsplit"));
  }
  WINNOW_ASSIGN_OR_RETURN(const auto parts, split(object.text()->text, separator, max_splits));
  return MakeList({parts.begin(), parts.end()});
}

Result<Value> SplitLinesMethod(const Value& object, const Arguments& arguments) {
  WINNOW_RETURN_IF_ERROR(arguments.Bind("splitlines", {}).status());
  const auto lines = SplitLines(object.text()->text);
  return MakeList({lines.begin(), lines.end()});
}

// startswith and endswith take one text or a tuple of them.
template <bool kAtEnd>
Result<Value> HasAffix(const Value& object, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind(kAtEnd ? "endswith" : "startswith", {"prefix"}, 1));
  std::vector<Value> wanted{*bound[0]};
  if (const List* list = bound[0]->list(); list && list->kind == ListKind::kTuple) wanted = list->items;
  for (const Value& affix : wanted) {
    WINNOW_ASSIGN_OR_RETURN(const MarkedText* text, TextOf(affix, kAtEnd ? "endswith" : "startswith"));
    if (kAtEnd ? object.view().ends_with(text->view()) : object.view().starts_with(text->view())) return Value(true);
  }
  return Value(false);
}

template <bool kAtEnd>
Result<Value> RemoveAffix(const Value& object, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("removeprefix", {"prefix"}, 1));
  WINNOW_ASSIGN_OR_RETURN(const MarkedText* affix, TextOf(*bound[0], "removeprefix"));
  const MarkedText& text = object.text()->text;
  if (kAtEnd ? !text.view().ends_with(affix->view()) : !text.view().starts_with(affix->view())) return Value(text);
  return Value(kAtEnd ? text.Part(0, text.size() - affix->size()) : text.Part(affix->size(), text.size()));
}

Result<Value> ReplaceMethod(const Value& object, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("replace", {"old", "new", "count"}, 2));
  WINNOW_ASSIGN_OR_RETURN(const MarkedText* old, TextOf(*bound[0], "replace"));
  WINNOW_ASSIGN_OR_RETURN(const MarkedText* replacement, TextOf(*bound[1], "replace"));
  int64_t count = -1;
  if (bound[2]) {
    WINNOW_ASSIGN_OR_RETURN(count, IntegerOf(*bound[2], "replace: count"));
  }
  return Value(Replace(object.text()->text, old->view(), *replacement, count));
}

// The place of a text as a number of characters, -1: nowhere.
template <bool kFromRight, bool kMustBeThere>
Result<Value> Find(const Value& object, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind(kMustBeThere ? "index" : "find", {"sub"}, 1));
  WINNOW_ASSIGN_OR_RETURN(const MarkedText* wanted, TextOf(*bound[0], "find"));
  const std::string_view text = object.view();
  size_t found = FindText(text, wanted->view());
  if (kFromRight && found != std::string_view::npos) {
    if (wanted->empty()) found = text.size();
    for (size_t next = found; !wanted->empty() && next != std::string_view::npos;) {
      found = next;
      next = FindText(text, wanted->view(), found + 1);
    }
  }
  if (found == std::string_view::npos) {
    return kMustBeThere ? Result<Value>(InvalidArgument("substring not found")) : Value(int64_t(-1));
  }
  return Value(int64_t(CountCharacters(text.substr(0, found))));
}

Result<Value> CountText(const Value& object, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("count", {"sub"}, 1));
  WINNOW_ASSIGN_OR_RETURN(const MarkedText* wanted, TextOf(*bound[0], "count"));
  if (wanted->empty()) return Value(int64_t(CountCharacters(object.view())) + 1);
  int64_t count = 0;
  for (size_t at = 0; (at = FindText(object.view(), wanted->view(), at)) != std::string_view::npos; ++count) {
    at += wanted->size();
  }
  return Value(count);
}

Result<Value> JoinMethod(const Value& object, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("join", {"iterable"}, 1));
  WINNOW_ASSIGN_OR_RETURN(const std::vector<Value> items, Items(*bound[0]));
  std::vector<MarkedText> parts;
  for (const Value& item : items) {
    WINNOW_ASSIGN_OR_RETURN(const MarkedText* part, TextOf(item, "join"));
    parts.push_back(*part);
  }
  return Value(Join(object.text()->text, parts));
}

Result<Value> FormatMethod(const Value& object, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(MarkedText text, BraceFormat(object.text()->text, arguments));
  return Value(std::move(text));
}

// isdigit, isalpha and such: of ASCII, one character at least.
template <bool (*holds)(char)>
Result<Value> All(const Value& object, const Arguments& arguments) {
  WINNOW_RETURN_IF_ERROR(arguments.Bind("method", {}).status());
  const std::string_view text = object.view();
  return Value(!text.empty() && std::all_of(text.begin(), text.end(), holds));
}
bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
bool IsAlpha(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool IsAlnum(char c) {
  return IsDigit(c) || IsAlpha(c);
}

Result<Value> IsSpaceMethod(const Value& object, const Arguments& arguments) {
  WINNOW_RETURN_IF_ERROR(arguments.Bind("isspace", {}).status());
  size_t at = 0;
  while (const size_t space = SpaceAt(object.view(), at)) at += space;
  return Value(at > 0 && at == object.view().size());
}

Result<Value> ItemsMethod(const Value& object, const Arguments& arguments) {
  WINNOW_RETURN_IF_ERROR(arguments.Bind("items", {}).status());
  std::vector<Value> pairs;
  for (const auto& [key, value] : object.dict()->items) {
    WINNOW_ASSIGN_OR_RETURN(Value pair, MakeList({key, value}, ListKind::kTuple));
    pairs.push_back(std::move(pair));
  }
  return MakeList(std::move(pairs), ListKind::kView);
}

template <bool kKeys>
Result<Value> HalfOfItems(const Value& object, const Arguments& arguments) {
  WINNOW_RETURN_IF_ERROR(arguments.Bind(kKeys ? "keys" : "values", {}).status());
  std::vector<Value> half;
  for (const auto& [key, value] : object.dict()->items) half.push_back(kKeys ? key : value);
  return MakeList(std::move(half), ListKind::kView);
}

Result<Value> Get(const Value& object, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("get", {"key", "default"}, 1));
  if (const Value* value = object.dict()->Find(*bound[0])) return *value;
  return bound[1].value_or(Value(None{}));
}

Result<Value> Copy(const Value& object, const Arguments& arguments) {
  WINNOW_RETURN_IF_ERROR(arguments.Bind("copy", {}).status());
  return object;  // values never change
}

Result<Value> CountItem(const Value& object, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("count", {"value"}, 1));
  const auto& items = object.list()->items;
  return Value(int64_t(std::count_if(items.begin(), items.end(), [&](const Value& v) { return Equal(v, *bound[0]); })));
}

Result<Value> IndexOfItem(const Value& object, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("index", {"value"}, 1));
  const auto& items = object.list()->items;
  const auto found = std::find_if(items.begin(), items.end(), [&](const Value& v) { return Equal(v, *bound[0]); });
  if (found == items.end()) return InvalidArgument("index: the value is not in the list");
  return Value(int64_t(found - items.begin()));
}

Result<Value> Cycle(const Value& object, const Arguments& arguments) {
  if (arguments.positional.empty()) return InvalidArgument("cycle: no items given");
  return arguments.positional[size_t(object.loop()->index0) % arguments.positional.size()];
}

constexpr NamedMethod kTextMethods[] = {
    {"strip", StripMethod<true, true>},
    {"lstrip", StripMethod<true, false>},
    {"rstrip", StripMethod<false, true>},
    {"split", SplitMethod<Split>},
    {"rsplit", SplitMethod<SplitFromRight>},
    {"splitlines", SplitLinesMethod},
    {"startswith", HasAffix<false>},
    {"endswith", HasAffix<true>},
    {"removeprefix", RemoveAffix<false>},
    {"removesuffix", RemoveAffix<true>},
    {"replace", ReplaceMethod},
    {"lower", Map<Lower>},
    {"upper", Map<Upper>},
    {"title", Map<Title>},
    {"capitalize", Map<Capitalize>},
    {"find", Find<false, false>},
    {"rfind", Find<true, false>},
    {"index", Find<false, true>},
    {"rindex", Find<true, true>},
    {"count", CountText},
    {"join", JoinMethod},
    {"format", FormatMethod},
    {"isdigit", All<IsDigit>},
    {"isalpha", All<IsAlpha>},
    {"isalnum", All<IsAlnum>},
    {"isspace", IsSpaceMethod},
};
constexpr NamedMethod kDictMethods[] = {
    {"items", ItemsMethod}, {"keys", HalfOfItems<true>}, {"values", HalfOfItems<false>}, {"get", Get}, {"copy", Copy}};
constexpr NamedMethod kListMethods[] = {{"count", CountItem}, {"index", IndexOfItem}, {"copy", Copy}};
constexpr NamedMethod kTupleMethods[] = {{"count", CountItem}, {"index", IndexOfItem}};
constexpr NamedMethod kLoopMethods[] = {{"cycle", Cycle}};
constexpr std::string_view kForbiddenOfLists[] = {"append", "clear",  "extend",  "insert",
                                                  "pop",    "remove", "reverse", "sort"};
constexpr std::string_view kForbiddenOfDicts[] = {"clear", "pop", "popitem", "setdefault", "update"};

template <size_t kSize>
Function1 FindIn(const NamedMethod (&methods)[kSize], std::string_view name) {
  for (const NamedMethod& method : methods) {
    if (method.name == name) return method.call;
  }
  return nullptr;
}

template <size_t kSize>
bool IsIn(const std::string_view (&names)[kSize], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

Function1 FindMethod(const Value& object, std::string_view name) {
  if (object.text()) return FindIn(kTextMethods, name);
  if (object.dict()) return FindIn(kDictMethods, name);
  if (object.loop()) return FindIn(kLoopMethods, name);
  const List* list = object.list();
  if (list && list->kind == ListKind::kList) return FindIn(kListMethods, name);
  if (list && (list->kind == ListKind::kTuple || list->kind == ListKind::kRange)) return FindIn(kTupleMethods, name);
  return nullptr;
}

}  // namespace

bool IsMethod(std::string_view name) {
  return FindIn(kTextMethods, name) || FindIn(kDictMethods, name) || FindIn(kListMethods, name) ||
         FindIn(kLoopMethods, name) || IsIn(kForbiddenOfLists, name) || IsIn(kForbiddenOfDicts, name);
}

bool HasMethod(const Value& object, std::string_view name) {
  return FindMethod(object, name) != nullptr;
}

bool IsForbiddenMethod(const Value& object, std::string_view name) {
  return (object.dict() && IsIn(kForbiddenOfDicts, name)) ||
         (object.list() && object.list()->kind == ListKind::kList && IsIn(kForbiddenOfLists, name));
}

Result<Value> CallMethod(const Method& method, const Arguments& arguments) {
  const Function1 call = FindMethod(method.object, method.name);
  WINNOW_CHECK(call != nullptr);
  return call(method.object, arguments);
}

}  // namespace winnow::jinja
