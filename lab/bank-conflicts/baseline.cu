// A transpose through shared memory whose tile is as wide as there are banks.

#include <cuda_profiler_api.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kSize = 4096;
constexpr int kTile = 32;
constexpr int kRows = 8;
constexpr int kTimes = 20;

// Stop with a message where a call of CUDA fails.
static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
        std::exit(1);
    }
}

__global__ void transpose(const float *from, float *to) {
    __shared__ float tile[kTile][kTile];
    int x = blockIdx.x * kTile + threadIdx.x;
    int y = blockIdx.y * kTile + threadIdx.y;
    for (int row = 0; row < kTile; row += kRows) {
        tile[threadIdx.y + row][threadIdx.x] = from[(y + row) * kSize + x];
    }
    __syncthreads();
    x = blockIdx.y * kTile + threadIdx.x;
    y = blockIdx.x * kTile + threadIdx.y;
    for (int row = 0; row < kTile; row += kRows) {
        to[(y + row) * kSize + x] = tile[threadIdx.x][threadIdx.y + row];
    }
}

int main() {
    std::vector<float> host(kSize * kSize);
    for (int i = 0; i < kSize * kSize; ++i) {
        host[i] = static_cast<float>(i);
    }
    const size_t bytes = host.size() * sizeof(float);
    float *from, *to;
    check(cudaMalloc(&from, bytes));
    check(cudaMalloc(&to, bytes));
    check(cudaMemcpy(from, host.data(), bytes, cudaMemcpyDefault));
    check(cudaProfilerStart());
    for (int i = 0; i < kTimes; ++i) {
        transpose<<<dim3(kSize / kTile, kSize / kTile), dim3(kTile, kRows)>>>(from, to);
    }
    check(cudaDeviceSynchronize());
    check(cudaProfilerStop());
    check(cudaMemcpy(host.data(), to, bytes, cudaMemcpyDefault));
    check(cudaFree(from));
    check(cudaFree(to));
    return host[1] == static_cast<float>(kSize) ? 0 : 1;
}
