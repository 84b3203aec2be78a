// Numbers as messages show them.
#pragma once
#include <cstdint>
#include <string>

namespace shoal::text {

// The shortest text that reads back to the same value; "nan" whatever the sign bit of it, "inf", "-inf".
std::string number(double x);
std::string number(float x);

// "1 file", "2 files"; `many` where it is not `one` and an s.
std::string count(std::int64_t n, const std::string& one, const std::string& many = "");

std::string bytes(std::int64_t n);  // "12.3 MiB", "1.50 GiB"

}  // namespace shoal::text
