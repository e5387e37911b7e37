// Filters that go through a list with another filter, a test or an attribute: map, select, selectattr, reject,
// rejectattr; and attr.
#include "model/chat_template/attributes.h"
#include "model/chat_template/filters.h"
#include "model/chat_template/tests.h"

namespace winnow::jinja {
namespace {

// Arguments from `begin` on belong to the filter or test that is called.
Arguments Rest(const Arguments& arguments, size_t begin) {
  return {{arguments.positional.begin() + ptrdiff_t(begin), arguments.positional.end()}, arguments.keywords};
}

// The items to go through: none where the value is empty, zero or none, which Jinja does not look at.
Result<std::vector<Value>> ItemsOrNone(const Value& value) {
  return Truth(value) ? Items(value) : std::vector<Value>();
}

// The items with `attribute` of each, or a default where that is undefined.
Result<Value> MapAttribute(const std::vector<Value>& items, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("map", {"attribute", "default"}, 1));
  std::vector<Value> mapped;
  for (const Value& item : items) {
    WINNOW_ASSIGN_OR_RETURN(Value attribute, GetPath(item, *bound[0]));
    if (attribute.is_undefined() && bound[1] && !bound[1]->is_none()) attribute = *bound[1];
    mapped.push_back(std::move(attribute));
  }
  return MakeList(std::move(mapped), ListKind::kIterator);
}

Result<Value> MapFilter(const Value& value, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const std::vector<Value> items, ItemsOrNone(value));
  if (arguments.positional.empty()) return MapAttribute(items, arguments);
  const Value& name = arguments.positional[0];
  if (!name.text() || !IsFilter(name.view())) return InvalidArgument("map: expected the name of a filter");
  const Arguments rest = Rest(arguments, 1);
  std::vector<Value> mapped;
  for (const Value& item : items) {
    WINNOW_ASSIGN_OR_RETURN(Value result, ApplyFilter(name.view(), item, rest));
    mapped.push_back(std::move(result));
  }
  return MakeList(std::move(mapped), ListKind::kIterator);
}

template <bool kWanted, bool kByAttribute>
Result<Value> Select(const Value& value, const Arguments& arguments) {
  const size_t test_at = kByAttribute ? 1 : 0;
  if (arguments.positional.size() < test_at) return InvalidArgument("selectattr: the name of the attribute is missing");
  const bool has_test = arguments.positional.size() > test_at;
  const Value name = has_test ? arguments.positional[test_at] : Value();
  if (has_test && (!name.text() || !IsTest(name.view()))) return InvalidArgument("select: expected the name of a test");
  const Arguments rest = Rest(arguments, test_at + has_test);
  WINNOW_ASSIGN_OR_RETURN(const std::vector<Value> items, ItemsOrNone(value));
  std::vector<Value> selected;
  for (const Value& item : items) {
    Value tested = item;
    if (kByAttribute) {
      WINNOW_ASSIGN_OR_RETURN(tested, GetPath(item, arguments.positional[0]));
    }
    bool holds = Truth(tested);
    if (has_test) {
      WINNOW_ASSIGN_OR_RETURN(holds, ApplyTest(name.view(), tested, rest));
    }
    if (holds == kWanted) selected.push_back(item);
  }
  return MakeList(std::move(selected), ListKind::kIterator);
}

Result<Value> Attr(const Value& value, const Arguments& arguments) {
  WINNOW_ASSIGN_OR_RETURN(const auto bound, arguments.Bind("attr", {"name"}, 1));
  WINNOW_ASSIGN_OR_RETURN(const MarkedText* name, TextOf(*bound[0], "attr"));
  if (value.is_undefined()) return InvalidArgument(value.undefined()->what);
  // Attributes only, no items.
  if (value.dict() || value.list() || value.text()) return GetMethod(value, name->view());
  return GetAttribute(value, name->view());
}

struct NamedFilter {
  std::string_view name;
  Filter filter;
};
constexpr NamedFilter kFilters[] = {
    {"map", MapFilter},
    {"select", Select<true, false>},
    {"selectattr", Select<true, true>},
    {"reject", Select<false, false>},
    {"rejectattr", Select<false, true>},
    {"attr", Attr},
};

}  // namespace

Filter FindSelectFilter(std::string_view name) {
  for (const NamedFilter& entry : kFilters) {
    if (entry.name == name) return entry.filter;
  }
  return nullptr;
}

}  // namespace winnow::jinja
