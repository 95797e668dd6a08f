// 64 recurrences in each thread, told to fit eight blocks on a multiprocessor.

#include <cuda_profiler_api.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kThreads = 1 << 18;
constexpr int kRounds = 256;
constexpr int kSums = 64;
constexpr int kTimes = 10;
constexpr int kBlocks = 8;

__constant__ float weights[kSums];

// Stop with a message where a call of CUDA fails.
static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
        std::exit(1);
    }
}

__global__ void __launch_bounds__(256, kBlocks) recur(const float *inputs, float *outputs) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    float sums[kSums] = {};
    for (int round = 0; round < kRounds; ++round) {
        const float input = inputs[round * kThreads + thread];
        for (int i = 0; i < kSums; ++i) {
            sums[i] = fmaf(sums[i], input, weights[i]);
        }
    }
    float total = 0;
    for (int i = 0; i < kSums; ++i) {
        total += sums[i];
    }
    outputs[thread] = total;
}

int main() {
    std::vector<float> host(kThreads * kRounds, 1.0f);
    const size_t bytes = host.size() * sizeof(float);
    float *inputs, *outputs;
    check(cudaMalloc(&inputs, bytes));
    check(cudaMalloc(&outputs, kThreads * sizeof(float)));
    check(cudaMemcpy(inputs, host.data(), bytes, cudaMemcpyDefault));
    check(cudaMemcpyToSymbol(weights, host.data(), sizeof(weights)));
    check(cudaProfilerStart());
    for (int i = 0; i < kTimes; ++i) {
        recur<<<kThreads / 256, 256>>>(inputs, outputs);
    }
    check(cudaDeviceSynchronize());
    check(cudaProfilerStop());
    check(cudaMemcpy(host.data(), outputs, kThreads * sizeof(float), cudaMemcpyDefault));
    return host[0] == kSums * kRounds ? 0 : 1;
}
