// Four small kernels with known behavior, for recording with Nsight Compute:
//
//   nvcc -O3 -lineinfo -o kernels examples/kernels.cu
//   ncu --set full --import-source yes -o kernels ./kernels
//
//   saxpy              streams memory: bound by DRAM bandwidth
//   strided_copy       every thread of a warp touches another sector: uncoalesced
//   conflicted         shared-memory tile without padding: 32-way bank conflicts
//   polynomial         many FMAs per byte: bound by the FP32 pipes
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

__global__ void saxpy(int n, float a, const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

__global__ void strided_copy(int n, int stride, const float* in, float* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int j = (int)(((long long)i * stride) % n);
  if (i < n) out[j] = in[j];
}

__global__ void conflicted(int width, const float* in, float* out) {
  __shared__ float tile[32][32];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  tile[threadIdx.x][threadIdx.y] = in[y * width + x];
  __syncthreads();
  out[y * width + x] = tile[threadIdx.x][threadIdx.y] * 2.0f;
}

__global__ void polynomial(int n, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = y[i], a = v, b = v + 1.0f, c = v + 2.0f, d = v + 3.0f;
  for (int k = 0; k < 256; ++k) {
    a = a * v + 0.5f; b = b * v + 0.25f; c = c * v + 0.125f; d = d * v + 1.0f;
  }
  y[i] = a + b + c + d;
}

// With a number: so many rounds, long enough for samples of the running program.
int main(int count, char** words) {
  const int rounds = count > 1 ? std::atoi(words[1]) : 1;
  const int n = 1 << 24, width = 4096;
  float *x, *y;
  if (cudaMalloc(&x, n * sizeof(float)) != cudaSuccess) { std::puts("no GPU"); return 1; }
  cudaMalloc(&y, n * sizeof(float));
  cudaMemset(x, 0, n * sizeof(float));
  cudaMemset(y, 0, n * sizeof(float));
  for (int round = 0; round < rounds; ++round) {
    saxpy<<<n / 256, 256>>>(n, 2.0f, x, y);
    strided_copy<<<n / 256, 256>>>(n, 33, x, y);
    conflicted<<<dim3(width / 32, width / 32), dim3(32, 32)>>>(width, x, y);
    polynomial<<<n / 256, 256>>>(n, y);
  }
  std::puts(cudaGetErrorString(cudaDeviceSynchronize()));
  return 0;
}
