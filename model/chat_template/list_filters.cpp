// Filters that make a list of a list, or one value of it.
#include <algorithm>

#include "model/chat_template/attributes.h"
#include "model/chat_template/filters.h"
#include "model/chat_template/operators.h"
#include "model/chat_template/python_text.h"
#include "model/chat_template/value_text.h"

namespace winnow::jinja {
namespace {

Result<Value> LengthFilter(const Value& value, const Arguments& arguments) {
  WINNOW_RETURN_IF_ERROR(arguments.Bind("length", {}).status());
  WINNOW_ASSIGN_OR_RETURN(const int64_t length, Length(value));
  return Value(length);
}

Result<Value> ListFilter(const Value& value, const Arguments& arguments) {
  WINNOW_RETURN_IF_ERROR(arguments.Bind("list", {}).status());
  WINNOW_ASSIGN_OR_RETURN(std::vector<Value> items, Items(value));
  return MakeList(std::move(items));
}

Result<Value> First(const Value& value, const Arguments& arguments) {
  WINNOW_RETURN_IF_ERROR(arguments.Bind("first", {}).status());
  if (const List* list = value.list(); list && list->kind == ListKind::kIterator) {
    if (list->num_read < list->items.size()) return list->items[list->num_read++];
    return Value(Undefined{"No first item, sequence was empty."});
  }
  WINNOW_ASSIGN_OR_RETURN(const std::vector<Value> items, Items(value));
  return items.empty() ? Value(Undefined{"No first item, sequence was empty."}) : items.front();
}

Result<Value> Last(const Value& value, const Arguments& arguments) {
  WINNOW_RETURN_IF_ERROR(arguments.Bind("last", {}).status());
  if (value.list() && value.list()->kind == ListKind::kIterator) {
    return InvalidArgument("last: 'generator' object is not reversible");
  }
  WINNOW_ASSIGN_OR_RETURN(const std::vector<Value> items, Items(value));
  return items.empty() ? Value(Undefined{"No last item, sequence was empty."}) : items.back();
}

// The attribute that a filter goes by, of each item. What is undefined stays so.
Result<std::vector<Value>> Keys(const std::vector<Value>& items, const std::optional<Value>& attribute,
                                bool ignore_case) {
  std::vector<Value> keys;
  for (const Value& item : items) {
    Value key = item;
    if (attribute && !attribute->is_none()) {
      WINNOW_ASSIGN_OR_RETURN(key, GetPath(item, *attribute));
    }
    if (ignore_case && key.text()) key = Value(Lower(key.text()->text));
    keys.push_back(std::move(key));
  }
  return keys;
}

Result<Value> JoinFilter(const Value& value, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("join", {"d", "attribute"}));
  WINNOW_ASSIGN_OR_RETURN(std::vector<Value> items, Items(value));
  WINNOW_ASSIGN_OR_RETURN(items, Keys(items, bound[1], /*ignore_case=*/false));
  WINNOW_ASSIGN_OR_RETURN(const MarkedText separator, ToText(bound[0].value_or(Value::OfText(""))));
  std::vector<MarkedText> parts;
  for (const Value& item : items) {
    WINNOW_ASSIGN_OR_RETURN(MarkedText part, ToText(item));
    parts.push_back(std::move(part));
  }
  return Value(Join(separator, parts));
}

// The order in which `keys` ascend (or descend), equal ones as they are.
Result<std::vector<size_t>> SortedOrder(const std::vector<Value>& keys, bool descending) {
  std::vector<size_t> order(keys.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  // std::stable_sort needs a comparison that cannot fail: look for what is not ordered first.
  for (size_t i = 0; i + 1 < keys.size(); ++i) WINNOW_RETURN_IF_ERROR(Less(keys[i], keys[i + 1]).status());
  Status status;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const auto less = descending ? Less(keys[b], keys[a]) : Less(keys[a], keys[b]);
    if (!less.ok()) status = less.status();
    return less.ok() && *less;
  });
  WINNOW_RETURN_IF_ERROR(status);
  return order;
}

Result<Value> Sort(const Value& value, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("sort", {"reverse", "case_sensitive", "attribute"}));
  if (bound[2] && bound[2]->view().find(',') != std::string_view::npos) {
    return InvalidArgument("sort: expected one attribute");
  }
  WINNOW_ASSIGN_OR_RETURN(const std::vector<Value> items, Items(value));
  const bool ignore_case = !(bound[1] && Truth(*bound[1]));
  WINNOW_ASSIGN_OR_RETURN(const auto keys, Keys(items, bound[2], ignore_case));
  WINNOW_ASSIGN_OR_RETURN(const auto order, SortedOrder(keys, bound[0] && Truth(*bound[0])));
  std::vector<Value> sorted;
  for (const size_t i : order) sorted.push_back(items[i]);
  return MakeList(std::move(sorted));
}

Result<Value> DictSort(const Value& value, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("dictsort", {"case_sensitive", "by", "reverse"}));
  if (!value.dict()) return InvalidArgument("dictsort: expected a dict, found " + TypeName(value));
  const std::string_view by = bound[1] ? bound[1]->view() : "key";
  if (by != "key" && by != "value") return InvalidArgument("dictsort: expected by to be key or value");
  std::vector<Value> sort_by;
  for (const auto& entry : value.dict()->items) sort_by.push_back(by == "key" ? entry.first : entry.second);
  const bool ignore_case = !(bound[0] && Truth(*bound[0]));
  WINNOW_ASSIGN_OR_RETURN(const auto keys, Keys(sort_by, std::nullopt, ignore_case));
  WINNOW_ASSIGN_OR_RETURN(const auto order, SortedOrder(keys, bound[2] && Truth(*bound[2])));
  std::vector<Value> sorted;
  for (const size_t i : order) {
    const auto& [key, item] = value.dict()->items[i];
    WINNOW_ASSIGN_OR_RETURN(Value pair, MakeList({key, item}, ListKind::kTuple));
    sorted.push_back(std::move(pair));
  }
  return MakeList(std::move(sorted));
}

