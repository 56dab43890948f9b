// std::to_chars for floating point came with GCC 11, and the library keeps no older version of it.
#include <charconv>

extern "C" char* spell(char* first, char* last, double value) { return std::to_chars(first, last, value).ptr; }
