// Real launches through the real runtime: without a driver each fails with 35, and is seen.
#include <cstdio>
#include <cstdlib>

template <typename T>
__global__ void scale(T *x, T a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= a;
}
namespace deep {
__global__ void saxpy(int n, float a, float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
}  // namespace deep

int main() {
    char line[64];
    setvbuf(stdout, nullptr, _IOLBF, 0);
    printf("ready\n");
    while (fgets(line, sizeof(line), stdin)) {
        for (int i = 0; i < atoi(line + 1); i++) {
            deep::saxpy<<<dim3(7, 5, 3), dim3(128, 2), 2048>>>(1, 2.f, nullptr, nullptr);
            scale<float><<<3, 64>>>(nullptr, 1.f, 1);
        }
        cudaMemcpy(nullptr, line, 40, cudaMemcpyHostToDevice);
        printf("%d\n", cudaGetLastError());
    }
}
