// The throttle's answers: `steps BUDGET` reads "wall own cpu" (ns) a line, and prints the level;
// `windows SEED COUNT` prints "is_on length".
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cupti/throttle.h"

int main(int, char** words) {
  using namespace sightline::cupti;
  if (std::strcmp(words[1], "windows") == 0) {
    Windows windows(200, 1800, std::strtoull(words[2], nullptr, 10));
    for (long n = std::atol(words[3]); n > 0; n--) {
      const Windows::Next next = windows.next();
      std::printf("%d %llu\n", next.is_on, static_cast<unsigned long long>(next.length_ns));
    }
    return 0;
  }
  Throttle throttle(std::atof(words[2]));
  unsigned long long wall, own, cpu;
  while (std::scanf("%llu %llu %llu", &wall, &own, &cpu) == 3)
    std::printf("%d\n", throttle.decide({wall, own, cpu}));
  return 0;
}
