#include "worker/cli/commands.h"

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  try {
    return understudy::worker::Main(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {  // out of memory, or a defect of ours: end with one line
    std::fprintf(stderr, "understudy: fatal: %s\n", error.what());
    return 70;
  }
}
