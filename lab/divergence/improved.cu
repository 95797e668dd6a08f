// The same cells sorted by material: nearly all warps have one.

#include <cuda_profiler_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kCells = 1 << 22;
constexpr int kKinds = 8;
constexpr int kRounds = 64;
constexpr int kTimes = 20;

// Stop with a message where a call of CUDA fails.
static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
        std::exit(1);
    }
}

// What a material does to a value, round after round.
template <int kKind>
__device__ float respond(float value) {
    for (int round = 0; round < kRounds; ++round) {
        value = fmaf(value, 0.5f + 0.01f * kKind, 1.0f / (kKind + 1));
    }
    return value;
}

__global__ void update(const int *kinds, float *values) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float value = values[i];
    switch (kinds[i]) {
        case 0: values[i] = respond<0>(value); break;
        case 1: values[i] = respond<1>(value); break;
        case 2: values[i] = respond<2>(value); break;
        case 3: values[i] = respond<3>(value); break;
        case 4: values[i] = respond<4>(value); break;
        case 5: values[i] = respond<5>(value); break;
        case 6: values[i] = respond<6>(value); break;
        default: values[i] = respond<7>(value); break;
    }
}

int main() {
    std::vector<int> host(kCells);
    for (int i = 0; i < kCells; ++i) {
        host[i] = i % kKinds;
    }
    std::sort(host.begin(), host.end());
    int *kinds;
    float *values;
    check(cudaMalloc(&kinds, kCells * sizeof(int)));
    check(cudaMalloc(&values, kCells * sizeof(float)));
    check(cudaMemcpy(kinds, host.data(), kCells * sizeof(int), cudaMemcpyDefault));
    check(cudaMemset(values, 0, kCells * sizeof(float)));
    check(cudaProfilerStart());
    for (int i = 0; i < kTimes; ++i) {
        update<<<kCells / 256, 256>>>(kinds, values);
    }
    check(cudaDeviceSynchronize());
    check(cudaProfilerStop());
    return 0;
}
