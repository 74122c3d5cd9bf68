// Runs the cases of all test files.
#include <cstring>

#include "check.h"

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  int passed = 0;
  int failed = 0;
  for (const check::Case& each : check::cases()) {
    if (argc > 1 && std::strstr(each.name, argv[1]) == nullptr) continue;
    const int before = check::failures();
    try {
      each.run();
    } catch (const check::Abandoned&) {
    }
    const bool isGood = check::failures() == before;
    (isGood ? passed : failed) += 1;
    std::printf("%s %s\n", isGood ? "ok  " : "FAIL", each.name);
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 && passed > 0 ? 0 : 1;
}
