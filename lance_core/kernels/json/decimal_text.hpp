// Conversion of decimal numbers in texts to doubles.
#pragma once

#include <string_view>

namespace lance {

// Returns the double that is nearest to a number such as `12`, `.5` or `1.e-3`: digits, perhaps with a point and an
// exponent, without a sign. A number that is too large is infinite, and one that is too small is 0.
double parse_decimal(std::string_view text);

}  // namespace lance
