// A product of matrices in which each thread reads a row and a column from memory.

#include <cuda_profiler_api.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kSize = 2048;
constexpr int kTile = 32;
constexpr int kTimes = 10;

// Stop with a message where a call of CUDA fails.
static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
        std::exit(1);
    }
}

__global__ void multiply(const float *a, const float *b, float *c) {
    const int row = blockIdx.y * kTile + threadIdx.y;
    const int column = blockIdx.x * kTile + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < kSize; ++k) {
        sum += a[row * kSize + k] * b[k * kSize + column];
    }
    c[row * kSize + column] = sum;
}

int main() {
    std::vector<float> host(kSize * kSize, 1.0f);
    const size_t bytes = host.size() * sizeof(float);
    float *a, *b, *c;
    check(cudaMalloc(&a, bytes));
    check(cudaMalloc(&b, bytes));
    check(cudaMalloc(&c, bytes));
    check(cudaMemcpy(a, host.data(), bytes, cudaMemcpyDefault));
    check(cudaMemcpy(b, host.data(), bytes, cudaMemcpyDefault));
    check(cudaProfilerStart());
    for (int i = 0; i < kTimes; ++i) {
        multiply<<<dim3(kSize / kTile, kSize / kTile), dim3(kTile, kTile)>>>(a, b, c);
    }
    check(cudaDeviceSynchronize());
    check(cudaProfilerStop());
    check(cudaMemcpy(host.data(), c, bytes, cudaMemcpyDefault));
    return host[0] == kSize ? 0 : 1;
}
