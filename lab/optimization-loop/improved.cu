// The same with tiles in shared memory, and eight sums for each thread.

#include <cuda_profiler_api.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kSize = 2048;
constexpr int kTile = 32;
constexpr int kEach = 8;
constexpr int kTimes = 10;

// Stop with a message where a call of CUDA fails.
static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
        std::exit(1);
    }
}

__global__ void multiply(const float *a, const float *b, float *c) {
    const int row = blockIdx.y * kTile + threadIdx.y * kEach;
    const int column = blockIdx.x * kTile + threadIdx.x;
    __shared__ float left[kTile][kTile], right[kTile][kTile];
    float sums[kEach] = {};
    for (int first = 0; first < kSize; first += kTile) {
        for (int i = 0; i < kEach; ++i) {
            const int line = threadIdx.y * kEach + i;
            left[line][threadIdx.x] = a[(row + i) * kSize + first + threadIdx.x];
            right[line][threadIdx.x] = b[(first + line) * kSize + column];
        }
        __syncthreads();
        for (int k = 0; k < kTile; ++k) {
            const float other = right[k][threadIdx.x];
            for (int i = 0; i < kEach; ++i) {
                sums[i] += left[threadIdx.y * kEach + i][k] * other;
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < kEach; ++i) {
        c[(row + i) * kSize + column] = sums[i];
    }
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
        multiply<<<dim3(kSize / kTile, kSize / kTile), dim3(kTile, kTile / kEach)>>>(a, b, c);
    }
    check(cudaDeviceSynchronize());
    check(cudaProfilerStop());
    check(cudaMemcpy(host.data(), c, bytes, cudaMemcpyDefault));
    return host[0] == kSize ? 0 : 1;
}