Result<Value> Unique(const Value& value, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("unique", {"case_sensitive", "attribute"}));
  WINNOW_ASSIGN_OR_RETURN(const std::vector<Value> items, Items(value));
  if (items.size() > kMaxKeys)
    return InvalidArgument("unique: expected at most " + std::to_string(kMaxKeys) + " items");
  WINNOW_ASSIGN_OR_RETURN(const auto keys, Keys(items, bound[1], !(bound[0] && Truth(*bound[0]))));
  std::vector<Value> unique, seen;
  for (size_t i = 0; i < items.size(); ++i) {
    if (std::any_of(seen.begin(), seen.end(), [&](const Value& key) { return Equal(key, keys[i]); })) continue;
    seen.push_back(keys[i]);
    unique.push_back(items[i]);
  }
  return MakeList(std::move(unique), ListKind::kIterator);
}

template <bool kMax>
Result<Value> Extreme(const Value& value, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind(kMax ? "max" : "min", {"case_sensitive", "attribute"}));
  WINNOW_ASSIGN_OR_RETURN(const std::vector<Value> items, Items(value));
  if (items.empty()) return Value(Undefined{"No aggregated item, sequence was empty."});
  WINNOW_ASSIGN_OR_RETURN(const auto keys, Keys(items, bound[1], !(bound[0] && Truth(*bound[0]))));
  size_t best = 0;
  for (size_t i = 1; i < keys.size(); ++i) {
    WINNOW_ASSIGN_OR_RETURN(const bool better, kMax ? Less(keys[best], keys[i]) : Less(keys[i], keys[best]));
    if (better) best = i;
  }
  return items[best];
}

Result<Value> Sum(const Value& value, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("sum", {"attribute", "start"}));
  WINNOW_ASSIGN_OR_RETURN(const std::vector<Value> items, Items(value));
  WINNOW_ASSIGN_OR_RETURN(const auto keys, Keys(items, bound[0], /*ignore_case=*/false));
  Value sum = bound[1].value_or(Value(int64_t(0)));
  if (!IsNumber(sum)) return InvalidArgument("sum: expected numbers, found " + TypeName(sum));
  for (const Value& key : keys) {
    WINNOW_ASSIGN_OR_RETURN(sum, ApplyOperator(Operator::kAdd, sum, key));
  }
  return sum;
}

Result<Value> Reverse(const Value& value, const Arguments& arguments) {
  WINNOW_RETURN_IF_ERROR(arguments.Bind("reverse", {}).status());
  WINNOW_ASSIGN_OR_RETURN(std::vector<Value> items, Items(value));
  std::reverse(items.begin(), items.end());
  if (!value.text()) return MakeList(std::move(items), ListKind::kIterator);
  MarkedText text;
  for (const Value& item : items) text.Append(item.text()->text);
  return Value(std::move(text));
}

Result<Value> ItemsFilter(const Value& value, const Arguments& arguments) {
  WINNOW_RETURN_IF_ERROR(arguments.Bind("items", {}).status());
  std::vector<Value> pairs;
  if (!value.dict() && !value.is_undefined())
    return InvalidArgument("items: expected a dict, found " + TypeName(value));
  if (value.dict()) {
    for (const auto& [key, item] : value.dict()->items) {
      WINNOW_ASSIGN_OR_RETURN(Value pair, MakeList({key, item}, ListKind::kTuple));
      pairs.push_back(std::move(pair));
    }
  }
  return MakeList(std::move(pairs), ListKind::kIterator);
}

Result<Value> Batch(const Value& value, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("batch", {"linecount", "fill_with"}, 1));
  WINNOW_ASSIGN_OR_RETURN(const int64_t length, IntegerOf(*bound[0], "batch: linecount"));
  if (length < 1 || length > kMaxValueSize) return InvalidArgument("batch: expected a linecount of 1 or more");
  WINNOW_ASSIGN_OR_RETURN(const std::vector<Value> items, Items(value));
  std::vector<Value> batches;
  for (size_t begin = 0; begin < items.size(); begin += size_t(length)) {
    const size_t end = std::min(items.size(), begin + size_t(length));
    std::vector<Value> batch(items.begin() + ptrdiff_t(begin), items.begin() + ptrdiff_t(end));
    if (bound[1] && !bound[1]->is_none()) batch.resize(size_t(length), *bound[1]);
    WINNOW_ASSIGN_OR_RETURN(Value list, MakeList(std::move(batch)));
    batches.push_back(std::move(list));
  }
  return MakeList(std::move(batches), ListKind::kIterator);
}

struct NamedFilter {
  std::string_view name;
  Filter filter;
};
constexpr NamedFilter kFilters[] = {
    {"length", LengthFilter}, {"count", LengthFilter}, {"list", ListFilter},   {"first", First},
    {"last", Last},           {"join", JoinFilter},    {"sort", Sort},         {"dictsort", DictSort},
    {"unique", Unique},       {"min", Extreme<false>}, {"max", Extreme<true>}, {"sum", Sum},
    {"reverse", Reverse},     {"items", ItemsFilter},  {"batch", Batch},
};

}  // namespace

Filter FindListFilter(std::string_view name) {
  for (const NamedFilter& entry : kFilters) {
    if (entry.name == name) return entry.filter;
  }
  return nullptr;
}

}  // namespace winnow::jinja
