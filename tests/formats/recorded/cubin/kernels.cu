// Kernels whose lines are known: compiled with  nvcc -arch=sm_NN -lineinfo -cubin kernels.cu
#include "helper.cuh"

__global__ void saxpy(int n, float a, const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    y[i] = helper(a, x[i], y[i]);
}

template <typename T>
__global__ void reduce(const T* x, T* out, int n) {
  __shared__ T part[256];
  T sum = 0;
  for (int i = threadIdx.x; i < n; i += 256)
    sum += x[i];
  part[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int k = 1; k < 256; k++) sum += part[k];
    *out = sum;
  }
}
template __global__ void reduce<float>(const float*, float*, int);
