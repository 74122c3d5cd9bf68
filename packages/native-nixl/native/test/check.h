// A small test harness: cases register themselves, checks count and go on, the last line is
// `N passed, N failed`. Run with a part of a name to run only those cases.
#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace check {

struct Case {
  const char* name;
  std::function<void()> run;
};

inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

struct Register {
  Register(const char* name, std::function<void()> run) {
    cases().push_back({name, std::move(run)});
  }
};

/** Ends a case at once; what failed is already printed. */
struct Abandoned : std::exception {};

inline int& failures() {
  static int count = 0;
  return count;
}

inline void fail(const char* file, int line, const std::string& what) {
  failures() += 1;
  std::printf("    %s:%d: %s\n", file, line, what.c_str());
}

template <class T>
std::string textOf(const T& value) {
  if constexpr (std::is_convertible_v<T, std::string>) {
    return value;
  } else {
    return std::to_string(value);
  }
}

template <class A, class B>
void equal(const A& actual, const B& expected, const char* text, const char* file, int line) {
  if (actual == expected) return;
  fail(file, line, std::string(text) + ": " + textOf(actual) + ", expected " + textOf(expected));
}

/** splitmix64 as a seeded source; small and the same everywhere. */
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  /** In [0, end). */
  uint64_t below(uint64_t end) { return next() % end; }
  uint64_t between(uint64_t first, uint64_t last) { return first + below(last - first + 1); }

 private:
  uint64_t state_;
};

}  // namespace check

#define CHECK_CONCAT2(a, b) a##b
#define CHECK_CONCAT(a, b) CHECK_CONCAT2(a, b)
// Numbered, not named by line: several files may be one unit.
#define TEST(name) CHECK_NUMBERED_TEST(name, __COUNTER__)
#define CHECK_NUMBERED_TEST(name, number)                          \
  static void CHECK_CONCAT(testCase, number)();                    \
  static const check::Register CHECK_CONCAT(testRegister, number)( \
      name, [] { CHECK_CONCAT(testCase, number)(); });             \
  static void CHECK_CONCAT(testCase, number)()
#define CHECK(condition)                                           \
  do {                                                             \
    if (!(condition)) check::fail(__FILE__, __LINE__, #condition); \
  } while (false)
#define CHECK_EQ(actual, expected) check::equal(actual, expected, #actual, __FILE__, __LINE__)
#define REQUIRE(condition)                         \
  do {                                             \
    if (!(condition)) {                            \
      check::fail(__FILE__, __LINE__, #condition); \
      throw check::Abandoned();                    \
    }                                              \
  } while (false)
