// The same with as many blocks as fit the GPU at once, each a little longer.

#include <cuda_profiler_api.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kItems = 288 * 16384;
constexpr int kRounds = 256;
constexpr int kTimes = 20;

// Stop with a message where a call of CUDA fails.
static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
        std::exit(1);
    }
}

// Each block has `part` items.
__global__ void __launch_bounds__(1024, 2) evaluate(float *items, int part) {
    const int begin = blockIdx.x * part;
    const int end = min(begin + part, kItems);
    for (int i = begin + threadIdx.x; i < end; i += blockDim.x) {
        float value = items[i];
        for (int round = 0; round < kRounds; ++round) {
            value = fmaf(value, 0.5f, 0.25f);
        }
        items[i] = value;
    }
}

int main() {
    float *items;
    check(cudaMalloc(&items, kItems * sizeof(float)));
    check(cudaMemset(items, 0, kItems * sizeof(float)));
    cudaDeviceProp gpu;
    int fit;
    check(cudaGetDeviceProperties(&gpu, 0));
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, evaluate, 1024, 0));
    const int blocks = fit * gpu.multiProcessorCount;
    const int part = (kItems + blocks - 1) / blocks;
    check(cudaProfilerStart());
    for (int i = 0; i < kTimes; ++i) {
        evaluate<<<blocks, 1024>>>(items, part);
    }
    check(cudaDeviceSynchronize());
    check(cudaProfilerStop());
    check(cudaFree(items));
    return 0;
}
