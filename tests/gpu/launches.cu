// Launches of a kernel that does next to nothing, at a rate; prints how long a launch took in ns.
//
//   launches COUNT PER_SECOND     0 per second: as fast as it goes
#include <chrono>
#include <cstdio>
#include <cstdlib>

__global__ void touch(int* x) {
  if (threadIdx.x == 0) x[blockIdx.x] += 1;
}

int main(int count, char** words) {
  const long launches = count > 1 ? std::atol(words[1]) : 100000, rate = count > 2 ? std::atol(words[2]) : 0;
  int* x;
  if (cudaMalloc(&x, sizeof(int)) != cudaSuccess) return std::puts("no GPU"), 1;
  touch<<<1, 32>>>(x);
  cudaDeviceSynchronize();
  using clock = std::chrono::steady_clock;
  const auto start = clock::now();
  for (long i = 0; i < launches; ++i) {
    touch<<<1, 32>>>(x);
    while (rate && clock::now() - start < std::chrono::nanoseconds((i + 1) * 1000000000 / rate)) {}
  }
  cudaDeviceSynchronize();
  const std::chrono::duration<double, std::nano> took = clock::now() - start;
  std::printf("%.3f\n", took.count() / launches);
  return cudaGetLastError() != cudaSuccess;
}
