// Python's operators on values. Pure functions.
#pragma once

#include "base/status.h"
#include "model/chat_template/syntax.h"
#include "model/chat_template/value.h"

namespace winnow::jinja {

// InvalidArgument for operands that Python refuses, division by zero, and integers of 2^63 and more.
Result<Value> ApplyOperator(Operator op, const Value& left, const Value& right);
Result<Value> Negate(const Value& value);
// needle in container.
Result<bool> Contains(const Value& container, const Value& needle);

}  // namespace winnow::jinja
