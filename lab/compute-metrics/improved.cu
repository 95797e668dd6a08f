// The same with as much shared memory as is used.

#include <cuda_profiler_api.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kNodes = 1 << 20;
constexpr int kWidth = 32;
constexpr int kHops = 64;
constexpr int kRoom = kHops;
constexpr int kTimes = 20;

// Stop with a message where a call of CUDA fails.
static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
        std::exit(1);
    }
}

// A warp for each walk, and a thread for each feature of a node.
__global__ void walk(const float *features, const int *next, const float *weights, float *sums) {
    __shared__ float kept[kRoom];
    if (threadIdx.x < kHops) {
        kept[threadIdx.x] = weights[threadIdx.x];
    }
    __syncthreads();
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    int node = thread / kWidth;
    float sum = 0;
    for (int hop = 0; hop < kHops; ++hop) {
        sum = fmaf(kept[hop], features[node * kWidth + thread % kWidth], sum);
        node = next[node];
    }
    sums[thread] = sum;
}

int main() {
    std::vector<float> values(kNodes * kWidth, 1.0f);
    std::vector<int> next(kNodes);
    for (int i = 0; i < kNodes; ++i) {
        next[i] = static_cast<int>((i * 1664525ll + 1013904223ll) % kNodes);
    }
    const size_t bytes = values.size() * sizeof(float);
    float *features, *weights, *sums;
    int *nodes;
    check(cudaMalloc(&features, bytes));
    check(cudaMalloc(&nodes, kNodes * sizeof(int)));
    check(cudaMalloc(&weights, kHops * sizeof(float)));
    check(cudaMalloc(&sums, bytes));
    check(cudaMemcpy(features, values.data(), bytes, cudaMemcpyDefault));
    check(cudaMemcpy(nodes, next.data(), kNodes * sizeof(int), cudaMemcpyDefault));
    check(cudaMemcpy(weights, values.data(), kHops * sizeof(float), cudaMemcpyDefault));
    check(cudaProfilerStart());
    for (int i = 0; i < kTimes; ++i) {
        walk<<<kNodes / 4, 4 * kWidth>>>(features, nodes, weights, sums);
    }
    check(cudaDeviceSynchronize());
    check(cudaProfilerStop());
    check(cudaMemcpy(values.data(), sums, bytes, cudaMemcpyDefault));
    return values[0] == kHops ? 0 : 1;
}
